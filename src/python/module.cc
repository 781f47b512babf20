// The extension module heed._heed: C++ functions on arrays. The package heed (python/heed) wraps them.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>

#include "attention/call/problem.h"
#include "heed/attention_variants.h"
#include "heed/cpu.h"
#include "heed/error.h"
#include "heed/kv_cache.h"
#include "kernels/attention/engine.h"
#include "kernels/simd/peak.h"
#include "python/arrays.h"
#include "python/ops.h"
#include "python/pipelines.h"
#include "python/tokenizers.h"
#include "python/training.h"

namespace py = pybind11;

namespace heed::python {
namespace {

bool is_half(const Tensor& x) { return x.defined() && (x.dtype() == DType::f16 || x.dtype() == DType::bf16); }

// Brings query, key, value and so on to one type: they stay as they are if all have the same half precision; otherwise
// half precision becomes f32. f64 stays for the reference.
template <size_t N>
void unify(std::array<Tensor, N>& tensors, bool halves) {
  const bool same = std::all_of(tensors.begin(), tensors.end(),
                                [&](const Tensor& x) { return is_half(x) && x.dtype() == tensors[0].dtype(); });
  if (same && halves) return;
  for (Tensor& x : tensors) {
    if (is_half(x)) x = x.to(DType::f32);
  }
}

// Batch, heads and lengths of arrays that may come as (B, H, L, D), (B, L, H, D), (H, L, D), (L, H, D) or (L, D).
struct Layout {
  bool heads_first = true;
  int rank = 4;

