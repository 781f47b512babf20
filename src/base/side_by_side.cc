#include "base/side_by_side.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <vector>

#include "base/threads.h"

namespace heed {
namespace {

// The error of the first task that failed.
class FirstError {
 public:
  void note(int64_t task) {
    const std::scoped_lock lock(mutex_);
    if (!error_ || task < task_) error_ = std::current_exception(), task_ = task;
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
  int64_t task_ = 0;
};

}  // namespace

SideBySide::SideBySide(int64_t tasks, int threads)
    : tasks_(tasks),
      threads_(detail::in_parallel() ? 1 : static_cast<int>(std::clamp<int64_t>(tasks, 1, std::max(1, threads)))) {}

void SideBySide::run(const std::function<void(int64_t)>& work, const std::function<void()>& look_up) {
  constexpr auto kPatience = std::chrono::milliseconds(20);
  constexpr int64_t kLookUp = -1;  // before all tasks
  caller_ = std::this_thread::get_id();
  FirstError error;
  const auto guarded = [&](int64_t task, auto&& f) {
    try {
      f();
    } catch (...) {
      error.note(task);
      ended_ = true;
    }
  };

  std::atomic<int64_t> next{0};
  const int share = ThreadShare::current() * threads_;
  const auto take = [&] {
    const int64_t task = ended_ ? tasks_ : next.fetch_add(1);
    if (task >= tasks_) return false;
    const ThreadShare mine(share / ThreadShare::current());
    guarded(task, [&] { work(task); });
    return true;
  };

  std::mutex mutex;
  std::condition_variable changed;
  int running = 0;
  std::vector<std::thread> others;
  others.reserve(static_cast<size_t>(threads_));
  try {
    while (static_cast<int>(others.size()) + 1 < threads_) {
      {
        const std::scoped_lock lock(mutex);
        ++running;
      }
      others.emplace_back([&] {
        while (take()) {
        }
        const std::scoped_lock lock(mutex);
        --running;
        changed.notify_one();
      });
    }
  } catch (...) {  // the system has no more threads, or no memory for them: those that are there do the work
    const std::scoped_lock lock(mutex);
    --running;
  }
  while (take())
    if (!ended_) guarded(kLookUp, look_up);
  {
    std::unique_lock lock(mutex);
    while (running > 0) {
      changed.wait_for(lock, kPatience);
      lock.unlock();
      if (!ended_) guarded(kLookUp, look_up);
      lock.lock();
    }
  }
  for (std::thread& thread : others) thread.join();
  if (!others.empty() && !ended_) guarded(kLookUp, look_up);
  error.rethrow();
}

}  // namespace heed
