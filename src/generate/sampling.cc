// Sampling: the filtered distribution of a step, and the choice from it.
#include <algorithm>
#include <cmath>
#include <numeric>

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

}  // namespace heed::generate
