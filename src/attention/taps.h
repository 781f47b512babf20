// Taps: what a call tells of its weights without keeping them.
#pragma once

#include "attention/problem.h"
#include "heed/attention_cache.h"

namespace heed {

// Throws Error where what is asked for does not fit the problem.
void check_taps(std::string_view function, const AttentionProblem& problem);

// logsumexp (B, H, L): of the forward pass.
[[nodiscard]] AttentionTapped run_taps(const AttentionProblem& problem, const Tensor& query, const KeyValues& memory,
                                       const Tensor& logsumexp);

namespace reference {

// From all weights (B, H, L, S), f32 or f64, which determines the dtype of the result.
[[nodiscard]] AttentionTapped taps_of(const Tensor& weights, const AttentionTaps& wanted);

}  // namespace reference
}  // namespace heed
