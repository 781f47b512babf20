// A checked attention call: what the passes work on. One call, or one for each sequence of a ragged batch.
#pragma once

#include <string_view>

#include "attention/call/problem.h"
#include "heed/kv_cache.h"
#include "kernels/attention/engine.h"

namespace heed {

// query (B, H, L, D) is f32, bf16 or f16.
struct AttentionCall {
  AttentionProblem problem;
  Tensor query;
  KeyValues memory;                         // keys and values, or a cache of them
  const kernels::Engine* engine = nullptr;  // what runs it
  // In the forward pass: memory for what is wanted, the output in the type of query. In the backward pass: what the
  // forward pass returned.
  AttentionResult result;
};

// d_output, query, key, value, the forward pass's output and their gradients are all f32, all bf16 or all f16.
// `gradients` has memory for what is wanted of query, key, value and bias, which holds zeros. d_sinks (B, H, L), where
// sinks are given, receives each row's part of their gradient.
struct BackwardCall : AttentionCall {
  Tensor d_output;
  AttentionGradients gradients;
  Tensor d_sinks;
};

// Memory for a result (B, H, rows, columns), laid out as the rows of a layer are: (B, rows, H, columns).
[[nodiscard]] Tensor empty_rows(const Shape& shape, DType dtype);

// The engine for a forward pass, or a backward pass, of the problem. `bf16`: all tensors of the call are bf16.
[[nodiscard]] const kernels::Engine& forward_engine(const AttentionProblem& problem, bool bf16);
[[nodiscard]] const kernels::Engine& backward_engine(const AttentionProblem& problem, bool bf16);

}  // namespace heed
