// log-sum-exp and partial selection over a row of logits.
#include "generate/rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "heed/error.h"

namespace heed::generate {
namespace {

constexpr int64_t kLanes = 8;
constexpr int64_t kBlock = 128;  // entries summed in f32 before the sum goes on in f64

float greatest(std::span<const float> x) {
  float lanes[kLanes];
  std::fill(lanes, lanes + kLanes, -std::numeric_limits<float>::infinity());
  const int64_t count = static_cast<int64_t>(x.size());
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const float* p = x.data() + i;
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] = p[lane] > lanes[lane] ? p[lane] : lanes[lane];
  }
  for (; i < count; ++i) lanes[0] = std::max(lanes[0], x[static_cast<size_t>(i)]);
  return *std::max_element(lanes, lanes + kLanes);
}

// exp(x) for x <= 0: 2^n * p(r), p of degree 6 on |r| <= ln2 / 2, relative error 2e-7. Below -87 it is exp(-87).
inline float exp_negative(float x) {
  constexpr float kLog2E = 1.44269504088896341f;
  constexpr float kLn2High = 0.693145751953125f, kLn2Low = 1.42860682030941723e-6f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, left in the low bits
  x = x > -87.0f ? x : -87.0f;
  const float shifted = x * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // The low bits of `shifted` are n; its own exponent bits are shifted out.
  const uint32_t scale = (std::bit_cast<uint32_t>(shifted) << 23) + 0x3F800000u;
  return p * std::bit_cast<float>(scale);
}

}  // namespace

double log_sum_exp(std::span<const float> logits, const char* function) {
  const float top = greatest(logits);
  const int64_t count = static_cast<int64_t>(logits.size());
  double total = 0;
  uint32_t not_numbers[kLanes] = {};
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, count);
    float lanes[kLanes] = {};
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      const float* p = logits.data() + i;
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        const float x = p[lane] - top;
        not_numbers[lane] |= static_cast<uint32_t>(x != x);
        lanes[lane] += exp_negative(x);
      }
    }
    for (; i < end; ++i) {
      const float x = logits[static_cast<size_t>(i)] - top;
      not_numbers[0] |= static_cast<uint32_t>(x != x);
      lanes[0] += exp_negative(x);
    }
    for (const float lane : lanes) total += static_cast<double>(lane);
  }
  uint32_t bad = 0;
  for (const uint32_t lane : not_numbers) bad |= lane;
  require(bad == 0, function, "logits that are numbers; the model gave NaN or infinity");
  return static_cast<double>(top) + std::log(total);
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
  for (; i + kLanes <= size; i += kLanes) {  // most groups hold nothing above the threshold: one test for eight
    const float* p = logits.data() + i;
    int any = 0;
    for (int64_t lane = 0; lane < kLanes; ++lane) any |= static_cast<int>(p[lane] > threshold);
    if (any == 0) continue;
    for (int64_t lane = 0; lane < kLanes; ++lane) offer(i + lane);
  }
  for (; i < size; ++i) offer(i);
  return found;
}

}  // namespace heed::generate
