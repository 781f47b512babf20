// `heed bench decode`: attention over caches that lie in memory, against the bandwidth measured in the same run.
#pragma once

#include <string>

#include "cli/bench_attention.h"

namespace heed::cli {

// Each shape with caches in f32, bf16, f16 and i8, with one thread and with all; returns a table, or JSON.
[[nodiscard]] std::string bench_decode(const BenchOptions& options);

}  // namespace heed::cli
