// Sampling: the filtered distribution of a step, the choice, and the loop that continues a text.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/philox.h"
#include "generate/rows.h"
#include "heed/error.h"
#include "heed/generate.h"

namespace heed::generate {

std::vector<double> sampling_distribution(std::span<const float> logits, const SamplingOptions& options) {
  constexpr const char* kName = "sampling_distribution";
  require(!logits.empty(), kName, "at least one logit");
  require(std::isfinite(options.temperature) && options.temperature >= 0, kName, "a temperature of 0 or more; found ",
          options.temperature);
  require(options.top_k >= 0, kName, "top_k of 0 or more; found ", options.top_k);
  require(options.top_p > 0 && options.top_p <= 1, kName, "top_p in (0, 1]; found ", options.top_p);
  require(options.min_p >= 0 && options.min_p <= 1, kName, "min_p in [0, 1]; found ", options.min_p);
  for (const float x : logits)
    require(!std::isnan(x) && !(std::isinf(x) && x > 0), kName, "logits that are numbers; the model gave ", x);

  // From here on in the order of probability: greatest first, equal ones by id.
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  const double top = static_cast<double>(logits[static_cast<size_t>(order[0])]);
  require(std::isfinite(top), kName, "a token that is possible; all logits are -inf");
  size_t kept = order.size();
  if (options.temperature == 0) kept = 1;
  if (options.top_k > 0) kept = std::min(kept, static_cast<size_t>(options.top_k));

  std::vector<double> weights(kept);
  double total = 0;
  for (size_t i = 0; i < kept; ++i) {
    const double x = static_cast<double>(logits[static_cast<size_t>(order[i])]) - top;
    weights[i] = options.temperature == 0 ? 1.0 : std::exp(x / options.temperature);
    total += weights[i];
  }
  if (options.top_p < 1) {
    double cumulative = 0;
    for (size_t i = 0; i < kept; ++i) {
      cumulative += weights[i] / total;
      if (cumulative >= options.top_p) {
        kept = i + 1;
        break;
      }
    }
  }
  while (kept > 1 && weights[kept - 1] < options.min_p * weights[0]) --kept;

  total = std::accumulate(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(kept), 0.0);
  std::vector<double> distribution(logits.size(), 0.0);
  for (size_t i = 0; i < kept; ++i) distribution[static_cast<size_t>(order[i])] = weights[i] / total;
  return distribution;
}

int32_t sample(std::span<const double> distribution, double uniform) {
  double cumulative = 0;
  int32_t last = -1;
  for (size_t i = 0; i < distribution.size(); ++i) {
    if (distribution[i] <= 0) continue;
    last = static_cast<int32_t>(i);
    cumulative += distribution[i];
    if (uniform < cumulative) return last;
  }
  require(last >= 0, "sample", "a distribution with a probability above 0");
  return last;  // the sum fell short of `uniform` by rounding
}

Hypothesis sample_text(const models::Gpt& model, const Ids& prompt, const SamplingOptions& options,
                       const std::function<bool(int32_t)>& on_token) {
  constexpr const char* kName = "sample_text";
  const models::Config& config = model.config();
  require(!prompt.empty(), kName, "a prompt of at least one token");
  const int64_t room = config.max_length;
  const NoGradScope no_grad;

  Ids context = prompt;  // what the model has read or is about to read
  const auto start = [&](int64_t keep) {
    if (static_cast<int64_t>(context.size()) > keep) context.erase(context.begin(), context.end() - keep);
    auto decoder = model.start();
    Tensor logits = decoder->step(
        Tensor::from(std::span<const int32_t>(context), {int64_t{1}, static_cast<int64_t>(context.size())}));
    return std::pair(std::move(decoder), std::move(logits));
  };

  Hypothesis result;
  if (options.max_tokens <= 0) return result;
  auto [decoder, logits] = start(room);
  for (int64_t n = 0; n < options.max_tokens; ++n) {
    const Tensor row = logits.contiguous();  // (1, V)
    const std::span<const float> x(row.data<float>(), static_cast<size_t>(row.numel()));
    const std::vector<double> distribution = sampling_distribution(x, options);
    const auto words = philox(options.seed, 0, static_cast<uint64_t>(n));
    const int32_t id = sample(distribution, uniform_double(words[0], words[1]));
    const double log_prob = static_cast<double>(x[static_cast<size_t>(id)]) - log_sum_exp(x, kName);
    result.log_probs.push_back(static_cast<float>(log_prob));
    result.score += log_prob;
    if (std::find(options.stop_ids.begin(), options.stop_ids.end(), id) != options.stop_ids.end()) {
      result.finished = true;
      break;
    }
    result.ids.push_back(id);
    if (on_token && !on_token(id)) break;
    if (n + 1 == options.max_tokens) break;
    context.push_back(id);
    if (static_cast<int64_t>(context.size()) > room) {
      // The window is full: read its newer half again and go on from there. Two passes a token at most, on average.
      std::tie(decoder, logits) = start(std::max<int64_t>(1, room / 2));
    } else {
      logits = decoder->step(Tensor::from(std::span<const int32_t>(&id, 1), {int64_t{1}, int64_t{1}}));
    }
  }
  return result;
}

}  // namespace heed::generate
