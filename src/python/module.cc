// The extension module heed._heed: C++ functions on arrays. The package heed (python/heed) wraps them.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>

#include "heed/attention_variants.h"
#include "heed/cpu.h"
#include "heed/error.h"
#include "kernels/attention/engine.h"
#include "kernels/simd/peak.h"
#include "python/arrays.h"
#include "python/cache.h"
#include "python/errors.h"
#include "python/interrupt.h"
#include "python/ops.h"
#include "python/options.h"
#include "python/pipelines.h"
#include "python/results.h"
#include "python/tokenizers.h"
#include "python/training.h"

namespace py = pybind11;

namespace heed::python {
namespace {

// `additive` is the weight of additive scores, or None.
py::dict attend(const py::object& query, const py::object& key, const py::object& value, const py::dict& given,
                bool plain, const py::object& additive, const py::object& out) {
  const Destination destination(out);
  Arguments arguments;
  std::array<Tensor, 3> tensors{arguments.needed(query, "query"), arguments.needed(key, "key"),
                                arguments.needed(value, "value")};
  unify(tensors, !plain);
  const auto& [q, k, v] = tensors;
  AttentionOptions options = options_of(given, arguments);
  const Layout layout = layout_of(given, q);
  require_heads(options, layout.in(q));
  const Tensor weight = arguments.floats(additive, "weight");
  destination.want(options, layout, layout.in(q), layout.in(v), arguments);
  AttentionResult result;
  {
    const WithoutGil without_gil;
    if (weight.defined()) {
      result = attention_additive(layout.in(q), layout.in(k), layout.in(v), weight, options);
    } else {
      result = plain ? reference::attention(layout.in(q), layout.in(k), layout.in(v), options)
                     : attention(layout.in(q), layout.in(k), layout.in(v), options);
    }
  }
  return dict_of(result, layout, options.want.output.defined());
}

py::dict differentiate(const py::object& d_output, const py::object& query, const py::object& key,
                       const py::object& value, const py::object& output, const py::object& logsumexp,
                       const py::dict& given, const std::array<bool, 3>& want, const py::object& additive) {
  Arguments arguments;
  std::array<Tensor, 5> tensors{arguments.needed(d_output, "d_output"), arguments.needed(query, "query"),
                                arguments.needed(key, "key"), arguments.needed(value, "value"),
                                arguments.needed(output, "output")};
  unify(tensors, true);
  const auto& [d, q, k, v, o] = tensors;
  const AttentionOptions options = options_of(given, arguments);
  const Layout layout = layout_of(given, q);
  require_heads(options, layout.in(q));
  AttentionResult forward;
  forward.output = layout.in(o);
  forward.logsumexp = arguments.needed_floats(logsumexp, "logsumexp");
  if (forward.logsumexp.defined() && layout.rank < 4) {
    Shape shape{1};
    if (layout.rank < 3) shape.push_back(1);
    for (const int64_t extent : forward.logsumexp.shape()) shape.push_back(extent);
    forward.logsumexp = forward.logsumexp.contiguous().reshape(shape);
  }
  const Tensor weight = arguments.floats(additive, "weight");
  const AttentionWantGradients wanted{.bias = want[0], .alibi_slopes = want[1], .score_table = want[2]};
  AttentionGradients gradients;
  {
    const WithoutGil without_gil;
    gradients = weight.defined() ? attention_additive_backward(layout.in(d), layout.in(q), layout.in(k), layout.in(v),
                                                               weight, forward, options, wanted)
                                 : attention_backward(layout.in(d), layout.in(q), layout.in(k), layout.in(v), forward,
                                                      options, wanted);
  }
  gradients.query = layout.out(gradients.query);
  gradients.key = layout.out(gradients.key);
  gradients.value = layout.out(gradients.value);
  return dict_of(gradients);
}

// Sequences without padding, (T, H, D). `begins` says where each begins, in the queries and in the keys.
struct VarlenArguments {
  std::array<Tensor, 3> tensors;
  CuSeqlens lengths;
  AttentionOptions options;

