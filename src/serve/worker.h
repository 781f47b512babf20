// The one thread that computes, with the help of all cores: requests wait for it in a queue, and a stream goes to the
// back of the queue after each step.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "serve/service.h"

namespace heed::serve {

struct Limits {
  size_t waiting = 128;  // requests that have not begun; one more is refused with 503
  size_t streams = 8;    // a stream begins where fewer than so many take turns
  size_t unread = 24;    // besides, so many pause until their clients read; then they take turns, too
  double wait_seconds = 60, compute_seconds = 60, stream_seconds = 600;  // after these, 408
};

// The client has gone: there is nobody to answer.
struct ClientGone {};

class Worker {
  struct Job;

 public:
  using Open = std::function<std::unique_ptr<Service>()>;
  using Gone = std::function<bool()>;  // whether the client has gone; asked while a request waits

  // `open` runs on the thread that computes. What it throws is thrown here.
  explicit Worker(const Open& open, const Limits& limits = {});
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  [[nodiscard]] Kind kind(std::string_view name) const { return service_->kind(name); }
  [[nodiscard]] const std::vector<std::string>& lines() const { return lines_; }

  // Waits for the answer. Throws what the service throws, Refused where a limit is reached, and ClientGone.
  [[nodiscard]] Reply call(std::string name, nlohmann::json request, const Gone& gone);

  struct Event {
    std::string name, data;  // data is JSON
  };
  // A stream that has begun. Without it, nothing more of the stream is computed.
  class Run {
   public:
    Run(Worker& worker, std::shared_ptr<Job> job) : worker_(worker), job_(std::move(job)) {}
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;
    // Waits for the next event; none: the stream has ended. Throws as call() does.
    [[nodiscard]] std::optional<Event> next(const Gone& gone);

   private:
    Worker& worker_;
    std::shared_ptr<Job> job_;
  };
  [[nodiscard]] std::unique_ptr<Run> open(std::string name, nlohmann::json request, const Gone& gone);

  // Refuses everything from now on, and ends what is computed. False: after so many seconds it has not ended.
  bool stop(double patience);

 private:
  void run(const Open& open);
  [[nodiscard]] std::shared_ptr<Job> next_job();
  [[nodiscard]] bool may_begin(const Job& job) const;
  void compute(const std::shared_ptr<Job>& job);
  [[nodiscard]] bool advance(Job& job);
  [[nodiscard]] bool hand_over(Job& job, std::string_view name, const nlohmann::json& data);
  [[nodiscard]] std::shared_ptr<Job> add(std::string name, nlohmann::json request, bool is_stream);
  void drop(Job& job);
  void go_on(const std::shared_ptr<Job>& job);
  void wait(std::unique_lock<std::mutex>& lock, Job& job, const Gone& gone, const std::function<bool()>& ready);

  Limits limits_;
  std::unique_ptr<Service> service_;
  std::vector<std::string> lines_;

  std::mutex mutex_;  // of all below, and of what jobs share
  std::condition_variable work_, state_;
  std::deque<std::shared_ptr<Job>> queue_;
  size_t waiting_ = 0, streams_ = 0, paused_ = 0;  // streams_: those that have begun, paused_ among them
  bool opened_ = false, stopping_ = false, ended_ = false;
  std::exception_ptr failure_;

  std::thread thread_;
};

}  // namespace heed::serve
