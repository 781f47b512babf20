// `heed bench decode`: attention over caches that lie in memory, beside the bandwidth measured in the same run.
#pragma once

#include <string>

#include "bench/attention.h"

namespace heed::bench {

// Each shape with caches in f32, bf16, f16 and i8, with one thread and with all; returns a table, or JSON.
[[nodiscard]] std::string measure_decode(const AttentionBench& options);

}  // namespace heed::bench
