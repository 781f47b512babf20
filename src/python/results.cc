// From the library's results to Python's arrays.
#include "python/results.h"

#include <algorithm>

#include "attention/call/problem.h"
#include "heed/error.h"

namespace py = pybind11;

namespace heed::python {
namespace {

void require_writable(const py::object& out) {
  if (PyObject_CheckBuffer(out.ptr()) == 0) return;
  try {
    (void)py::cast<py::buffer>(out).request(true);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_ValueError) && !error.matches(PyExc_BufferError)) throw;
    fail("attention", "out that can be written; found one that cannot (", py::cast<std::string>(py::str(error.value())),
         ")");
  }
}

py::object array_or_none(const Tensor& tensor) { return tensor.defined() ? py::object(to_numpy(tensor)) : py::none(); }

// Drops the leading axes that the arguments did not have.
Tensor drop_axes(const Tensor& tensor, int count) {
  Tensor result = tensor;
  for (int n = 0; n < count && result.defined(); ++n) result = result.select(0, 0);
  return result;
}

}  // namespace

Destination::Destination(const py::object& out) {
  if (out.is_none()) return;
  require_writable(out);
  given_ = borrow(out, "out");
}

void Destination::want(AttentionOptions& options, const Layout& layout, const Tensor& query, const Tensor& value,
                       const Arguments& arguments) const {
  const Tensor& to = given_.tensor;
  if (!to.defined() || !value.defined() || value.rank() != 4) return;
  if (to.rank() != layout.rank || to.dtype() != query.dtype() || arguments.overlap(to)) return;
  const Tensor four = layout.in(to);
  const Shape shape{query.size(0), query.size(1), query.size(2), value.size(3)};
  if (four.shape() == shape && has_rows_of_its_own(four)) options.want.output = four;
}

void copy_into(const py::object& out, const py::object& result) {
  require_writable(out);
  const Borrowed to = borrow(out, "out"), from = borrow(result, "output");
  require(to.tensor.shape() == from.tensor.shape(), "attention", "out of shape ", from.tensor.shape(), "; found ",
          to.tensor.shape());
  for (int axis = 0; axis < to.tensor.rank(); ++axis) {
    require(to.tensor.size(axis) == 1 || to.tensor.stride(axis) != 0, "attention",
            "out without strides of 0; found strides ", to.tensor.strides());
  }
  constexpr DType kFloating[] = {DType::f32, DType::f64, DType::f16, DType::bf16};
  require(std::ranges::find(kFloating, to.tensor.dtype()) != std::end(kFloating), "attention",
          "out in f32, f64, f16 or bf16; found ", to.tensor.dtype());
  to.tensor.copy_from(from.tensor);
}

py::dict dict_of(const AttentionResult& r, const Layout& layout, bool written) {
  const int absent = 4 - layout.rank;
  const auto rows = [&](const Tensor& t) { return array_or_none(drop_axes(t, absent)); };
  py::dict result;
  result["output"] = written ? py::none() : array_or_none(layout.out(r.output));
  result["logsumexp"] = rows(r.logsumexp);
  result["weights"] = rows(r.weights);
  result["scores"] = rows(r.scores);
  py::dict taps;
  taps["entropy"] = rows(r.taps.entropy);
  taps["top_keys"] = rows(r.taps.top_keys);
  taps["top_weights"] = rows(r.taps.top_weights);
  taps["column_sums"] = rows(r.taps.column_sums);
  taps["map"] = rows(r.taps.map);
  taps["rows"] = array_or_none(drop_axes(r.taps.rows, absent > 0 ? 1 : 0));
  taps["row_scores"] = array_or_none(drop_axes(r.taps.row_scores, absent > 0 ? 1 : 0));
  result["taps"] = taps;
  return result;
}

py::dict dict_of(const AttentionGradients& gradients) {
  py::dict result;
  result["query"] = array_or_none(gradients.query);
  result["key"] = array_or_none(gradients.key);
  result["value"] = array_or_none(gradients.value);
  result["bias"] = array_or_none(gradients.bias);
  result["sinks"] = array_or_none(gradients.sinks);
  result["alibi_slopes"] = array_or_none(gradients.alibi_slopes);
  result["relative_table"] = array_or_none(gradients.score_table);
  result["additive_weight"] = array_or_none(gradients.additive_weight);
  return result;
}

}  // namespace heed::python
