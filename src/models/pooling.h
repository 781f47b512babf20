// From the states of a text's tokens to one vector, with gradients.
#pragma once

#include <span>
#include <vector>

#include "heed/autograd.h"

namespace heed::models {

// One vector (E) of the states of a text's tokens.
enum class TokenPooling {
  first,          // the state of the first token
  largest,        // the largest number of each column
  mean,           //
  mean_by_root,   // the sum divided by the square root of the number of tokens
  weighted_mean,  // with the weights 1, 2, 3, ...
  last            // the state of the last token
};

// x (B, L, E), lengths (B) i32 -> (B, E * poolings): the poolings of each text side by side, zeros for a text without
// tokens. The first `skipped` tokens of each text, those of a prompt, count as if they were not there; the weights of
// weighted_mean go on from theirs. A row has the same bits whatever the other rows are.
[[nodiscard]] Value pooled_states(const Value& x, const Tensor& lengths, std::span<const TokenPooling> poolings,
                                  int64_t skipped = 0);

// x (B, E) -> each row divided by its Euclidean length, or by 1e-12 where that is larger.
[[nodiscard]] Value unit_rows(const Value& x);

}  // namespace heed::models
