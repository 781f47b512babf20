// The bound of the int8 product, and the columns within it.
#include "kernels/gemm/largest.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/memory.h"
#include "base/threads.h"
#include "heed/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/largest.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/gemm/quantise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

using kernels::Int8Loss;
using kernels::PackedInt8;

// Upper bounds of |y'| and |y - y'| of a row.
struct RowLoss {
  float kept, lost;
};

RowLoss loss_of_row(const PackedInt8& b, const float* x) {
  HWY_ALIGN float balanced[PackedInt8::kMostOfGroup];
  HWY_ALIGN uint8_t bytes[PackedInt8::kMostOfGroup];
  double kept = 0, lost = 0;
  for (int64_t group = 0; group < b.groups(); ++group) {
    const int64_t p0 = group * b.depth(), count = std::clamp<int64_t>(b.k() - p0, 0, b.depth());
    const Steps steps =
        round_to_steps(balanced, count, balance_row(x + p0, b.balance() + p0, count, balanced), 0, bytes);
    for (int64_t p = 0; p < count; ++p) {
      const double number =
          static_cast<double>(steps.scale) * static_cast<double>(static_cast<float>(bytes[p]) - steps.zero);
      const double difference = static_cast<double>(balanced[p]) - number;
      kept += number * number;
      lost += difference * difference;
    }
  }
  constexpr double kUp = 1 + 1e-6;  // above the rounding of these sums and of the numbers of f32
  return {static_cast<float>(std::sqrt(kept) * kUp), static_cast<float>(std::sqrt(lost) * kUp)};
}

int64_t run_largest_columns(const PackedInt8& b, const Int8Loss& loss, const float* x, const float* approximate,
                            int64_t most, int32_t* chosen) {
  const RowLoss row = loss_of_row(b, x);
  // Rounding in f32: a chain of k steps, of balance and scales, and of the bound itself, each at most 2^-24 of a sum of
  // magnitudes, which is at most |y| |v|.
  const float rounding = static_cast<float>(b.k() + b.groups() + 32) * 0x1p-24f;
  const float most_of_row = 2 * row.kept + row.lost;
  constexpr float kUp = 1 + 1e-5f;
  const float of_lost = kUp * (row.kept + rounding * most_of_row);
  const float of_norm = kUp * (row.lost + rounding * most_of_row);
  const float of_bias = kUp * rounding * loss.largest_bias + std::numeric_limits<float>::min();
  // Sums of the chain must stay finite; the comparison is false for NaN.
  if (!loss.finite || !(4 * most_of_row * (1 + loss.largest_norm) + loss.largest_bias < 1e37f))
    return kernels::kUnknownColumns;

  const auto error_at = [&](int64_t j) {
    return of_lost * loss.lost[static_cast<size_t>(j)] + of_norm * loss.norm[static_cast<size_t>(j)] + of_bias;
  };
  const FV lost_factor = hn::Set(kF, of_lost), norm_factor = hn::Set(kF, of_norm), bias_part = hn::Set(kF, of_bias);
  const auto errors_at = [&](int64_t j) {
    return hn::MulAdd(lost_factor, hn::LoadU(kF, loss.lost.data() + j),
                      hn::MulAdd(norm_factor, hn::LoadU(kF, loss.norm.data() + j), bias_part));
  };
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  FV lowest = hn::Set(kF, kNone);
  int64_t j = 0;
  for (; j + kLanes <= b.n(); j += kLanes)
    lowest = hn::Max(lowest, hn::Sub(hn::LoadU(kF, approximate + j), errors_at(j)));
  HWY_ALIGN float lanes[kLanes];
  hn::Store(lowest, kF, lanes);
  float threshold = *std::max_element(lanes, lanes + kLanes);
  for (; j < b.n(); ++j) threshold = std::max(threshold, approximate[j] - error_at(j));
  if (threshold == kNone) return 0;

  int64_t found = 0;
  const auto take = [&](int64_t column) {
    if (found < most) chosen[found] = static_cast<int32_t>(column);
    ++found;
  };
  // The bound of a column once more as in the vector, whose rounding may differ: kUp covers both.
  const FV least = hn::Set(kF, threshold);
  for (j = 0; j + kLanes <= b.n(); j += kLanes) {
    const FV upper = hn::Add(hn::LoadU(kF, approximate + j), errors_at(j));
    if (hn::AllFalse(kF, hn::Ge(upper, least))) continue;
    hn::Store(upper, kF, lanes);
    for (int64_t lane = 0; lane < kLanes; ++lane)
      if (lanes[lane] >= threshold) take(j + lane);
  }
  for (; j < b.n(); ++j)
    if (approximate[j] + error_at(j) >= threshold) take(j);
  return found;
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(run_largest_columns);

Int8Loss::Int8Loss(const PackedInt8& packed, const WeightRow& weight_row, const float* bias)
    : lost(static_cast<size_t>(packed.strips() * PackedInt8::kColumns), 0.0f), norm(lost.size(), 0.0f) {
  const int64_t k = packed.k(), n = packed.n();
  parallel_for(n, 16, [&](int64_t begin, int64_t end) {
    const Buffer<float> kept(k), weight(k);
    for (int64_t j = begin; j < end; ++j) {
      packed.column(j, kept.data());
      weight_row(j, weight.data());
      double lost_squares = 0, squares = 0;
      for (int64_t p = 0; p < k; ++p) {
        const double balance = static_cast<double>(packed.balance()[p]);
        const double w = static_cast<double>(weight[p]);
        const double difference = (w - static_cast<double>(kept[p])) / balance;
        lost_squares += difference * difference;
        squares += w / balance * (w / balance);
      }
      constexpr double kUp = 1 + 1e-6;
      norm[static_cast<size_t>(j)] = static_cast<float>(std::sqrt(squares) * kUp);
      // column() rounds twice to f32: 2^-23 of the kept number.
      lost[static_cast<size_t>(j)] = static_cast<float>((std::sqrt(lost_squares) + 0x1p-22 * std::sqrt(squares)) * kUp);
    }
  });
  largest_norm = *std::max_element(norm.begin(), norm.end());
  const auto is_finite = [](float x) { return std::isfinite(x); };
  finite = std::all_of(norm.begin(), norm.end(), is_finite) && std::all_of(lost.begin(), lost.end(), is_finite);
  for (int64_t j = 0; bias != nullptr && j < n; ++j) {
    finite = finite && is_finite(bias[j]);
    largest_bias = std::max(largest_bias, std::abs(bias[j]));
  }
}

int64_t largest_columns(const PackedInt8& packed, const Int8Loss& loss, const float* x, const float* approximate,
                        int64_t most, int32_t* chosen) {
  dispatch_ready();
  return HWY_DYNAMIC_DISPATCH(run_largest_columns)(packed, loss, x, approximate, most, chosen);
}

}  // namespace heed::kernels
#endif
