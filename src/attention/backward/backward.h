// The backward pass of checked calls.
#pragma once

#include <span>
#include <string_view>

#include "attention/call/call.h"

namespace heed {

// Runs calls whose gradients have memory. `shared` has memory for the gradients to which all calls add: ALiBi slopes,
// the score function's table, the weights of additive scores. These are summed over the calls in order, in double
// precision.
void run_backward(std::span<const BackwardCall> calls, const AttentionGradients& shared);

// Throws Error, in the name of `function`, where a tensor is not there or is another.
void require_like(std::string_view function, std::string_view name, const Tensor& tensor, const Shape& shape,
                  DType dtype);
// Throws Error, in the name of `function`, where a gradient is wanted of what is not there.
void check_wanted(std::string_view function, const AttentionOptions& options, const AttentionWantGradients& want);

// What attention_backward() does once its arguments are a problem: in the name of `function` checks the gradient and
// the forward pass, makes memory for what is wanted, and runs. d_output, query, key and value are of `dtype`.
[[nodiscard]] AttentionGradients run_attention_backward(std::string_view function, const AttentionProblem& problem,
                                                        DType dtype, const Tensor& d_output, const Tensor& query,
                                                        const Tensor& key, const Tensor& value,
                                                        const AttentionResult& forward,
                                                        const AttentionWantGradients& want);

// Sums that were added up in double precision, rounded to f32; every NaN becomes the one quiet NaN.
void round_sums(std::span<const double> sums, float* to);

// d_sinks (B, H, L) summed into (H), in the order b, i.
[[nodiscard]] Tensor sum_sinks(const Tensor& d_sinks);

}  // namespace heed
