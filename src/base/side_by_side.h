// Tasks that run at the same time, each on one thread.
//
// Work that consists of many short loops, as decoding does, gains more when each thread has a batch of its own than
// when all threads share every loop: on Zen 4 two threads translate 1.7 to 1.9 times as many sentences as one in the
// first way (f32), and 1.4 to 1.5 times as many in the second.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "heed/cpu.h"

namespace heed {

class SideBySide {
 public:
  // On at most so many threads at once. Inside a parallel loop there is one.
  explicit SideBySide(int64_t tasks, int threads = num_threads());

  // Calls work(task) for each task, in order of their numbers, on the calling thread and others; inside, num_threads()
  // is this thread's share. Settings that belong to the calling thread, such as a NoGradScope, do not hold in the
  // others. Calls look_up() on the calling thread alone: after each of its tasks, at least every 20 ms while it waits
  // for the others, and when all are done. Returns when all threads are done. The exception of look_up(), else that of
  // the first task that failed, is thrown on; tasks before it may have ended early because of it.
  void run(const std::function<void(int64_t task)>& work, const std::function<void()>& look_up);

  // True once end() was called, or a task or look_up() has failed: no further task begins, and those that run need not
  // finish.
  [[nodiscard]] bool ended() const { return ended_; }
  void end() { ended_ = true; }
  // Whether this thread is the one that called run().
  [[nodiscard]] bool on_caller() const { return std::this_thread::get_id() == caller_; }

 private:
  int64_t tasks_;
  int threads_;
  std::thread::id caller_ = std::this_thread::get_id();
  std::atomic<bool> ended_{false};
};

}  // namespace heed
