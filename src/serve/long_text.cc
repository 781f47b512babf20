#include "serve/long_text.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "attention/forward/forward.h"
#include "heed/error.h"
#include "serve/binary.h"

namespace heed::serve {
namespace {

using nlohmann::json;

constexpr int64_t kLargestPicture = 1024;  // cells a side

struct Enough {};  // ends a pass whose rest nobody asks for

// What is kept of a pass.
struct Keeper : nn::Probe {
  std::function<void(std::string_view, const Tensor&, const Tensor&, const Tensor&, const AttentionOptions&)> keep;
  void on_attention(std::string_view layer, const Tensor& query, const Tensor& key, const Tensor& value,
                    AttentionOptions& options) override {
    keep(layer, query, key, value, options);
  }
};

struct Range {
  int64_t begin = 0, end = 0;
  [[nodiscard]] int64_t size() const { return end - begin; }
};

Range range_of(const Arguments& request, const char* name, int64_t length) {
  if (!request.has(name)) return {0, length};
  const std::vector<int64_t> ends = request.integers(name, 0, length);
  if (ends.size() != 2 || ends[0] >= ends[1])
    refuse(name, "[begin, end) with begin < end, at most " + std::to_string(length), request.at(name));
  return {ends[0], ends[1]};
}

// The mean of `values` over each of `cells` parts of the range, or the largest of them.
Tensor pooled(const float* values, Range range, int64_t cells, bool largest = false) {
  const Tensor out = Tensor::zeros({cells});
  for (int64_t c = 0; c < cells; ++c) {
    const int64_t begin = range.begin + c * range.size() / cells, end = range.begin + (c + 1) * range.size() / cells;
    double sum = 0;
    for (int64_t i = begin; i < end; ++i) sum += static_cast<double>(values[i]);
    out.data<float>()[c] = largest ? *std::max_element(values + begin, values + end)
                                   : static_cast<float>(sum / static_cast<double>(std::max<int64_t>(1, end - begin)));
  }
  return out;
}

}  // namespace

const LongTexts::Layer& LongTexts::layer_of(const Reading& reading, const std::string& part, int64_t layer) {
  if (model_ != reading.model || source_ != reading.source || target_ != reading.target) {
    layers_.clear();
    model_ = nullptr;
    std::vector<Layer> seen;
    const Served& served = *reading.model;
    const char* const last_part = served.translates() ? "cross" : served.decodes() ? "decoder" : "encoder";
    const std::string last = attention_path(served, last_part, layers_of(served, last_part) - 1);
    Keeper keeper;
    keeper.keep = [&](std::string_view path, const Tensor& query, const Tensor& key, const Tensor& value,
                      const AttentionOptions& options) {
      seen.push_back({.path = std::string(path), .query = query, .key = key, .value = value, .options = options});
      if (path == last) throw Enough();
    };
    try {
      (void)logits_of(reading, &keeper);
    } catch (const Enough&) {
    }
    layers_ = std::move(seen);
    model_ = reading.model;
    source_ = reading.source;
    target_ = reading.target;
  }
  const std::string path = attention_path(*reading.model, part, layer);
  const auto found = std::find_if(layers_.begin(), layers_.end(), [&](const Layer& one) { return one.path == path; });
  require(found != layers_.end(), "serve", "a layer ", path);
  return *found;
}

Reply LongTexts::map(const Reading& reading, const Arguments& request) {
  const Served& model = *reading.model;
  const std::string part = part_of(model, request);
  const auto [length, keys] = size_of_map(reading, part);
  const int64_t layer = request.integer("layer", 0, layers_of(model, part) - 1);
  const int64_t head = request.integer("head", 0, model.config().heads - 1);
  const Range rows = range_of(request, "rows", length), columns = range_of(request, "columns", keys);
  std::vector<int64_t> size = {256, 256};
  if (request.has("size")) size = request.integers("size", 1, kLargestPicture);
  if (size.size() != 2) refuse("size", "[rows, columns]", request.at("size"));
  const int64_t cell_rows = std::min(size[0], rows.size()), cell_columns = std::min(size[1], columns.size());

  const Layer& seen = layer_of(reading, part, layer);
  const bool largest = request.flag("largest", false), all_keys = columns.size() == keys;
  // The tap has cells over all keys, so a part of them is pooled here: at most 1,024 x 32,768 numbers.
  AttentionOptions options = seen.options;
  options.want.taps = {.entropy = true,
                       .column_sums = true,
                       .map = {.rows = cell_rows, .columns = all_keys ? cell_columns : keys, .largest = largest}};
  const AttentionResult result =
      attention_of_rows(seen.query, seen.key, seen.value, options, head, rows.begin, rows.end);
  Tensor view = result.taps.map.contiguous();  // (1, 1, cell_rows, cell_columns or keys)
  if (!all_keys) {
    const Tensor map = std::exchange(view, Tensor::empty({cell_rows, cell_columns}));
    for (int64_t r = 0; r < cell_rows; ++r) {
      const Tensor cells = pooled(map.data<float>() + r * keys, columns, cell_columns, largest);
      std::copy_n(cells.data<float>(), cell_columns, view.data<float>() + r * cell_columns);
    }
  }
  const Tensor entropy = result.taps.entropy.contiguous().clone();
  for (int64_t i = 0; i < entropy.numel(); ++i) entropy.data<float>()[i] /= std::log(2.0f);
  const Tensor sums = result.taps.column_sums.contiguous().clone();
  for (int64_t j = 0; j < sums.numel(); ++j) sums.data<float>()[j] /= static_cast<float>(rows.size());
  Binary numbers(DType::f32);
  numbers.add(view);
  numbers.add(pooled(entropy.data<float>(), {0, rows.size()}, cell_rows));
  numbers.add(pooled(sums.data<float>(), columns, cell_columns));
  return numbers.with_header({{"rows", cell_rows},
                              {"columns", cell_columns},
                              {"length", length},
                              {"keys", keys},
                              {"entropy", true},
                              {"received", true}});
}

json LongTexts::row(const Reading& reading, const Arguments& request) {
  constexpr int64_t kAround = 24;
  const Served& model = *reading.model;
  const std::string part = part_of(model, request);
  const auto [length, keys] = size_of_map(reading, part);
  const int64_t layer = request.integer("layer", 0, layers_of(model, part) - 1);
  const int64_t head = request.integer("head", 0, model.config().heads - 1);
  const int64_t row = request.integer("row", 0, length - 1), count = request.integer("count", 1, 1000, 12);
  const Layer& seen = layer_of(reading, part, layer);
  AttentionOptions options = seen.options;
  options.want.taps = {.entropy = true, .top_k = std::min(count, keys)};
  const AttentionResult result = attention_of_rows(seen.query, seen.key, seen.value, options, head, row, row + 1);
  const Ids& read = part == "decoder" ? reading.target : reading.source;
  const Ids& from = part == "encoder" ? reading.source : reading.target;
  const auto piece = [&](int32_t id) { return part == "decoder" ? model.piece(id) : model.source_piece(id); };
  json top = json::array();
  for (int64_t k = 0; k < result.taps.top_keys.size(3); ++k) {
    const auto column = static_cast<int64_t>(result.taps.top_keys.at({0, 0, 0, k}));
    if (column < 0) break;
    top.push_back({{"column", column},
                   {"token", piece(read[static_cast<size_t>(column)])},
                   {"weight", result.taps.top_weights.at({0, 0, 0, k})}});
  }
  json around = json::array();
  const int64_t first = std::max<int64_t>(0, row - kAround);
  for (int64_t i = first; i < std::min(length, row + kAround + 1); ++i) {
    const int32_t id = from[static_cast<size_t>(i)];
    around.push_back(part == "encoder" ? model.source_piece(id) : model.piece(id));
  }
  return {{"row", row},
          {"entropy", result.taps.entropy.at({0, 0, 0}) / std::log(2.0)},
          {"keys", top},
          {"around", around},
          {"first", first}};
}

}  // namespace heed::serve
