// The shape an array file claims, checked before anything is allocated for it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "heed/tensor.h"

namespace heed::io {

// Bytes of an array of these extents, or -1 when the extents are more than Shape::kMaxRank, one is negative, or the
// product (zeros counted as ones, so that strides fit as well) does not fit 63 bits.
[[nodiscard]] int64_t checked_bytes(std::span<const int64_t> extents, int64_t element_size);

// True when every byte of a boolean array is 0 or 1: reading any other as bool is undefined.
[[nodiscard]] bool booleans_are_valid(const Tensor& tensor);

}  // namespace heed::io
