// Loops shared among threads.
//
// The parts depend on the number of threads, and which thread takes which part on how fast each gets on, so a loop body
// must compute each index independently of the others: nothing is summed across indices. That is how no result depends
// on the number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <type_traits>
#include <vector>

#include "heed/cpu.h"

namespace heed {

// While it is alive, num_threads() is one of `parts` shares in this thread: for threads that compute side by side.
class ThreadShare {
 public:
  explicit ThreadShare(int parts);
  ~ThreadShare();
  ThreadShare(const ThreadShare&) = delete;
  ThreadShare& operator=(const ThreadShare&) = delete;
  [[nodiscard]] static int current();  // the product of the parts of those that are alive in this thread

 private:
  int before_;
};

namespace detail {
// True inside a parallel loop: nested loops run inline.
[[nodiscard]] bool in_parallel();
void run_parallel(int threads, int parts, void (*body)(void* context, int part, int parts), void* context);
}  // namespace detail

// Calls f(begin, end) for parts that cover [0, count), at least `grain` indices each (but where count is less). A
// thread takes the next part when it is done with one: cores that others share are not equally fast. The first
// exception thrown by a part is thrown on.
template <class F>
void parallel_for(int64_t count, int64_t grain, F&& f) {
  if (count <= 0) return;
  const int64_t most = std::max<int64_t>(1, count / std::max<int64_t>(1, grain));
  const int threads = detail::in_parallel() ? 1 : static_cast<int>(std::min<int64_t>(num_threads(), most));
  if (threads == 1) {
    f(int64_t{0}, count);
    return;
  }
  struct Context {
    std::remove_reference_t<F>* f;
    int64_t count;
  } context{&f, count};
  constexpr int kPartsAThread = 4;
  detail::run_parallel(
      threads, static_cast<int>(std::min<int64_t>(int64_t{kPartsAThread} * threads, most)),
      [](void* opaque, int part, int parts) {
        const auto& c = *static_cast<Context*>(opaque);
        const int64_t begin = c.count * part / parts;
        const int64_t end = c.count * (part + 1) / parts;
        if (begin < end) (*c.f)(begin, end);
      },
      &context);
}

// Tasks that threads take one by one, in order, and that add to places they share: in each place one after the other,
// so that every sum has one order, whatever the threads.
class InOrder {
 public:
  InOrder(int64_t tasks, int64_t places) : tasks_(tasks), passed_(static_cast<size_t>(places)) {}

  // The next task, or -1: none is left, or one of them has failed.
  [[nodiscard]] int64_t next();
  // Waits until `turns` others have passed the place: tasks that were taken before the caller's own. Returns early
  // where a task has failed.
  void wait(int64_t place, int64_t turns) const;
  void pass(int64_t place) { passed_[static_cast<size_t>(place)].fetch_add(1, std::memory_order_release); }

  // Calls f(), which takes tasks until none is left, at most as often as there are threads: on those that come while
  // there are tasks. The first exception is thrown on.
  template <class F>
  void run(F&& f) {
    parallel_for(std::min<int64_t>(tasks_, num_threads()), 1, [&](int64_t, int64_t) {
      if (taken_.load(std::memory_order_relaxed) >= tasks_) return;
      try {
        f();
      } catch (...) {
        failed_ = true;  // nobody waits for what will not come
        throw;
      }
    });
  }

 private:
  int64_t tasks_;
  std::atomic<int64_t> taken_{0};
  std::atomic<bool> failed_{false};
  std::vector<std::atomic<int64_t>> passed_;
};

}  // namespace heed
