// Rows of logits: their log-sum-exp, and partial selection.
#include "generate/rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "heed/error.h"
#include "heed/ops.h"

namespace heed::generate {
namespace {

constexpr int64_t kTogether = 8;

}  // namespace

std::vector<float> finite_logsumexp(const Tensor& logits, const char* function) {
  const Tensor sums = ops::logsumexp(logits);
  std::vector<float> result(sums.data<float>(), sums.data<float>() + sums.numel());
  for (const float x : result) require_finite(std::isfinite(x), function);
  return result;
}

void require_finite(bool finite, const char* function) {
  require(finite, function, "logits that are numbers; the model gave NaN or infinity");
}

int64_t top_entries(std::span<const float> logits, std::span<const uint8_t> blocked, int64_t count, Entry* out) {
  const int64_t size = static_cast<int64_t>(logits.size());
  int64_t found = 0;
  // Ids come in ascending order, so an equal logit never displaces an earlier one: ties keep the lower id.
  float threshold = -std::numeric_limits<float>::infinity();
  const auto offer = [&](int64_t id) {
    const float logit = logits[static_cast<size_t>(id)];
    if (!(logit > threshold) || (!blocked.empty() && blocked[static_cast<size_t>(id)] != 0)) return;
    int64_t place = found < count ? found++ : count - 1;
    for (; place > 0 && out[place - 1].logit < logit; --place) out[place] = out[place - 1];
    out[place] = {logit, static_cast<int32_t>(id)};
    if (found == count) threshold = out[count - 1].logit;
  };
  int64_t i = 0;
  for (; i + kTogether <= size; i += kTogether) {  // most groups hold nothing above the threshold: one test for eight
    const float* p = logits.data() + i;
    int any = 0;
    for (int64_t lane = 0; lane < kTogether; ++lane) any |= static_cast<int>(p[lane] > threshold);
    if (any == 0) continue;
    for (int64_t lane = 0; lane < kTogether; ++lane) offer(i + lane);
  }
  for (; i < size; ++i) offer(i);
  return found;
}

}  // namespace heed::generate
