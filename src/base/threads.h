// Loops shared among threads in fixed parts.
//
// The parts depend on the number of threads, so a loop body must compute each index independently of the others:
// nothing is summed across indices. That is how no result depends on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <type_traits>

#include "heed/cpu.h"

namespace heed {

namespace detail {
// True inside a parallel loop: nested loops run inline.
[[nodiscard]] bool in_parallel();
void run_parallel(int threads, void (*body)(void* context, int part, int parts), void* context);
}  // namespace detail

// Calls f(begin, end) for parts that cover [0, count), at least `grain` indices each (but the last), one part a thread.
// The first exception thrown by a part is thrown on.
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
  detail::run_parallel(
      threads,
      [](void* opaque, int part, int parts) {
        const auto& c = *static_cast<Context*>(opaque);
        const int64_t begin = c.count * part / parts;
        const int64_t end = c.count * (part + 1) / parts;
        if (begin < end) (*c.f)(begin, end);
      },
      &context);
}

}  // namespace heed
