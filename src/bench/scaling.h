// `heed bench scaling`: how time and memory of attention grow with its lengths, its batch and the threads.
#pragma once

#include <cstdint>
#include <string>

namespace heed::bench {

struct ScalingBench {
  int64_t longest = 65536;  // queries and keys
  bool json = false;
};

// Doubles one size at a time and measures; returns a table, or JSON.
[[nodiscard]] std::string measure_scaling(const ScalingBench& options);

}  // namespace heed::bench
