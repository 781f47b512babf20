// encode_batch: a stack of encoder layers over sequences of different lengths.
#pragma once

#include "models/encoder.h"
#include "models/stack.h"

namespace heed::models {

// tokens (B, L) i32 and their types (likewise, or undefined), lengths (B) i32 -> (B, L, E). What stands at and behind a
// sequence's length is arbitrary.
//
// Without gradients the padding is left out before the first layer and put back, as zeros, behind the last. A model
// with a window or a bias by distance is trained in this way as well; the others are trained with padding, where
// dropout has the places that it had in heed's first version. A sequence's states have the same bits in both ways.
[[nodiscard]] Value encode_batch(const Stack<EncoderLayer>& encoder, const Config& config, const Tensor& tokens,
                                 const Tensor& lengths, const Tensor& types = {});

}  // namespace heed::models