  VarlenArguments(Arguments& arguments, const py::object& query, const py::object& key, const py::object& value,
                  const std::array<py::object, 2>& begins, const py::dict& given)
      : tensors{arguments.needed(query, "query"), arguments.needed(key, "key"), arguments.needed(value, "value")},
        lengths{arguments.integers(begins[0], "cu_seqlens_q"), arguments.integers(begins[1], "cu_seqlens_k")},
        options(options_of(given, arguments)) {
    require(tensors[0].rank() == 3, "attention_varlen", "query (T, H, D); found ", tensors[0].shape());
    require_heads(options, tensors[0]);
  }
};

py::dict attend_varlen(const py::object& query, const py::object& key, const py::object& value,
                       const std::array<py::object, 2>& begins, const py::dict& given) {
  Arguments arguments;
  VarlenArguments packed(arguments, query, key, value, begins, given);
  unify(packed.tensors, true);
  const auto& [q, k, v] = packed.tensors;
  AttentionResult result;
  {
    const WithoutGil without_gil;
    result = attention_varlen(q, k, v, packed.lengths, packed.options);
  }
  return dict_of(result, {.heads_first = true, .rank = 4});
}

py::dict differentiate_varlen(const py::object& d_output, const py::object& query, const py::object& key,
                              const py::object& value, const py::object& output, const py::object& logsumexp,
                              const std::array<py::object, 2>& begins, const py::dict& given,
                              const std::array<bool, 3>& want) {
  Arguments arguments;
  const VarlenArguments packed(arguments, query, key, value, begins, given);
  std::array<Tensor, 5> tensors{arguments.needed(d_output, "d_output"), packed.tensors[0], packed.tensors[1],
                                packed.tensors[2], arguments.needed(output, "output")};
  unify(tensors, true);
  const auto& [d, q, k, v, o] = tensors;
  AttentionResult forward;
  forward.output = o;
  forward.logsumexp = arguments.needed_floats(logsumexp, "logsumexp");
  const AttentionWantGradients wanted{.bias = want[0], .alibi_slopes = want[1], .score_table = want[2]};
  AttentionGradients gradients;
  {
    const WithoutGil without_gil;
    gradients = attention_varlen_backward(d, q, k, v, packed.lengths, forward, packed.options, wanted);
  }
  return dict_of(gradients);
}

std::string explain(const py::object& query, const py::object& key, const py::object& value, const py::dict& given) {
  Arguments arguments;
  std::array<Tensor, 3> tensors{arguments.needed(query, "query"), arguments.needed(key, "key"),
                                arguments.needed(value, "value")};
  unify(tensors, true);
  const auto& [q, k, v] = tensors;
  const AttentionOptions options = options_of(given, arguments);
  const Layout layout = layout_of(given, q);
  require_heads(options, layout.in(q));
  const WithoutGil without_gil;
  return attention_plan(layout.in(q), layout.in(k), layout.in(v), options).text;
}

}  // namespace

PYBIND11_MODULE(_heed, module) {
  register_errors();
  wait_for_threads_at_exit();
  // pybind11 looks NumPy's functions up when they are first wanted. Before its version 2.12 it waited for the thread
  // that was just doing so while it held the GIL, which that thread may need.
  (void)py::dtype("float32");
  module.def("attention", &attend);
  module.def("attention_backward", &differentiate);
  module.def("attention_varlen", &attend_varlen);
  module.def("attention_varlen_backward", &differentiate_varlen);
  module.def("copy_into", &copy_into);
  define_ops(module);
  define_tokenizers(module);
  define_pipelines(module);
  define_training(module);
  module.def("explain", &explain);
  define_cache(module);
  module.def("num_threads", &num_threads);
  module.def("set_num_threads", &set_num_threads);
  module.def("active_isa", [] { return std::string(to_string(active_isa())); });
  module.def("set_isa", [](const std::string& name) { set_isa(parse_isa(name)); });
  module.def("available_isas", [] {
    std::vector<std::string> names;
    for (const Isa isa : available_isas()) names.emplace_back(to_string(isa));
    return names;
  });
  module.def(
      "peak_gflops",
      [](const std::string& dtype) {
        if (dtype != "float32" && dtype != "f32" && dtype != "bfloat16" && dtype != "bf16") {
          throw py::value_error("[peak_gflops] dtype \"float32\" or \"bfloat16\"; found \"" + dtype + "\"");
        }
        const WithoutGil without_gil;
        const kernels::Engine* const engine = dtype[0] == 'b' ? kernels::bf16_engine() : nullptr;
        return kernels::peak_gflops(9, engine != nullptr ? engine->run_peak : kernels::run_peak);
      },
      py::arg("dtype") = "float32");
  module.attr("__version__") = HEED_VERSION;
}

}  // namespace heed::python
