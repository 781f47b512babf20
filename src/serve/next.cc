// What comes next: the likeliest tokens of a step, layer by layer too.
#include <algorithm>
#include <cmath>

#include "generate/rows.h"
#include "heed/error.h"
#include "heed/generate.h"
#include "kernels/rows/select.h"
#include "serve/views.h"

namespace heed::serve {
namespace {

using nlohmann::json;

constexpr int64_t kMostTokens = 1000;

double norm_of(const float* values, int64_t count) {
  double sum = 0;
  for (int64_t e = 0; e < count; ++e) sum += static_cast<double>(values[e]) * static_cast<double>(values[e]);
  return std::sqrt(sum);
}

// One row of the residual stream, after each sublayer of the stack that writes.
struct Stream : nn::Probe {
  std::string stack;
  int64_t position = 0;
  struct Layer {
    std::string name;
    Tensor state;  // (1, E)
    json added = json::array();
  };
  std::vector<Layer> layers;
  json added = json::array();

  [[nodiscard]] bool mine(std::string_view path) const { return path.starts_with(stack + "."); }
  void on_added(std::string_view path, const Tensor& value) override {
    if (!mine(path)) return;
    const Tensor row = value.select(0, 0).select(0, position).contiguous();
    added.push_back({{"sublayer", std::string(path.substr(path.rfind('.') + 1))},
                     {"norm", norm_of(row.data<float>(), row.numel())}});
  }
  Tensor on_state(std::string_view path, const Tensor& state) override {
    const bool embedding = path.ends_with(".embedding");
    if (!mine(path) || !(embedding || path.ends_with(".feed_forward"))) return state;
    layers.push_back({.name = embedding ? "embedding" : "layer " + std::to_string(layers.size()),
                      .state = state.select(0, 0).slice(0, position, position + 1).clone(),
                      .added = std::move(added)});
    added = json::array();
    return state;
  }
};

// One row is asked for, and all are computed.
void require_few_logits(const Reading& reading) {
  constexpr int64_t kMost = 200'000'000;
  const int64_t vocabulary =
      reading.model->decodes() ? reading.model->config().target_vocabulary : reading.model->config().source_vocabulary;
  const int64_t logits = static_cast<int64_t>(reading.rows().size()) * vocabulary;
  if (logits > kMost)
    throw Refused(413, "expected a text of at most " + std::to_string(kMost / vocabulary) + " tokens; found " +
                           std::to_string(reading.rows().size()));
}

std::span<const float> told_of(const Served& model, const Row& row) {
  const auto tokens = static_cast<size_t>(model.output_tokenizer().vocabulary());
  return row.logits.first(std::min(tokens, row.logits.size()));
}

}  // namespace

double Row::entropy_bits() const {
  double nats = 0;
  for (const float logit : logits) {
    const double log_p = static_cast<double>(logit) - logsumexp;
    nats -= std::exp(log_p) * log_p;
  }
  return nats / std::log(2.0);
}

int32_t Row::likeliest(const Served& model) const {
  const std::span<const float> told = told_of(model, *this);
  return static_cast<int32_t>(std::max_element(told.begin(), told.end()) - told.begin());
}

Row row_of(const Tensor& logits, int64_t row) {
  const Tensor one = logits.slice(0, row, row + 1);
  return {.logits = std::span(logits.data<float>() + row * logits.size(1), static_cast<size_t>(logits.size(1))),
          .logsumexp = static_cast<double>(generate::finite_logsumexp(one, "serve")[0])};
}

json likeliest_tokens(const Served& model, const Row& row, int64_t count) {
  const std::span<const float> told = told_of(model, row);
  std::vector<kernels::Selected> entries(
      static_cast<size_t>(std::min<int64_t>(count, static_cast<int64_t>(told.size()))));
  const int64_t found =
      kernels::select_largest(told.data(), std::ssize(told), nullptr, std::ssize(entries), entries.data());
  json out = json::array();
  for (int64_t k = 0; k < found; ++k) {
    const int32_t id = entries[static_cast<size_t>(k)].place;
    const double log_prob = row.log_prob(id);
    out.push_back(
        {{"id", id}, {"token", model.piece(id)}, {"probability", std::exp(log_prob)}, {"log_prob", log_prob}});
  }
  return out;
}

json next_tokens(const Reading& reading, const Arguments& request) {
  const int64_t position = request.integer("position", 0, static_cast<int64_t>(reading.rows().size()) - 1);
  if (!reading.model->guesses())
    throw Error("next: expected a model that says tokens; found an encoder that gives states or classes");
  require_few_logits(reading);
  Changes changes(changes_of(reading, request));
  const Tensor logits = logits_of(reading, &changes);
  const Row row = row_of(logits, position);
  const generate::SamplingOptions sampling = {.temperature = request.number("temperature", 0, 100, 1),
                                              .top_k = request.integer("top_k", 0, int64_t{1} << 30, 0),
                                              .top_p = request.number("top_p", 1e-6, 1, 1),
                                              .min_p = request.number("min_p", 0, 1, 0)};
  const std::vector<double> kept = generate::sampling_distribution(row.logits, sampling);
  json tokens = likeliest_tokens(*reading.model, row, request.integer("count", 1, kMostTokens, 10));
  for (json& token : tokens) token["kept"] = kept[token["id"].get<size_t>()];
  return {{"entropy", row.entropy_bits()}, {"tokens", tokens}};
}

json layers(const Reading& reading, const Arguments& request) {
  const Served& model = *reading.model;
  const int64_t position = request.integer("position", 0, static_cast<int64_t>(reading.rows().size()) - 1);
  const int64_t count = request.integer("count", 1, kMostTokens, 5);
  Changes changes(changes_of(reading, request));
  Stream stream;
  stream.stack = model.decodes() ? "decoder" : "encoder";
  stream.position = position;
  Probes both({&changes, &stream});
  (void)logits_of(reading, &both);
  json out = json::array();
  for (const Stream::Layer& layer : stream.layers) {
    out.push_back({{"name", layer.name},
                   {"norm", norm_of(layer.state.data<float>(), layer.state.numel())},
                   {"added", layer.added},
                   {"tokens", model.guesses() ? likeliest_tokens(model, row_of(lens(model, layer.state), 0), count)
                                              : json::array()}});
  }
  return {{"layers", out}};
}

}  // namespace heed::serve
