// Rows of a tensor in half precision, converted for one tile at a time.
#pragma once

#include "attention/schedule/tiling.h"
#include "base/memory.h"

namespace heed {

// A tile reads its rows of a tensor (B, H, L, columns) as f32, or writes f32 that is then rounded. Converting the whole
// tensor beforehand would cost short sequences as much as computing.
class HalfRows {
 public:
  // From head h of sequence b on. A tensor in f32 needs no conversion.
  void enter(const Tensor& tensor, int64_t b, int64_t h);
  void leave() { base_ = nullptr; }
  // Whether there is something to convert. If not, nothing below may be called.
  [[nodiscard]] bool convert() const { return base_ != nullptr; }
  // Addressed like the rows themselves, but only those of the tile are there.
  [[nodiscard]] kernels::StridedRows<const float> as_f32(RowRange rows);
  [[nodiscard]] kernels::StridedRows<float> buffer(RowRange rows);
  void write(RowRange rows) const;  // rounds what was written to buffer(rows)

 private:
  // f(where the rows are, their number, where they are as f32) for the rows of every head.
  template <class F>
  void for_heads(RowRange rows, F&& f) const;

  char* base_ = nullptr;
  kernels::Element element_ = kernels::Element::f32;
  int64_t head_ = 0, row_ = 0, column_ = 0, queries_ = 0, columns_ = 0;
  Buffer<float> memory_;
};

}  // namespace heed
