// `heed bench options`: what masks, biases, dropout and taps cost beside plain attention.
#pragma once

#include <string>

#include "bench/attention.h"

namespace heed::bench {

// Each option on each shape, forward and backward, in turns with plain attention; returns a table, or JSON.
[[nodiscard]] std::string measure_options(const AttentionBench& options);

}  // namespace heed::bench
