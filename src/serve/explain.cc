// How one weight came about: every number is the operator's own.
#include <algorithm>
#include <cmath>

#include "attention/forward/forward.h"
#include "heed/error.h"
#include "serve/views.h"

namespace heed::serve {
namespace {

using nlohmann::json;

// What one attention layer was given, and what it added.
struct LayerSeen : nn::Probe {
  std::string path;
  int64_t row = 0;
  Tensor query, key, value;
  AttentionOptions options;
  Tensor added;  // (E), at the row

  void on_attention(std::string_view layer, const Tensor& q, const Tensor& k, const Tensor& v,
                    AttentionOptions& with) override {
    if (layer != path) return;
    query = q;
    key = k;
    value = v;
    options = with;
  }
  void on_added(std::string_view sublayer, const Tensor& all) override {
    if (sublayer == path) added = all.select(0, 0).select(0, row).clone();
  }
};

std::vector<float> numbers(const Tensor& vector) {
  const Tensor dense = vector.contiguous();
  return {dense.data<float>(), dense.data<float>() + dense.numel()};
}

double norm_of_vector(const std::vector<float>& values) {
  double sum = 0;
  for (const float x : values) sum += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(sum);
}

const Tensor& parameter(const models::Model& model, const std::string& name, Tensor& found) {
  for (const auto& [path, value] : model.named_parameters())
    if (path == name) return found = value.data();
  fail("serve", "a model with ", name);
}

// What the positions of query and key add to `score`: ALiBi, then a bias by distance.
double bias_of(const AttentionOptions& options, double score, int64_t head, int64_t row, int64_t column,
               int64_t offset) {
  double bias = 0;
  if (options.alibi_slopes.defined())
    bias = -options.alibi_slopes.at({head}) * static_cast<double>(std::abs(row + offset - column));
  if (!options.score.defined()) return bias;
  const Tensor table =
      options.score.has_table() ? options.score.table().to(DType::f64).contiguous() : Tensor::zeros({1}, DType::f64);
  const score::OnePair place{head, row, column, offset, 0};
  return options.score.one(score + bias, table.data<double>(), table.numel(), place).value - score;
}

json finite_or_null(float value) { return std::isfinite(value) ? json(value) : json(nullptr); }

}  // namespace

json explain(const Reading& reading, const Arguments& request) {
  const Served& model = *reading.model;
  const std::string part = part_of(model, request);
  const int64_t layer = request.integer("layer", 0, layers_of(model, part) - 1);
  const int64_t head = request.integer("head", 0, model.config().heads - 1);
  const auto [rows, columns] = size_of_map(reading, part);
  const int64_t row = request.integer("row", 0, rows - 1), column = request.integer("column", 0, columns - 1);
  Changes changes(changes_of(reading, request));
  LayerSeen seen;
  seen.path = attention_path(model, part, layer);
  seen.row = row;
  Probes both({&changes, &seen});
  (void)logits_of(reading, &both);

  // The row alone, with the bits that it has among the others.
  const AttentionOptions& options = seen.options;
  const int64_t key_head = head * seen.key.size(1) / seen.query.size(1);
  AttentionOptions watched = options;
  watched.want = {.logsumexp = true, .weights = true, .scores = true};
  const AttentionResult result = attention_of_rows(seen.query, seen.key, seen.value, watched, head, row, row + 1);
  const std::vector<float> weights = numbers(result.weights.select(0, 0).select(0, 0).select(0, 0));
  const std::vector<float> scores = numbers(result.scores.select(0, 0).select(0, 0).select(0, 0));
  const std::vector<float> query = numbers(seen.query.select(0, 0).select(0, head).select(0, row));
  const std::vector<float> key = numbers(seen.key.select(0, 0).select(0, key_head).select(0, column));
  const std::vector<float> value = numbers(seen.value.select(0, 0).select(0, key_head).select(0, column));
  std::vector<std::pair<double, size_t>> products;
  double dot = 0;
  for (size_t d = 0; d < query.size(); ++d) {
    products.emplace_back(static_cast<double>(query[d]) * static_cast<double>(key[d]), d);
    dot += products.back().first;
  }
  std::stable_sort(products.begin(), products.end(),
                   [](const auto& a, const auto& b) { return std::abs(a.first) > std::abs(b.first); });
  json sorted = json::array();
  for (const auto& [product, d] : products)
    sorted.push_back({{"at", d}, {"query", query[d]}, {"key", key[d]}, {"product", product}});

  const double scale = static_cast<double>(
      options.scale.value_or(static_cast<float>(1.0 / std::sqrt(static_cast<double>(query.size())))));
  const auto at = static_cast<size_t>(column);
  const bool masked = !std::isfinite(scores[at]);
  const double bias = bias_of(options, dot * scale, head, row, column,
                              options.causal.enabled() ? options.causal.offset_for(rows, columns) : columns - rows);
  std::vector<int64_t> order;
  for (int64_t j = 0; j < columns; ++j) order.push_back(j);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return weights[static_cast<size_t>(a)] > weights[static_cast<size_t>(b)];
  });
  json rivals = json::array();
  for (const int64_t j : order)
    rivals.push_back({{"column", j},
                      {"score", finite_or_null(scores[static_cast<size_t>(j)])},
                      {"weight", weights[static_cast<size_t>(j)]}});

  // weight * value, through the columns of the output projection that belong to the head.
  Tensor projection;
  parameter(*model.model, seen.path + ".output.weight", projection);  // (E, H * Dv)
  const auto width = static_cast<int64_t>(value.size());
  const bool off = changes.silences(part, layer, head);
  std::vector<float> added;
  for (int64_t e = 0; e < projection.size(0); ++e) {
    const float* w = projection.data<float>() + e * projection.size(1) + head * width;
    double sum = 0;
    for (int64_t d = 0; d < width; ++d)
      sum += static_cast<double>(w[d]) * static_cast<double>(value[static_cast<size_t>(d)]);
    added.push_back(off ? 0 : static_cast<float>(sum * static_cast<double>(weights[at])));
  }
  const double added_norm = norm_of_vector(added), row_norm = norm_of_vector(numbers(seen.added));
  const float logsumexp = static_cast<float>(result.logsumexp.at({0, 0, 0}));
  return {{"query", query},
          {"key", key},
          {"products", sorted},
          {"dot", dot},
          {"scale", scale},
          {"scaled", dot * scale},
          {"bias", bias},
          {"masked", masked},
          {"score", finite_or_null(scores[at])},
          {"logsumexp", finite_or_null(logsumexp)},
          {"weight", weights[at]},
          {"rivals", rivals},
          {"value", value},
          {"added", added},
          {"added_norm", added_norm},
          {"row_norm", row_norm},
          {"share", row_norm > 0 ? added_norm / row_norm : 0}};
}

}  // namespace heed::serve
