// Seconds, of a clock that never goes back.
#pragma once

#include <chrono>

namespace heed {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace heed
