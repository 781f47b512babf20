// Taps: statistics of the weights, computed without storing the weights.
#pragma once

#include <string_view>

#include "attention/call/call.h"

namespace heed {

// Throws Error where what is wanted does not fit the problem.
void check_taps(std::string_view function, const AttentionProblem& problem);

// The forward pass with its taps. The call's result has memory for logsumexp.
[[nodiscard]] AttentionTapped run_tapped(const AttentionCall& call);

namespace reference {

// The taps from all weights (B, H, L, S), in their dtype, f32 or f64; `scores`, of the same shape and dtype, for
// AttentionTaps::row_scores.
[[nodiscard]] AttentionTapped taps_of(const Tensor& weights, const Tensor& scores, const AttentionTaps& wanted);

}  // namespace reference
}  // namespace heed
