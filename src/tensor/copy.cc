// Copies of elements between tensors of any strides and types.
#include <cstring>
#include <type_traits>

#include "base/half.h"
#include "base/threads.h"
#include "heed/error.h"
#include "heed/tensor.h"

namespace heed {
namespace {

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

// Calls f with a null pointer of the element type that stands for `dtype`.
template <class F>
decltype(auto) with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(static_cast<float*>(nullptr));
    case DType::f64: return f(static_cast<double*>(nullptr));
    case DType::f16: return f(static_cast<F16*>(nullptr));
    case DType::bf16: return f(static_cast<BF16*>(nullptr));
    case DType::i64: return f(static_cast<int64_t*>(nullptr));
    case DType::i32: return f(static_cast<int32_t*>(nullptr));
    case DType::i8: return f(static_cast<int8_t*>(nullptr));
    case DType::u8: return f(static_cast<uint8_t*>(nullptr));
    case DType::boolean: return f(static_cast<bool*>(nullptr));
  }
  fail("tensor", "a known element type; found number ", static_cast<int>(dtype));
}

template <class T>
auto load(const T& value) {
  if constexpr (std::is_same_v<T, F16>) {
    return f16_to_f32(value.bits);
  } else if constexpr (std::is_same_v<T, BF16>) {
    return bf16_to_f32(value.bits);
  } else {
    return value;
  }
}

template <class T, class S>
T converted(const S& source) {
  const auto value = load(source);
  if constexpr (std::is_same_v<T, F16>) {
    return F16{f32_to_f16(static_cast<float>(value))};
  } else if constexpr (std::is_same_v<T, BF16>) {
    return BF16{f32_to_bf16(static_cast<float>(value))};
  } else if constexpr (std::is_same_v<T, bool>) {
    return value != 0;
  } else {
    return static_cast<T>(value);
  }
}

// Rows of the last axis, wherever they lie; `outer` counts the positions on all axes before it.
struct Rows {
  int64_t outer = 1;
  int64_t inner = 1;
  explicit Rows(const Shape& shape) {
    if (shape.rank() > 0) inner = shape.back();
    outer = inner == 0 ? 0 : shape.numel() / inner;
  }
};

int64_t row_offset(const Tensor& tensor, int64_t row) {
  int64_t offset = 0;
  for (int axis = tensor.rank() - 2; axis >= 0; --axis) {
    const int64_t extent = tensor.shape()[axis];
    offset += (row % extent) * tensor.strides()[axis];
    row /= extent;
  }
  return offset;
}

template <class T, class S>
void copy_row(T* to, int64_t to_stride, const S* from, int64_t from_stride, int64_t count) {
  if constexpr (std::is_same_v<T, S>) {
    if (to_stride == 1 && from_stride == 1) {
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
      return;
    }
  }
  if (to_stride == 1 && from_stride == 1) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) to[i] = converted<T>(from[i]);
    return;
  }
  for (int64_t i = 0; i < count; ++i) to[i * to_stride] = converted<T>(from[i * from_stride]);
}

}  // namespace

void Tensor::copy_from(const Tensor& source) const {
  require(source.shape() == shape_, "copy", "equal shapes; found ", source.shape(), " into ", shape_);
  const Rows rows(shape_);
  if (numel() == 0) return;
  const int64_t to_stride = rank() == 0 ? 1 : strides_.back();
  const int64_t from_stride = rank() == 0 ? 1 : source.strides_.back();
  with_type(dtype_, [&](auto* to_type) {
    using T = std::remove_pointer_t<decltype(to_type)>;
    with_type(source.dtype_, [&](auto* from_type) {
      using S = std::remove_pointer_t<decltype(from_type)>;
      T* const to = static_cast<T*>(data_);
      const S* const from = static_cast<const S*>(source.data_);
      // A thread is worth starting for some tens of thousands of elements.
      if (is_contiguous() && source.is_contiguous()) {
        parallel_for(numel(), 32768,
                     [&](int64_t begin, int64_t end) { copy_row(to + begin, 1, from + begin, 1, end - begin); });
        return;
      }
      parallel_for(rows.outer, 1 + 32768 / rows.inner, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          copy_row(to + row_offset(*this, row), to_stride, from + row_offset(source, row), from_stride, rows.inner);
        }
      });
    });
  });
}

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : clone(); }

Tensor Tensor::clone() const {
  Tensor copy = empty(shape_, dtype_);
  copy.copy_from(*this);
  return copy;
}

Tensor Tensor::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  Tensor copy = empty(shape_, dtype);
  copy.copy_from(*this);
  return copy;
}

void Tensor::zero() const {
  if (is_contiguous()) {
    if (numel() > 0) std::memset(data_, 0, static_cast<size_t>(nbytes()));  // all types write zero as zero bits
    return;
  }
  copy_from(zeros(Shape{}, dtype_).expand(shape_));
}

double Tensor::at(std::initializer_list<int64_t> index) const {
  require(static_cast<int>(index.size()) == rank(), "at", rank(), " indices for shape ", shape_, "; found ",
          index.size());
  int64_t offset = 0;
  int axis = 0;
  for (const int64_t i : index) {
    require(0 <= i && i < shape_[axis], "at", "an index inside ", shape_, "; found ", i, " on axis ", axis);
    offset += i * strides_[axis++];
  }
  return with_type(dtype_, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    return static_cast<double>(load(static_cast<const T*>(data_)[offset]));
  });
}

}  // namespace heed
