// Taps: what a call tells of its weights without keeping them.
#pragma once

#include "attention/call/call.h"

namespace heed {

// Throws Error where what is asked for does not fit the problem.
void check_taps(std::string_view function, const AttentionProblem& problem);

// The forward pass with its taps. The call's result has memory for logsumexp.
[[nodiscard]] AttentionTapped run_tapped(const ForwardCall& call);

namespace reference {

// From all weights (B, H, L, S), f32 or f64, which determines the dtype of the result.
[[nodiscard]] AttentionTapped taps_of(const Tensor& weights, const AttentionTaps& wanted);

}  // namespace reference
}  // namespace heed