  Tensor in(const Tensor& x) const {  // -> (B, H, L, D), a view
    if (!x.defined()) return x;
    require(x.rank() == rank, "attention", "query, key, value and gradients of as many axes; found ", rank, " and ",
            x.rank());
    Tensor four = x;
    while (four.rank() < 4) {  // at the left: (H, L, D) is one sequence, (L, D) one head of it
      Shape shape{1}, strides{0};
      for (int axis = 0; axis < four.rank(); ++axis) {
        shape.push_back(four.size(axis));
        strides.push_back(four.stride(axis));
      }
      four = Tensor::wrap(four.raw(), shape, strides, four.dtype());
    }
    return heads_first || rank < 3 ? four : four.transpose(1, 2);
  }
  Tensor out(const Tensor& x) const {  // the way back
    if (!x.defined()) return x;
    Tensor result = x.rank() == 4 && !(heads_first || rank < 3) ? x.transpose(1, 2) : x;
    for (int axis = rank; axis < 4; ++axis) result = result.select(0, 0);
    return result;
  }
};

bool are_heads_first(const std::string& layout) {
  if (layout != "bhld" && layout != "blhd") {
    throw py::value_error("[attention] layout \"bhld\" or \"blhd\"; found \"" + layout + "\"");
  }
  return layout == "bhld";
}

// An option as a T, or TypeError with what it should be.
template <class T>
T option_of(const py::dict& given, const char* name, const char* expected) {
  const py::object value = given[name];
  try {
    return py::cast<T>(value);
  } catch (const py::cast_error&) {
    throw py::type_error(std::string("[attention] ") + name + " as " + expected + "; found " +
                         py::cast<std::string>(py::repr(value)));
  }
}

Layout layout_of(const py::dict& options, const Tensor& query) {
  const bool heads_first = are_heads_first(option_of<std::string>(options, "layout", "a string"));
  require(query.defined() && query.rank() >= 2 && query.rank() <= 4, "attention", "query of two to four axes; found ",
          query.defined() ? query.rank() : 0);
  return {heads_first, query.rank()};
}

Causal causal_of(const py::object& causal) {
  if (causal.is_none()) return Causal::none();
  if (py::isinstance<py::bool_>(causal)) return py::cast<bool>(causal) ? Causal::bottom_right() : Causal::none();
  if (py::isinstance<py::int_>(causal)) return Causal::offset(py::cast<int64_t>(causal));
  if (py::isinstance<py::str>(causal)) {
    const auto name = py::cast<std::string>(causal);
    if (name == "bottom_right") return Causal::bottom_right();
    if (name == "top_left") return Causal::top_left();
    throw py::value_error("[attention] causal \"bottom_right\" or \"top_left\"; found \"" + name + "\"");
  }
  throw py::type_error("[attention] causal as None, a bool, \"bottom_right\", \"top_left\" or a whole offset; found " +
                       py::cast<std::string>(py::str(py::type::of(causal))));
}

void require_heads(const AttentionOptions& options, const Tensor& query) {
  if (!options.score.defined()) return;
  const Tensor& table = options.score.table();
  require(table.size(0) == query.size(1), "attention", "relative_table of shape (H, 2 reach + 1), H = ", query.size(1),
          "; found ", table.shape());
}

AttentionTaps taps_of(const py::dict& taps) {
  AttentionTaps result;
  for (const auto& [key, value] : taps) {
    const auto name = py::cast<std::string>(key);
    if (name == "entropy") {
      result.entropy = py::cast<bool>(value);
    } else if (name == "top_k") {
      result.top_k = py::cast<int64_t>(value);
    } else if (name == "column_sums") {
      result.column_sums = py::cast<bool>(value);
    } else if (name == "map") {
      const auto [rows, columns] = py::cast<std::pair<int64_t, int64_t>>(value);
      result.map.rows = rows, result.map.columns = columns;
    } else if (name == "map_largest") {
      result.map.largest = py::cast<bool>(value);
    } else if (name == "rows") {
      for (const auto& [head, query] : py::cast<std::vector<std::pair<int64_t, int64_t>>>(value)) {
        result.rows.push_back({head, query});
      }
    } else if (name == "row_scores") {
      result.row_scores = py::cast<bool>(value);
    } else {
      throw py::value_error(
          "[attention] taps entropy, top_k, column_sums, map, map_largest, rows or row_scores; found \"" + name + "\"");
    }
  }
  require(!result.map.largest || result.map.rows > 0, "attention",
          "taps map beside map_largest; found map_largest alone");
  require(!result.row_scores || !result.rows.empty(), "attention",
          "taps rows beside row_scores; found row_scores alone");
  return result;
}

AttentionOptions options_of(const py::dict& given, Arguments& arguments) {
  AttentionOptions options;
  const auto has = [&](const char* name) { return !given[name].is_none(); };
  if (has("scale")) options.scale = option_of<float>(given, "scale", "a number");
  options.causal = causal_of(given["causal"]);
  if (has("window")) {
    const auto [left, right] =
        option_of<std::pair<int64_t, int64_t>>(given, "window", "two whole numbers (left, right)");
    options.window = {left, right};
  }
  options.key_lengths = arguments.integers(given["key_lengths"], "key_lengths");
  options.mask = arguments(given["mask"], "mask");
  options.bias = arguments.floats(given["bias"], "bias");
  if (has("softcap")) options.softcap = option_of<float>(given, "softcap", "a number");
  options.alibi_slopes = arguments.floats(given["alibi_slopes"], "alibi_slopes");
  const Tensor table = arguments.floats(given["relative_table"], "relative_table");
  if (table.defined()) {
    require(table.rank() == 2 && table.size(1) % 2 == 1, "attention",
            "relative_table of shape (H, 2 reach + 1); found ", table.shape());
    options.score = score::RelativePosition{table, static_cast<int32_t>(table.size(1) / 2)};
  }
  options.sinks = arguments.floats(given["sinks"], "sinks");
  options.query_documents = arguments.integers(given["query_documents"], "query_documents");
  options.key_documents = arguments.integers(given["key_documents"], "key_documents");
  options.dropout.rate = option_of<float>(given, "dropout", "a number");
  if (has("seed")) {
    options.dropout.seed = option_of<uint64_t>(given, "seed", "a whole number from 0 to 2^64 - 1");
  }
  options.want.logsumexp = option_of<bool>(given, "return_logsumexp", "True or False");
  options.want.weights = option_of<bool>(given, "return_weights", "True or False");
  options.want.scores = option_of<bool>(given, "return_scores", "True or False");
  if (has("taps")) options.want.taps = taps_of(py::cast<py::dict>(given["taps"]));
  return options;
}

// The caller's array for the output. attention() writes into it directly, unless it has another shape or type, or
// shares memory with an operand. Then copy_into() fills it.
class Destination {
 public:
  explicit Destination(const py::object& out) {
    if (out.is_none()) return;
    if (PyObject_CheckBuffer(out.ptr()) != 0) (void)py::cast<py::buffer>(out).request(true);  // raises if read-only
    given_ = borrow(out, "out");
  }
  // Call it when `arguments` has all operands.
  void want(AttentionOptions& options, const Layout& layout, const Tensor& query, const Tensor& value,
            const Arguments& arguments) const {
    const Tensor& to = given_.tensor;
    if (!to.defined() || !value.defined() || value.rank() != 4) return;
    if (to.rank() != layout.rank || to.dtype() != query.dtype() || arguments.overlap(to)) return;
    const Tensor four = layout.in(to);
    const Shape shape{query.size(0), query.size(1), query.size(2), value.size(3)};
    if (four.shape() == shape && has_rows_of_its_own(four)) options.want.output = four;
  }

