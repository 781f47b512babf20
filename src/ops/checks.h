// What every operation asks of its tensors before it hands their memory to a kernel.
#pragma once

#include <cstdint>
#include <string_view>

#include "heed/error.h"
#include "heed/ops.h"
#include "heed/tensor.h"

namespace heed::ops {

inline void require_f32(const Tensor& tensor, std::string_view function, std::string_view name) {
  require(tensor.defined(), function, name, " given; found an undefined tensor");
  require(tensor.dtype() == DType::f32, function, name, " of f32; found ", tensor.dtype());
}

// Of f32, and contiguous: a copy where it is not.
[[nodiscard]] inline Tensor dense(const Tensor& tensor, std::string_view function, std::string_view name) {
  require_f32(tensor, function, name);
  return contiguous(tensor);
}

// Written to: a copy would not do.
inline void require_dense(const Tensor& tensor, std::string_view function, std::string_view name) {
  require_f32(tensor, function, name);
  require(tensor.is_contiguous(), function, name, " contiguous; found strides ", tensor.strides(), " of shape ",
          tensor.shape());
}

inline void require_shape(const Tensor& tensor, const Shape& shape, std::string_view function, std::string_view name) {
  require(tensor.shape() == shape, function, name, " of shape ", shape, "; found ", tensor.shape());
}

// The extent of the last axis, at least 1, and the number of rows along it.
struct Rows {
  int64_t rows, columns;
};
[[nodiscard]] inline Rows rows_of(const Tensor& tensor, std::string_view function, std::string_view name) {
  require(tensor.rank() >= 1, function, name, " with at least one axis; found a scalar");
  const int64_t columns = tensor.size(-1);
  require(columns >= 1, function, name, " with a last axis of at least 1; found ", tensor.shape());
  return {tensor.numel() / columns, columns};
}

inline void require_rate(const Dropout& dropout, std::string_view function) {
  require(dropout.rate >= 0.0f && dropout.rate < 1.0f, function, "a dropout rate in [0, 1); found ", dropout.rate);
}

}  // namespace heed::ops
