// How the benchmarks measure: the seconds of one call, and the median of many.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace heed::bench {

[[nodiscard]] double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

[[nodiscard]] inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace heed::bench
