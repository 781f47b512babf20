#include "attention/schedule/half_rows.h"

#include <algorithm>

#include "attention/call/group.h"

namespace heed {

void HalfRows::enter(const Tensor& tensor, int64_t b, int64_t h) {
  leave();
  if (tensor.dtype() == DType::f32) return;
  const Shape& strides = tensor.strides();
  base_ = static_cast<char*>(tensor.raw()) + (b * strides[0] + h * strides[1]) * size_of(tensor.dtype());
  element_ = element_of(tensor.dtype());
  head_ = strides[1], row_ = strides[2], column_ = strides[3];
  queries_ = tensor.size(2), columns_ = tensor.size(3);
}

template <class F>
void HalfRows::for_heads(RowRange rows, F&& f) const {
  float* f32 = memory_.data();
  int64_t head = rows.first / queries_, query = rows.first % queries_;
  for (int64_t left = rows.count; left > 0; ++head) {
    const int64_t count = std::min(left, queries_ - query);
    f(base_ + (head * head_ + query * row_) * size_of(DType::bf16), count, f32);
    f32 += count * columns_;
    left -= count, query = 0;
  }
}

kernels::StridedRows<float> HalfRows::buffer(RowRange rows) {
  if (memory_.size() < rows.count * columns_) memory_ = Buffer<float>(rows.count * columns_);
  return {memory_.data() - rows.first * columns_, queries_ * columns_, columns_, 1};
}

kernels::StridedRows<const float> HalfRows::as_f32(RowRange rows) {
  const kernels::StridedRows<float> to = buffer(rows);
  kernels::StoredRows stored;
  stored.element = element_, stored.row = row_, stored.column = column_;
  for_heads(rows, [&](const char* from, int64_t count, float* f32) {
    stored.data = from;
    kernels::rows_to_f32(stored, columns_, 0, count, f32, columns_);
  });
  return to;
}

void HalfRows::write(RowRange rows) const {
  for_heads(rows, [&](char* to, int64_t count, const float* from) {
    kernels::rows_to_half(from, columns_, count, columns_, element_, to, row_);
  });
}

}  // namespace heed
