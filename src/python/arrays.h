// Python's arrays as tensors and back, without copies, by the buffer protocol (NumPy) and DLPack (PyTorch, JAX).
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/tensor.h"

namespace heed::python {

// A view of an array's memory, and what keeps that memory alive.
struct Borrowed {
  Tensor tensor;
  pybind11::object owner;
};

// Anything with __dlpack__ on a CPU, or with the buffer protocol. Raises TypeError for other objects and for element
// types that heed does not have. `name` is the argument's, for messages.
[[nodiscard]] Borrowed borrow(pybind11::handle array, std::string_view name);

// A NumPy array over the tensor's memory, which lives as long as the array. NumPy has no bf16: such a tensor becomes
// int16 with its bits, which the Python side converts.
[[nodiscard]] pybind11::array to_numpy(const Tensor& tensor);

// What `cache` and KeyValueCache's dtype mean: float32, bfloat16, float16 or int8. Otherwise raises ValueError, in
// which `place` is the function and the argument: "[KeyValueCache] dtype".
[[nodiscard]] DType cache_dtype(const std::string& name, const char* place);

// repr() of a value for a message, cut where it is long.
[[nodiscard]] std::string shown(pybind11::handle value);
// Of True and False, NumPy's too; nothing for any other value.
[[nodiscard]] std::optional<bool> truth_of(pybind11::handle value);

// Arrays borrowed for one call: their owners are kept until it returns.
class Arguments {
 public:
  Tensor operator()(pybind11::handle array, std::string_view name) {
    if (array.is_none()) return {};
    Borrowed borrowed = borrow(array, name);
    owners_.append(borrowed.owner);
    tensors_.push_back(borrowed.tensor);
    return borrowed.tensor;
  }
  // Raises TypeError for None.
  Tensor needed(pybind11::handle array, std::string_view name) {
    if (array.is_none()) refuse_none(name);
    return (*this)(array, name);
  }
  // Whether the memory that one of them spans, gaps between rows included, overlaps that of `tensor`.
  [[nodiscard]] bool overlap(const Tensor& tensor) const;
  // f16 and bf16 are converted to f32; f64 stays for the reference.
  Tensor floats(pybind11::handle array, std::string_view name) { return to_float((*this)(array, name)); }
  Tensor needed_floats(pybind11::handle array, std::string_view name) { return to_float(needed(array, name)); }
  // i64 becomes i32; ValueError where a number does not fit. Lists of whole numbers are arrays here.
  Tensor integers(pybind11::handle array, std::string_view name);

 private:
  [[noreturn]] static void refuse_none(std::string_view name);
  static Tensor to_float(const Tensor& x) {
    return x.defined() && (x.dtype() == DType::f16 || x.dtype() == DType::bf16) ? x.to(DType::f32) : x;
  }

  pybind11::list owners_;
  std::vector<Tensor> tensors_;
};

}  // namespace heed::python
