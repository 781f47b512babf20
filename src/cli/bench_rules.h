// `heed bench rules`: what masks, biases, dropout and taps cost beside plain attention.
#pragma once

#include <string>

#include "cli/bench_attention.h"

namespace heed::cli {

// Each rule on each shape, forward and backward, in turns with plain attention; a table, or JSON.
[[nodiscard]] std::string bench_rules(const BenchOptions& options);

}  // namespace heed::cli
