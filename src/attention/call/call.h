// The passes over checked problems: one call, or one a sequence of a packed batch.
#pragma once

#include <span>

#include "attention/call/problem.h"
#include "heed/attention_cache.h"
#include "kernels/attention/bf16/bf16.h"

namespace heed {

// query (B, H, L, D) f32, bf16 or f16; `result` has memory for what is wanted, its output in the type of query.
struct ForwardCall {
  AttentionProblem problem;
  Tensor query;
  KeyValues memory;
  AttentionResult result;
  bool bf16 = false;  // everything was given in bf16, and may be multiplied as such
};
void run_forward(std::span<const ForwardCall> calls);

// Whether it is the kernel for few rows that runs, and whether threads share the keys of its groups.
[[nodiscard]] bool few_rows(const ForwardCall& call);
[[nodiscard]] bool shares_keys(std::span<const ForwardCall> calls);

// The kernels that multiply pairs of bf16, where a call can use them; else null.
[[nodiscard]] const kernels::AttentionPairs* pairs_for(const ForwardCall& call);

// Memory for what is wanted, the passes, the taps.
[[nodiscard]] AttentionResult run_attention(const AttentionProblem& problem, const Tensor& query,
                                            const KeyValues& memory, bool bf16 = false);

// d_output, query, key, value, the forward pass's output and their gradients are all f32, all bf16 or all f16.
// `gradients` has memory for what is wanted of query, key, value and bias, which holds zeros. d_sinks (B, H, L), where
// sinks are given, gets each row's part of their gradient.
struct BackwardCall {
  AttentionProblem problem;
  Tensor d_output, query, key, value;
  AttentionResult forward;
  AttentionGradients gradients;
  Tensor d_sinks;
  const kernels::AttentionPairs* pairs = nullptr;  // kernels to use instead of those for f32
};
// `shared` has memory for what all calls add to, summed over them in order, in double precision: the ALiBi slopes, the
// score function's table, the weights of additive scores.
void run_backward(std::span<const BackwardCall> calls, const AttentionGradients& shared);

// Throws Error, in the name of `function`, where a tensor is not there or is another.
void require_like(std::string_view function, std::string_view name, const Tensor& tensor, const Shape& shape,
                  DType dtype);
// Throws Error, in the name of `function`, where a gradient is wanted of what is not there.
void check_wanted(std::string_view function, const AttentionOptions& options, const AttentionWantGradients& want);

// What attention_backward() does once the arguments are a problem: in the name of `function` checks the gradient and
// the forward pass, makes memory for what is wanted, and runs. d_output, query, key and value are of `dtype`.
[[nodiscard]] AttentionGradients run_attention_backward(std::string_view function, const AttentionProblem& problem,
                                                        DType dtype, const Tensor& d_output, const Tensor& query,
                                                        const Tensor& key, const Tensor& value,
                                                        const AttentionResult& forward,
                                                        const AttentionWantGradients& want);

// d_sinks (B, H, L) summed into (H), in the order b, i.
[[nodiscard]] Tensor sum_sinks(const Tensor& d_sinks);

}  // namespace heed
