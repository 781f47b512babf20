// Functions of heed/ops.h on arrays.
#include "python/ops.h"

#include <pybind11/stl.h>

#include <utility>

#include "heed/error.h"
#include "heed/ops.h"
#include "python/arrays.h"
#include "python/interrupt.h"

namespace py = pybind11;

namespace heed::python {
namespace {

// Computes without the GIL.
template <class F>
py::array released(F&& compute) {
  Tensor result;
  {
    const WithoutGil without_gil;
    result = compute();
  }
  return to_numpy(result);
}

Activation activation_of(const std::string& name) {
  for (const Activation a :
       {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::tanh}) {
    if (name == to_string(a)) return a;
  }
  throw py::value_error("[activate] relu, gelu, gelu_tanh, silu or tanh; found \"" + name + "\"");
}

}  // namespace

void define_ops(py::module_& module) {
  module.def("softmax", [](const py::object& x) {
    Arguments in;
    const Tensor t = in.needed_floats(x, "x");
    return released([&] { return ops::softmax(t); });
  });
  module.def("log_softmax", [](const py::object& x) {
    Arguments in;
    const Tensor t = in.needed_floats(x, "x");
    return released([&] { return ops::log_softmax(t); });
  });
  module.def("activate", [](const py::object& x, const std::string& name) {
    Arguments in;
    const Tensor t = in.needed_floats(x, "x");
    const Activation activation = activation_of(name);
    return released([&] { return ops::activate(t, activation); });
  });
  module.def("layer_norm", [](const py::object& x, const py::object& gain, const py::object& bias, float epsilon) {
    Arguments in;
    const Tensor t = in.needed_floats(x, "x"), g = in.needed_floats(gain, "gain"), b = in.floats(bias, "bias");
    return released([&] { return ops::layer_norm(t, g, b, epsilon).output; });
  });
  module.def("rms_norm", [](const py::object& x, const py::object& gain, float epsilon) {
    Arguments in;
    const Tensor t = in.needed_floats(x, "x"), g = in.needed_floats(gain, "gain");
    return released([&] { return ops::rms_norm(t, g, epsilon).output; });
  });
  module.def("linear", [](const py::object& x, const py::object& weight, const py::object& bias) {
    Arguments in;
    const Tensor t = in.needed_floats(x, "x"), w = in.needed_floats(weight, "weight"), b = in.floats(bias, "bias");
    return released([&] { return ops::linear(t, w, b).output; });
  });
  module.def(
      "rotary_embedding", [](const py::object& x, const py::object& cos, const py::object& sin, bool interleaved) {
        Arguments in;
        const Tensor t = in.needed_floats(x, "x"), c = in.needed_floats(cos, "cos"), s = in.needed_floats(sin, "sin");
        return released([&] { return ops::rotary_embedding(t, c, s, interleaved); });
      });
  module.def("rotary_tables", [](int64_t count, int64_t size, int64_t first_position, double base) {
    const ops::RotaryTables tables = ops::rotary_tables(count, size, first_position, base);
    return std::pair(to_numpy(tables.cos), to_numpy(tables.sin));
  });
}

}  // namespace heed::python
