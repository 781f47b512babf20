// The answers about one forward pass (docs/serve.md), one function a request.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "heed/inspect.h"
#include "serve/changes.h"
#include "serve/service.h"

namespace heed::serve {

[[nodiscard]] nlohmann::json tokenize(const Served& model, const Arguments& request);
[[nodiscard]] Reply attention(const Reading& reading, const Arguments& request);
[[nodiscard]] nlohmann::json next_tokens(const Reading& reading, const Arguments& request);
[[nodiscard]] nlohmann::json beam_tree(const Served& model, const Arguments& request);
[[nodiscard]] nlohmann::json explain(const Reading& reading, const Arguments& request);
[[nodiscard]] nlohmann::json layers(const Reading& reading, const Arguments& request);
[[nodiscard]] nlohmann::json experiment(const Reading& reading, const Arguments& request);
[[nodiscard]] Reply page(const Reading& reading, const Arguments& request);

// What was recorded of a pass, as the offline page has it.
[[nodiscard]] inspect::Record record_of(const Reading& reading, nn::Probe* probe);
[[nodiscard]] nlohmann::json words_of(const std::vector<std::string>& tokens);

// Rows of logits (L, V) as probabilities. A model of others may have more of them than there are tokens: these have
// their share of the probability, and are never told, as in Encoder::fill().
struct Row {
  std::span<const float> logits;
  double logsumexp = 0;
  [[nodiscard]] double log_prob(int32_t id) const {
    return static_cast<double>(logits[static_cast<size_t>(id)]) - logsumexp;
  }
  [[nodiscard]] double entropy_bits() const;
  [[nodiscard]] int32_t likeliest(const Served& model) const;
};
[[nodiscard]] Row row_of(const Tensor& logits, int64_t row);
// The `count` likeliest tokens: [{"id", "token", "probability", "log_prob"}].
[[nodiscard]] nlohmann::json likeliest_tokens(const Served& model, const Row& row, int64_t count);

}  // namespace heed::serve
