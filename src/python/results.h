// What attention returns, as Python's dicts of arrays, and the caller's own array for the output.
#pragma once

#include <pybind11/pybind11.h>

#include "heed/attention.h"
#include "python/arrays.h"
#include "python/options.h"

namespace heed::python {

// The caller's array for the output. attention() writes into it directly, unless it has another shape or type, or
// shares memory with an operand. Then copy_into() fills it.
class Destination {
 public:
  explicit Destination(const pybind11::object& out);
  // Call it when `arguments` has all operands.
  void want(AttentionOptions& options, const Layout& layout, const Tensor& query, const Tensor& value,
            const Arguments& arguments) const;

 private:
  Borrowed given_;
};

// Copies `result` into the caller's array. Attention is done by then, so `out` may be one of its inputs.
void copy_into(const pybind11::object& out, const pybind11::object& result);

// `written`: the caller's array has the output already, so the result does not.
[[nodiscard]] pybind11::dict dict_of(const AttentionResult& result, const Layout& layout, bool written = false);
[[nodiscard]] pybind11::dict dict_of(const AttentionGradients& gradients);

}  // namespace heed::python
