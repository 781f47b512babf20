// `heed bench scaling`: how time and memory of attention grow with its lengths, its batch and the threads.
#pragma once

#include <cstdint>
#include <string>

namespace heed::cli {

struct ScalingBenchOptions {
  int64_t longest = 65536;  // queries and keys
  bool json = false;
};

// Doubles one extent at a time and measures; a table, or JSON.
[[nodiscard]] std::string bench_scaling(const ScalingBenchOptions& options);

}  // namespace heed::cli
