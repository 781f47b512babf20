// Packing: a batch without its padding, the sequences one behind the other in one row of tokens.
#pragma once

#include "heed/models.h"

namespace heed::models {

class Packing {
 public:
  // lengths (B) i32 of sequences in rows of `length` tokens.
  Packing(const Tensor& lengths, int64_t length);

  [[nodiscard]] Tensor pack(const Tensor& ids) const;  // (B, L) i32 -> (1, T) i32
  [[nodiscard]] Value unpack(const Value& x) const;    // (1, T, E) -> (B, L, E), zeros in place of the padding
  [[nodiscard]] const Tensor& starts() const { return starts_; }        // (B + 1) i32
  [[nodiscard]] const Tensor& positions() const { return positions_; }  // (1, T) i32

 private:
  Tensor starts_, positions_;
  int64_t length_;
};

}  // namespace heed::models
