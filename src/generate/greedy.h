// Greedy search for tokens alone, without their probabilities.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "heed/generate.h"

namespace heed::generate {

constexpr double kNoScore = std::numeric_limits<double>::quiet_NaN();

// Whether a beam search with these options needs no more of a step than the largest logit of each row.
[[nodiscard]] bool is_greedy(const BeamOptions& options);

// As beam_search(), for these options.
[[nodiscard]] std::vector<std::vector<Hypothesis>> greedy_search(models::Decoder& decoder, int64_t sources,
                                                                 int32_t begin_id, int32_t end_id,
                                                                 std::span<const int64_t> limits,
                                                                 const BeamOptions& options);

}  // namespace heed::generate
