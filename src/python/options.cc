// From Python's objects to heed::AttentionOptions.
#include "python/options.h"

#include <pybind11/stl.h>

#include <utility>
#include <vector>

#include "heed/error.h"

namespace py = pybind11;

namespace heed::python {
namespace {

// An option as a T, or TypeError with what it should be.
template <class T>
T as(py::handle value, const std::string& name, const char* expected) {
  try {
    return py::cast<T>(value);
  } catch (const py::cast_error&) {
    throw py::type_error("[attention] " + name + " as " + expected + "; found " + shown(value));
  }
}

template <class T>
T option_of(const py::dict& given, const char* name, const char* expected) {
  return as<T>(given[name], name, expected);
}

Causal causal_of(const py::object& causal) {
  if (causal.is_none()) return Causal::none();
  if (const auto truth = truth_of(causal)) return *truth ? Causal::bottom_right() : Causal::none();
  if (PyIndex_Check(causal.ptr()) != 0) return Causal::offset(as<int64_t>(causal, "causal", "an offset of 64 bits"));
  if (py::isinstance<py::str>(causal)) {
    const auto name = py::cast<std::string>(causal);
    if (name == "bottom_right") return Causal::bottom_right();
    if (name == "top_left") return Causal::top_left();
    throw py::value_error("[attention] causal \"bottom_right\" or \"top_left\"; found \"" + name + "\"");
  }
  throw py::type_error("[attention] causal as None, a bool, \"bottom_right\", \"top_left\" or a whole offset; found " +
                       shown(causal));
}

AttentionTaps taps_of(const py::dict& taps) {
  constexpr const char* kBool = "True or False";
  AttentionTaps result;
  for (const auto& [key, value] : taps) {
    const auto name = as<std::string>(key, "the name of a tap", "a string");
    const std::string path = "taps." + name;
    if (name == "entropy") {
      result.entropy = as<bool>(value, path, kBool);
    } else if (name == "top_k") {
      result.top_k = as<int64_t>(value, path, "a whole number");
    } else if (name == "column_sums") {
      result.column_sums = as<bool>(value, path, kBool);
    } else if (name == "map") {
      const auto [rows, columns] = as<std::pair<int64_t, int64_t>>(value, path, "two whole numbers (rows, columns)");
      result.map.rows = rows, result.map.columns = columns;
    } else if (name == "map_largest") {
      result.map.largest = as<bool>(value, path, kBool);
    } else if (name == "rows") {
      using Pairs = std::vector<std::pair<int64_t, int64_t>>;
      for (const auto& [head, query] : as<Pairs>(value, path, "a list of pairs (head, query)")) {
        result.rows.push_back({head, query});
      }
    } else if (name == "row_scores") {
      result.row_scores = as<bool>(value, path, kBool);
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

}  // namespace

Tensor Layout::in(const Tensor& x) const {
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

Tensor Layout::out(const Tensor& x) const {
  if (!x.defined()) return x;
  Tensor result = x.rank() == 4 && !(heads_first || rank < 3) ? x.transpose(1, 2) : x;
  for (int axis = rank; axis < 4; ++axis) result = result.select(0, 0);
  return result;
}

bool are_heads_first(const std::string& layout) {
  if (layout != "bhld" && layout != "blhd") {
    throw py::value_error("[attention] layout \"bhld\" or \"blhd\"; found \"" + layout + "\"");
  }
  return layout == "bhld";
}

Layout layout_of(const py::dict& options, const Tensor& query) {
  const bool heads_first = are_heads_first(option_of<std::string>(options, "layout", "a string"));
  require(query.defined() && query.rank() >= 2 && query.rank() <= 4, "attention", "query of two to four axes; found ",
          query.defined() ? query.rank() : 0);
  return {heads_first, query.rank()};
}

void require_heads(const AttentionOptions& options, const Tensor& query) {
  if (!options.score.defined()) return;
  const Tensor& table = options.score.table();
  require(table.size(0) == query.size(1), "attention", "relative_table of shape (H, 2 reach + 1), H = ", query.size(1),
          "; found ", table.shape());
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

}  // namespace heed::python
