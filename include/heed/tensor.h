// Tensor: a typed, strided view of shared memory. It holds data and computes nothing.
//
// Copying a Tensor copies the handle: both see the same memory. clone() copies the memory.
// Any number of threads may read a Tensor; writing needs the caller's own synchronisation.
//
//   Tensor q = Tensor::zeros({2, 8, 128, 64});       // (B, H, L, D), f32
//   Tensor rows = q.slice(2, 0, 16);                 // a view: (2, 8, 16, 64), same memory
//   float* first = rows.data<float>();
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/export.h"

HEED_EXPORT_BEGIN
namespace heed {

enum class DType { f32, f64, f16, bf16, i64, i32, i8, u8, boolean };

[[nodiscard]] std::string_view to_string(DType dtype);
[[nodiscard]] int64_t size_of(DType dtype);  // bytes of one element

template <class T>
struct dtype_of;  // dtype_of<float>::value == DType::f32, ...
// clang-format off
template <> struct dtype_of<float> { static constexpr DType value = DType::f32; };
template <> struct dtype_of<double> { static constexpr DType value = DType::f64; };
template <> struct dtype_of<int64_t> { static constexpr DType value = DType::i64; };
template <> struct dtype_of<int32_t> { static constexpr DType value = DType::i32; };
template <> struct dtype_of<int8_t> { static constexpr DType value = DType::i8; };
template <> struct dtype_of<uint8_t> { static constexpr DType value = DType::u8; };
template <> struct dtype_of<bool> { static constexpr DType value = DType::boolean; };
// clang-format on

// Up to eight extents, or strides in elements. Lives on the stack.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<int64_t> extents) : Shape(std::span(extents.begin(), extents.size())) {}
  explicit Shape(std::span<const int64_t> extents);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int64_t operator[](int axis) const { return extents_[static_cast<size_t>(axis)]; }
  [[nodiscard]] int64_t& operator[](int axis) { return extents_[static_cast<size_t>(axis)]; }
  [[nodiscard]] const int64_t* begin() const { return extents_.data(); }
  [[nodiscard]] const int64_t* end() const { return extents_.data() + rank_; }
  [[nodiscard]] int64_t back() const { return extents_[static_cast<size_t>(rank_ - 1)]; }
  void push_back(int64_t extent);
  [[nodiscard]] int64_t numel() const;  // the product; 1 for rank 0; throws Error when it does not fit 63 bits
  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

bool operator==(const Shape& a, const Shape& b);
[[nodiscard]] std::string to_string(const Shape& shape);  // "(2, 8, 128, 64)"

class Tensor {
 public:
  Tensor() = default;  // undefined: no memory, defined() == false

  [[nodiscard]] static Tensor empty(const Shape& shape, DType dtype = DType::f32);  // contiguous, contents arbitrary
  [[nodiscard]] static Tensor zeros(const Shape& shape, DType dtype = DType::f32);
  [[nodiscard]] static Tensor full(const Shape& shape, float value);  // f32
  // Copies `values`; their count must be shape.numel().
  template <class T>
  [[nodiscard]] static Tensor from(std::span<const T> values, const Shape& shape);
  [[nodiscard]] static Tensor from(std::initializer_list<float> values, const Shape& shape);
  // A view of memory that the caller keeps alive. Strides in elements, zero and negative ones included.
  [[nodiscard]] static Tensor wrap(void* data, const Shape& shape, const Shape& strides, DType dtype);
  [[nodiscard]] static Tensor wrap(void* data, const Shape& shape, DType dtype = DType::f32);
  // A contiguous view of memory that lives as long as `owner`, which the tensor and its views share.
  [[nodiscard]] static Tensor wrap(std::shared_ptr<void> owner, void* data, const Shape& shape, DType dtype);

  [[nodiscard]] bool defined() const { return data_ != nullptr; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] const Shape& strides() const { return strides_; }  // in elements
  [[nodiscard]] int rank() const { return shape_.rank(); }
  [[nodiscard]] int64_t size(int axis) const { return shape_[axis_of(axis)]; }  // negative axes count from the end
  [[nodiscard]] int64_t stride(int axis) const { return strides_[axis_of(axis)]; }
  [[nodiscard]] int64_t numel() const { return shape_.numel(); }
  [[nodiscard]] int64_t nbytes() const { return numel() * size_of(dtype_); }
  [[nodiscard]] bool is_contiguous() const;

  // The first element. Throws Error when T is not the tensor's dtype. Constness is shallow, as for a span.
  template <class T>
  [[nodiscard]] T* data() const {
    check_dtype(dtype_of<T>::value);
    return static_cast<T*>(data_);
  }
  [[nodiscard]] void* raw() const { return data_; }

  // Views: no copy.
  [[nodiscard]] Tensor reshape(const Shape& shape) const;  // contiguous tensors; one extent may be -1
  [[nodiscard]] Tensor transpose(int a, int b) const;
  [[nodiscard]] Tensor slice(int axis, int64_t begin, int64_t end) const;
  [[nodiscard]] Tensor select(int axis, int64_t index) const;  // drops the axis
  [[nodiscard]] Tensor expand(const Shape& shape) const;       // broadcasts with zero strides, from the right

  // Copies.
  [[nodiscard]] Tensor contiguous() const;     // no copy where it is contiguous already
  [[nodiscard]] Tensor clone() const;          // always a copy, contiguous
  [[nodiscard]] Tensor to(DType dtype) const;  // rounds to nearest even; no copy where it has this dtype already
  void copy_from(const Tensor& source) const;  // same shape; converts; any strides on either side
  void zero() const;

  // The number at a position, whatever the dtype. For tests, printing and other slow paths.
  [[nodiscard]] double at(std::initializer_list<int64_t> index) const;

 private:
  void check_dtype(DType expected) const {
    if (dtype_ != expected) bad_dtype(expected);
  }
  [[noreturn]] void bad_dtype(DType expected) const;
  [[nodiscard]] int axis_of(int axis) const {
    const int positive = axis < 0 ? axis + rank() : axis;
    if (positive < 0 || positive >= rank()) bad_axis(axis);
    return positive;
  }
  [[noreturn]] void bad_axis(int axis) const;

  std::shared_ptr<void> storage_;  // empty for wrapped memory without an owner
  void* data_ = nullptr;
  Shape shape_;
  Shape strides_;
  DType dtype_ = DType::f32;
};

template <class T>
Tensor Tensor::from(std::span<const T> values, const Shape& shape) {
  Tensor source = wrap(const_cast<T*>(values.data()), Shape{static_cast<int64_t>(values.size())}, dtype_of<T>::value);
  return source.clone().reshape(shape);
}

}  // namespace heed
HEED_EXPORT_END