 private:
  Borrowed given_;
};

py::object array_or_none(const Tensor& tensor) { return tensor.defined() ? py::object(to_numpy(tensor)) : py::none(); }

// Drops the leading axes that the arguments did not have.
Tensor drop_axes(const Tensor& tensor, int count) {
  Tensor result = tensor;
  for (int n = 0; n < count && result.defined(); ++n) result = result.select(0, 0);
  return result;
}

// `written`: the caller's array has the output already, so the result does not.
py::dict dict_of(const AttentionResult& r, const Layout& layout, bool written = false) {
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

// `additive` is the weight of additive scores, or None.
py::dict attend(const py::object& query, const py::object& key, const py::object& value, const py::dict& given,
                bool plain, const py::object& additive, const py::object& out) {
  const Destination destination(out);
  Arguments arguments;
  std::array<Tensor, 3> tensors{arguments(query, "query"), arguments(key, "key"), arguments(value, "value")};
  unify(tensors, !plain);
  const auto& [q, k, v] = tensors;
  AttentionOptions options = options_of(given, arguments);
  const Layout layout = layout_of(given, q);
  require_heads(options, layout.in(q));
  const Tensor weight = arguments.floats(additive, "weight");
  destination.want(options, layout, layout.in(q), layout.in(v), arguments);
  AttentionResult result;
  {
    const py::gil_scoped_release release;
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
  std::array<Tensor, 5> tensors{arguments(d_output, "d_output"), arguments(query, "query"), arguments(key, "key"),
                                arguments(value, "value"), arguments(output, "output")};
  unify(tensors, true);
  const auto& [d, q, k, v, o] = tensors;
  const AttentionOptions options = options_of(given, arguments);
  const Layout layout = layout_of(given, q);
  require_heads(options, layout.in(q));
  AttentionResult forward;
  forward.output = layout.in(o);
  forward.logsumexp = arguments.floats(logsumexp, "logsumexp");
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
    const py::gil_scoped_release release;
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
      : tensors{arguments(query, "query"), arguments(key, "key"), arguments(value, "value")},
        lengths{arguments.integers(begins[0], "cu_seqlens_q"), arguments.integers(begins[1], "cu_seqlens_k")},
        options(options_of(given, arguments)) {
    require(tensors[0].defined() && tensors[0].rank() == 3, "attention_varlen", "query (T, H, D); found ",
            tensors[0].defined() ? to_string(tensors[0].shape()) : "none");
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
    const py::gil_scoped_release release;
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
  std::array<Tensor, 5> tensors{arguments(d_output, "d_output"), packed.tensors[0], packed.tensors[1],
                                packed.tensors[2], arguments(output, "output")};
  unify(tensors, true);
  const auto& [d, q, k, v, o] = tensors;
  AttentionResult forward;
  forward.output = o;
  forward.logsumexp = arguments.floats(logsumexp, "logsumexp");
  const AttentionWantGradients wanted{.bias = want[0], .alibi_slopes = want[1], .score_table = want[2]};
  AttentionGradients gradients;
  {
    const py::gil_scoped_release release;
    gradients = attention_varlen_backward(d, q, k, v, packed.lengths, forward, packed.options, wanted);
  }
  return dict_of(gradients);
}

std::string explain(const py::object& query, const py::object& key, const py::object& value, const py::dict& given) {
  Arguments arguments;
  std::array<Tensor, 3> tensors{arguments(query, "query"), arguments(key, "key"), arguments(value, "value")};
  unify(tensors, true);
  const auto& [q, k, v] = tensors;
  const AttentionOptions options = options_of(given, arguments);
  const Layout layout = layout_of(given, q);
  require_heads(options, layout.in(q));
  return attention_plan(layout.in(q), layout.in(k), layout.in(v), options).text;
}

KeyValueCache make_cache(int64_t batch, int64_t heads, int64_t capacity, int64_t size, int64_t value_size,
                         const std::string& dtype, int64_t page, int64_t pages) {
  const DType type = cache_dtype(dtype, "[KeyValueCache] dtype");
  return {batch, heads, capacity, size, value_size, {.dtype = type, .page = page, .pages = pages}};
}

void append(KeyValueCache& cache, const py::object& key, const py::object& value, const py::object& lengths,
            const std::string& layout) {
  Arguments arguments;
  Tensor k = arguments(key, "key"), v = arguments(value, "value");
  const Tensor counts = arguments.integers(lengths, "lengths");
  if (!are_heads_first(layout) && k.rank() == 4 && v.rank() == 4) k = k.transpose(1, 2), v = v.transpose(1, 2);
  const py::gil_scoped_release release;
  cache.append(k, v, counts);
}

py::dict attend_memory(const py::object& query, const KeyValues& memory, const py::dict& given, const py::object& out,
                       Arguments& arguments) {
  const Destination destination(out);
  const Tensor q = arguments.floats(query, "query");
  AttentionOptions options = options_of(given, arguments);
  const Layout layout = layout_of(given, q);
  require_heads(options, layout.in(q));
  destination.want(options, layout, layout.in(q), memory.value, arguments);
  AttentionResult result;
  {
    const py::gil_scoped_release release;
    result = attention(layout.in(q), memory, options);
  }
  return dict_of(result, layout, options.want.output.defined());
}

py::dict attend_cache(const py::object& query, const KeyValueCache& cache, const py::dict& given,
                      const py::object& out) {
  Arguments arguments;
  return attend_memory(query, cache.memory(), given, out, arguments);
}

// Memory of the caller's own: `given_memory` has the fields of KeyValues.
py::dict attend_stored(const py::object& query, const py::dict& given_memory, const py::dict& given,
                       const py::object& out) {
  Arguments arguments;
  KeyValues memory;
  memory.key = arguments(given_memory["key"], "key");
  memory.value = arguments(given_memory["value"], "value");
  memory.key_scales = arguments(given_memory["key_scales"], "key_scales");
  memory.value_scales = arguments(given_memory["value_scales"], "value_scales");
  memory.lengths = arguments.integers(given_memory["lengths"], "lengths");
  memory.pages = arguments.integers(given_memory["pages"], "pages");
  return attend_memory(query, memory, given, out, arguments);
}

// Copies `result` into the caller's array. Attention is done by then, so `out` may be one of its inputs.
void copy_into(const py::object& out, const py::object& result) {
  if (PyObject_CheckBuffer(out.ptr()) != 0) (void)py::cast<py::buffer>(out).request(true);  // raises if read-only
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

}  // namespace

PYBIND11_MODULE(_heed, module) {
  py::register_exception_translator([](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const Error& e) {
      PyErr_SetString(PyExc_ValueError, e.what());
    }
  });
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
  module.def("attention_cache", &attend_cache);
  module.def("attention_stored", &attend_stored);
  py::class_<KeyValueCache>(module, "Cache")
      .def(py::init(&make_cache))
      .def("append", &append)
      .def("truncate", &KeyValueCache::truncate)
      .def("reorder", [](KeyValueCache& cache, const std::vector<int64_t>& rows) { cache.reorder(rows); })
      .def("lengths", [](const KeyValueCache& cache) { return to_numpy(cache.memory().lengths.clone()); })
      .def("capacity", &KeyValueCache::capacity)
      .def("free_pages", &KeyValueCache::free_pages)
      .def("nbytes", &KeyValueCache::nbytes);
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
        require(dtype == "f32" || dtype == "bf16", "peak_gflops", "dtype \"f32\" or \"bf16\"; found \"", dtype, "\"");
        const kernels::Engine* const engine = dtype == "bf16" ? kernels::bf16_engine() : nullptr;
        return kernels::peak_gflops(9, engine != nullptr ? engine->run_peak : kernels::run_peak);
      },
      py::arg("dtype") = "f32", py::call_guard<py::gil_scoped_release>());
  module.attr("__version__") = HEED_VERSION;
}

}  // namespace heed::python
