// Copies of elements between tensors of any strides and types.
//
// Nine types would be 81 conversions, which take long to compile. So each type has one to compute in (f32, f64, i64 or
// i32), and a conversion is a chain of at most three loops: up to the source's, from there to the destination's, down
// to the destination. The first loop is exact, so the result is that of one conversion.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

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

// One loop of a chain, over elements that lie `stride` elements apart.
using Loop = void (*)(void* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t count);

// clang-format off
template <class T, class S> void convert(T& to, const S& from) { to = static_cast<T>(from); }  // NOLINT(bugprone-signed-char-misuse): i8 is a number
template <class S> void convert(bool& to, const S& from) { to = from != 0; }
inline void convert(float& to, const F16& from) { to = f16_to_f32(from.bits); }
inline void convert(float& to, const BF16& from) { to = bf16_to_f32(from.bits); }
inline void convert(F16& to, const float& from) { to.bits = f32_to_f16(from); }
inline void convert(BF16& to, const float& from) { to.bits = f32_to_bf16(from); }
// clang-format on

template <class T, class S>
void loop(void* to_raw, int64_t to_stride, const void* from_raw, int64_t from_stride, int64_t count) {
  T* const to = static_cast<T*>(to_raw);
  const S* const from = static_cast<const S*>(from_raw);
  if (to_stride == 1 && from_stride == 1) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) convert(to[i], from[i]);
    return;
  }
  for (int64_t i = 0; i < count; ++i) convert(to[i * to_stride], from[i * from_stride]);
}

// Moves the bits of elements of one type.
template <class Bits>
void move(void* to_raw, int64_t to_stride, const void* from_raw, int64_t from_stride, int64_t count) {
  if (to_stride == 1 && from_stride == 1) {
    std::memcpy(to_raw, from_raw, static_cast<size_t>(count) * sizeof(Bits));
    return;
  }
  auto* const to = static_cast<std::byte*>(to_raw);
  const auto* const from = static_cast<const std::byte*>(from_raw);
  constexpr auto kSize = static_cast<int64_t>(sizeof(Bits));
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_stride * kSize, from + i * from_stride * kSize, kSize);
}

Loop move_of(DType dtype) {
  switch (size_of(dtype)) {
    case 1: return move<uint8_t>;
    case 2: return move<uint16_t>;
    case 4: return move<uint32_t>;
    default: return move<uint64_t>;
  }
}

[[noreturn]] void fail_unknown(DType dtype) {
  fail("tensor", "a known element type; found number ", static_cast<int>(dtype));
}

DType computed_in(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::f64:
    case DType::i64:
    case DType::i32: return dtype;
    case DType::f16:
    case DType::bf16: return DType::f32;
    case DType::i8:
    case DType::u8:
    case DType::boolean: return DType::i32;
  }
  fail_unknown(dtype);
}

// From a type to the one it is computed in.
Loop up(DType from) {
  switch (from) {
    case DType::f16: return loop<float, F16>;
    case DType::bf16: return loop<float, BF16>;
    case DType::i8: return loop<int32_t, int8_t>;
    case DType::u8: return loop<int32_t, uint8_t>;
    case DType::boolean: return loop<int32_t, bool>;
    default: fail_unknown(from);
  }
}

Loop down(DType to) {
  switch (to) {
    case DType::f16: return loop<F16, float>;
    case DType::bf16: return loop<BF16, float>;
    case DType::i8: return loop<int8_t, int32_t>;
    case DType::u8: return loop<uint8_t, int32_t>;
    default: fail_unknown(to);
  }
}

// From a type that is computed in to another one, or to boolean: whether 0.5 is true is lost in an integer.
template <class S>
Loop across_from(DType to) {
  switch (to) {
    case DType::f32: return loop<float, S>;
    case DType::f64: return loop<double, S>;
    case DType::i64: return loop<int64_t, S>;
    case DType::i32: return loop<int32_t, S>;
    case DType::boolean: return loop<bool, S>;
    default: fail_unknown(to);
  }
}

Loop across(DType from, DType to) {
  switch (from) {
    case DType::f32: return across_from<float>(to);
    case DType::f64: return across_from<double>(to);
    case DType::i64: return across_from<int64_t>(to);
    case DType::i32: return across_from<int32_t>(to);
    default: fail_unknown(from);
  }
}

class Conversion {
 public:
  Conversion(DType from, DType to) : from_size_(size_of(from)), to_size_(size_of(to)) {
    if (from == to) {
      add(move_of(from));
      return;
    }
    const DType source = computed_in(from), destination = to == DType::boolean ? to : computed_in(to);
    if (source != from) add(up(from));
    if (source != destination) add(across(source, destination));
    if (destination != to) add(down(to));
  }

  void run(void* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t count) const {
    if (loops_ == 1) return chain_[0](to, to_stride, from, from_stride, count);
    alignas(64) std::byte buffers[2][kPiece * kLargest];
    for (int64_t begin = 0; begin < count; begin += kPiece) {
      const int64_t piece = std::min(kPiece, count - begin);
      const void* source = static_cast<const std::byte*>(from) + begin * from_stride * from_size_;
      int64_t stride = from_stride;
      for (int k = 0; k + 1 < loops_; ++k) {
        chain_[static_cast<size_t>(k)](buffers[k], 1, source, stride, piece);
        source = buffers[k];
        stride = 1;
      }
      void* const destination = static_cast<std::byte*>(to) + begin * to_stride * to_size_;
      chain_[static_cast<size_t>(loops_ - 1)](destination, to_stride, source, stride, piece);
    }
  }

 private:
  static constexpr int64_t kPiece = 512, kLargest = 8;  // elements, and bytes of one

  void add(Loop loop) { chain_[static_cast<size_t>(loops_++)] = loop; }

  int64_t from_size_, to_size_;
  std::array<Loop, 3> chain_{};
  int loops_ = 0;
};

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

}  // namespace

void Tensor::copy_from(const Tensor& source) const {
  require(source.shape() == shape_, "copy", "equal shapes; found ", source.shape(), " into ", shape_);
  const Rows rows(shape_);
  if (numel() == 0) return;
  const Conversion conversion(source.dtype_, dtype_);
  auto* const to = static_cast<std::byte*>(data_);
  const auto* const from = static_cast<const std::byte*>(source.data_);
  const int64_t to_size = size_of(dtype_), from_size = size_of(source.dtype_);
  // A thread is worth starting for some tens of thousands of elements.
  if (is_contiguous() && source.is_contiguous()) {
    parallel_for(numel(), 32768, [&](int64_t begin, int64_t end) {
      conversion.run(to + begin * to_size, 1, from + begin * from_size, 1, end - begin);
    });
    return;
  }
  const int64_t to_stride = rank() == 0 ? 1 : strides_.back();
  const int64_t from_stride = rank() == 0 ? 1 : source.strides_.back();
  parallel_for(rows.outer, 1 + 32768 / rows.inner, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      conversion.run(to + row_offset(*this, row) * to_size, to_stride, from + row_offset(source, row) * from_size,
                     from_stride, rows.inner);
    }
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
  double value = 0;
  Conversion(dtype_, DType::f64).run(&value, 1, static_cast<const std::byte*>(data_) + offset * size_of(dtype_), 1, 1);
  return value;
}

}  // namespace heed
