// Tensor: making one, and views of one. Nothing here touches elements.
#include <algorithm>

#include "base/memory.h"
#include "heed/error.h"
#include "heed/tensor.h"

namespace heed {
namespace {

Shape contiguous_strides(const Shape& shape) {
  Shape strides = shape;
  int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    stride *= std::max<int64_t>(1, shape[axis]);
  }
  return strides;
}

void* offset_by(void* data, int64_t elements, DType dtype) {
  return static_cast<char*>(data) + elements * size_of(dtype);
}

Shape without(const Shape& shape, int axis) {
  Shape rest;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != axis) rest.push_back(shape[i]);
  }
  return rest;
}

}  // namespace

Tensor Tensor::empty(const Shape& shape, DType dtype) {
  for (const int64_t extent : shape) require(extent >= 0, "tensor", "extents of 0 or more; found ", shape);
  int64_t bytes = 0;
  require(!__builtin_mul_overflow(shape.numel(), size_of(dtype), &bytes), "tensor", "a size that fits 63 bits; found ",
          shape);
  Tensor tensor;
  tensor.storage_ = std::shared_ptr<void>(acquire_memory(bytes), [](void* block) { release_memory(block); });
  tensor.data_ = tensor.storage_.get();
  tensor.shape_ = shape;
  tensor.strides_ = contiguous_strides(shape);
  tensor.dtype_ = dtype;
  return tensor;
}

Tensor Tensor::zeros(const Shape& shape, DType dtype) {
  Tensor tensor = empty(shape, dtype);
  tensor.zero();
  return tensor;
}

Tensor Tensor::full(const Shape& shape, float value) {
  Tensor tensor = empty(shape);
  std::fill_n(tensor.data<float>(), tensor.numel(), value);
  return tensor;
}

Tensor Tensor::from(std::initializer_list<float> values, const Shape& shape) {
  return from(std::span<const float>(values.begin(), values.size()), shape);
}

Tensor Tensor::wrap(void* data, const Shape& shape, const Shape& strides, DType dtype) {
  require(shape.rank() == strides.rank(), "tensor", "as many strides as extents; found ", strides, " for ", shape);
  Tensor tensor;
  // An empty view has no element to point at; any address says "defined".
  static char nothing;
  tensor.data_ = data != nullptr ? data : &nothing;
  require(data != nullptr || shape.numel() == 0, "tensor", "memory for shape ", shape, "; found a null pointer");
  tensor.shape_ = shape;
  tensor.strides_ = strides;
  tensor.dtype_ = dtype;
  return tensor;
}

Tensor Tensor::wrap(void* data, const Shape& shape, DType dtype) {
  return wrap(data, shape, contiguous_strides(shape), dtype);
}

Tensor Tensor::wrap(std::shared_ptr<void> owner, void* data, const Shape& shape, DType dtype) {
  Tensor tensor = wrap(data, shape, dtype);
  tensor.storage_ = std::move(owner);
  return tensor;
}

void Tensor::bad_axis(int axis) const { fail("tensor", "an axis of a tensor of rank ", rank(), "; found ", axis); }

bool Tensor::is_contiguous() const {
  int64_t expected = 1;
  for (int axis = rank() - 1; axis >= 0; --axis) {
    if (shape_[axis] == 0) return true;
    if (shape_[axis] != 1 && strides_[axis] != expected) return false;
    expected *= shape_[axis];
  }
  return true;
}

Tensor Tensor::reshape(const Shape& shape) const {
  Shape resolved = shape;
  int64_t known = 1;
  int open_axis = -1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == -1 && open_axis < 0) {
      open_axis = axis;
    } else {
      require(shape[axis] >= 0, "reshape", "extents of 0 or more, and -1 at most once; found ", shape);
      known *= shape[axis];
    }
  }
  if (open_axis >= 0) resolved[open_axis] = known == 0 ? 0 : numel() / known;
  require(resolved.numel() == numel(), "reshape", "a shape of ", numel(), " elements for ", shape_, "; found ", shape);
  require(is_contiguous(), "reshape", "a contiguous tensor; found strides ", strides_, " for ", shape_);
  Tensor view = *this;
  view.shape_ = resolved;
  view.strides_ = contiguous_strides(resolved);
  return view;
}

Tensor Tensor::transpose(int a, int b) const {
  const int i = axis_of(a), j = axis_of(b);
  Tensor view = *this;
  std::swap(view.shape_[i], view.shape_[j]);
  std::swap(view.strides_[i], view.strides_[j]);
  return view;
}

Tensor Tensor::slice(int axis, int64_t begin, int64_t end) const {
  const int i = axis_of(axis);
  require(0 <= begin && begin <= end && end <= shape_[i], "slice", "0 <= begin <= end <= ", shape_[i], "; found ",
          begin, " and ", end);
  Tensor view = *this;
  view.data_ = offset_by(data_, begin * strides_[i], dtype_);
  view.shape_[i] = end - begin;
  return view;
}

Tensor Tensor::select(int axis, int64_t index) const {
  const int i = axis_of(axis);
  require(0 <= index && index < shape_[i], "select", "an index below ", shape_[i], "; found ", index);
  Tensor view = *this;
  view.data_ = offset_by(data_, index * strides_[i], dtype_);
  view.shape_ = without(shape_, i);
  view.strides_ = without(strides_, i);
  return view;
}

Tensor Tensor::expand(const Shape& shape) const {
  require(shape.rank() >= rank(), "expand", "a shape of at least ", rank(), " axes; found ", shape);
  Tensor view = *this;
  view.shape_ = shape;
  view.strides_ = shape;
  const int missing = shape.rank() - rank();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const bool own = axis >= missing;
    const int64_t extent = own ? shape_[axis - missing] : 1;
    require(extent == shape[axis] || extent == 1, "expand", "a shape that ", shape_, " broadcasts to; found ", shape);
    view.strides_[axis] = own && extent == shape[axis] ? strides_[axis - missing] : 0;
  }
  return view;
}

void Tensor::bad_dtype(DType expected) const { fail("tensor", "data of type ", expected, "; found ", dtype_); }

}  // namespace heed
