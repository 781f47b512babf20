#include "serve/worker.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "serve/stop.h"

namespace heed::serve {
namespace {

constexpr size_t kMostEvents = 64;                     // a stream pauses until its client has taken some of these
constexpr auto kLook = std::chrono::milliseconds(50);  // how often a waiting request looks whether its client has gone

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

Refused too_slow() { return {408, "this took too long; a shorter text or fewer requests at once take less"}; }
Refused ending() { return {503, "heed serve is ending"}; }

}  // namespace

struct Worker::Job {
  std::string name;
  nlohmann::json request;
  bool is_stream = false;
  std::atomic<bool> dropped{false};              // nobody waits for it any more
  std::unique_ptr<Service::Stream> stream = {};  // touched only by the thread that computes
  std::condition_variable changed = {};

  bool begun = false, ended = false, ready = false;  // ready: the stream is open
  bool paused = false;                               // neither in the queue nor computed: the client is slow
  Clock::time_point deadline = {};
  Reply reply = {};
  std::exception_ptr error = {};
  std::deque<Event> events = {};
};

Worker::Worker(const Open& open, const Limits& limits) : limits_(limits) {
  thread_ = std::thread([this, open] { run(open); });
  std::unique_lock lock(mutex_);
  state_.wait(lock, [this] { return opened_; });
  if (!failure_) return;
  lock.unlock();
  thread_.join();
  std::rethrow_exception(failure_);
}

Worker::~Worker() {
  stop(0);
  thread_.join();
}

bool Worker::stop(double patience) {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  work_.notify_all();
  for (const auto& job : queue_) job->changed.notify_all();
  return state_.wait_until(lock, after(patience), [this] { return ended_; });
}

void Worker::run(const Open& open) {
  try {
    service_ = open();
    lines_ = service_->lines();
  } catch (...) {
    failure_ = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    opened_ = true;
    state_.notify_all();
  }
  if (failure_) return;
  while (const std::shared_ptr<Job> job = next_job()) compute(job);
  const std::lock_guard lock(mutex_);
  for (const auto& job : queue_) job->stream.reset();
  queue_.clear();
  ended_ = true;
  state_.notify_all();
}

bool Worker::may_begin(const Job& job) const {
  if (job.begun || !job.is_stream) return true;
  return streams_ - paused_ < limits_.streams && streams_ < limits_.streams + limits_.unread;
}

std::shared_ptr<Worker::Job> Worker::next_job() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (stopping_) return nullptr;
    const auto found = std::find_if(queue_.begin(), queue_.end(), [this](const auto& job) { return may_begin(*job); });
    if (found == queue_.end()) {
      work_.wait(lock);
      continue;
    }
    std::shared_ptr<Job> job = *found;
    queue_.erase(found);
    if (!job->begun) {
      job->begun = true;
      job->deadline = after(job->is_stream ? limits_.stream_seconds : limits_.compute_seconds);
      --waiting_;
      if (job->is_stream) ++streams_;
    }
    return job;
  }
}

bool Worker::hand_over(Job& job, std::string_view name, const nlohmann::json& data) {
  using Json = nlohmann::json;
  std::string text = data.dump(-1, ' ', false, Json::error_handler_t::replace);  // a token may be half a character
  const std::lock_guard lock(mutex_);
  job.events.push_back({std::string(name), std::move(text)});
  job.changed.notify_all();
  return !job.dropped && !stopping_;
}

// Computes a call, opens a stream or takes its next step. Whether there is more to do.
bool Worker::advance(Job& job) {
  const auto stop = [this, &job] {
    if (job.dropped || Clock::now() > job.deadline) return true;
    const std::lock_guard lock(mutex_);
    return stopping_;
  };
  if (!job.is_stream) {
    job.reply = service_->call(job.name, job.request, stop);
    return false;
  }
  const StopScope scope(stop);
  if (Clock::now() > job.deadline) throw too_slow();
  if (job.stream)
    return job.stream->step(
        [this, &job](std::string_view name, const nlohmann::json& data) { return hand_over(job, name, data); });
  job.stream = service_->stream(job.name, job.request);
  return true;
}

void Worker::compute(const std::shared_ptr<Job>& job) {
  std::exception_ptr error;
  bool goes_on = false;
  if (!job->dropped) {
    try {
      goes_on = advance(*job);
    } catch (...) {
      error = std::current_exception();
    }
  }
  if (!goes_on) job->stream.reset();
  const std::lock_guard lock(mutex_);
  if (goes_on) {
    job->ready = true;
    job->paused = job->events.size() >= kMostEvents && !job->dropped;
    if (job->paused) {
      ++paused_;
    } else {
      queue_.push_back(job);
    }
  } else {
    job->ended = true;
    job->error = error;
    if (job->is_stream) --streams_;
  }
  job->changed.notify_all();
}

std::shared_ptr<Worker::Job> Worker::add(std::string name, nlohmann::json request, bool is_stream) {
  const auto job = std::make_shared<Job>();
  job->name = std::move(name);
  job->request = std::move(request);
  job->is_stream = is_stream;
  job->deadline = after(limits_.wait_seconds);
  const std::lock_guard lock(mutex_);
  if (stopping_) throw ending();
  if (waiting_ >= limits_.waiting) throw Refused(503, "too many requests are waiting; try again in a moment");
  ++waiting_;
  queue_.push_back(job);
  work_.notify_all();
  return job;
}

// Nobody waits for this job any more. One that has begun is ended by the thread that computes.
void Worker::drop(Job& job) {
  const std::lock_guard lock(mutex_);
  if (job.ended) return;
  job.dropped = true;
  const auto found =
      std::find_if(queue_.begin(), queue_.end(), [&job](const auto& other) { return other.get() == &job; });
  if (!job.begun && found != queue_.end()) {
    --waiting_;
    job.ended = true;
    queue_.erase(found);
  }
}

// A stream that paused takes turns again.
void Worker::go_on(const std::shared_ptr<Job>& job) {
  job->paused = false;
  --paused_;
  queue_.push_back(job);
  work_.notify_all();
}

void Worker::wait(std::unique_lock<std::mutex>& lock, Job& job, const Gone& gone, const std::function<bool()>& ready) {
  while (!ready()) {
    if (stopping_) throw ending();
    if (Clock::now() > job.deadline) throw too_slow();
    job.changed.wait_for(lock, kLook);
    if (ready()) return;
    lock.unlock();
    const bool alone = gone();
    lock.lock();
    if (alone) throw ClientGone{};
  }
}

Reply Worker::call(std::string name, nlohmann::json request, const Gone& gone) {
  const std::shared_ptr<Job> job = add(std::move(name), std::move(request), false);
  try {
    std::unique_lock lock(mutex_);
    wait(lock, *job, gone, [&job] { return job->ended; });
    if (!job->error) return std::move(job->reply);
    if (stopping_) throw ending();
    if (Clock::now() > job->deadline) throw too_slow();  // it was told to stop
    std::rethrow_exception(job->error);
  } catch (...) {
    drop(*job);
    throw;
  }
}

std::unique_ptr<Worker::Run> Worker::open(std::string name, nlohmann::json request, const Gone& gone) {
  const std::shared_ptr<Job> job = add(std::move(name), std::move(request), true);
  auto opened = std::make_unique<Run>(*this, job);
  std::unique_lock lock(mutex_);
  wait(lock, *job, gone, [&job] { return job->ready || job->ended; });
  if (job->ended && !job->ready && job->error) std::rethrow_exception(job->error);
  lock.unlock();
  return opened;
}

Worker::Run::~Run() {
  worker_.drop(*job_);
  const std::lock_guard lock(worker_.mutex_);
  if (job_->paused) worker_.go_on(job_);
}

std::optional<Worker::Event> Worker::Run::next(const Gone& gone) {
  Job& job = *job_;
  std::unique_lock lock(worker_.mutex_);
  worker_.wait(lock, job, gone, [&job] { return !job.events.empty() || job.ended; });
  if (job.events.empty()) {
    if (job.error) std::rethrow_exception(job.error);
    return std::nullopt;
  }
  Event event = std::move(job.events.front());
  job.events.pop_front();
  if (job.paused && job.events.size() < kMostEvents / 2) worker_.go_on(job_);
  return event;
}

}  // namespace heed::serve
