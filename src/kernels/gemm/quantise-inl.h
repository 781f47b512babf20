// quantise() for the instruction set that is compiled for.
#if defined(HEED_KERNELS_GEMM_QUANTISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_GEMM_QUANTISE_INL_H_
#undef HEED_KERNELS_GEMM_QUANTISE_INL_H_
#else
#define HEED_KERNELS_GEMM_QUANTISE_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// The largest magnitude: as bits, which order magnitudes and put infinity and NaN on top.
HWY_INLINE float largest_magnitude(const float* HWY_RESTRICT row, int64_t count) {
  const I d;
  const auto mask = hn::Set(d, 0x7FFFFFFF);
  auto most = hn::Zero(d);
  int64_t p = 0;
  for (; p + kLanes <= count; p += kLanes) most = hn::Max(most, hn::And(hn::BitCast(d, hn::LoadU(kF, row + p)), mask));
  HWY_ALIGN int32_t lanes[kLanes];
  hn::Store(most, d, lanes);
  int32_t bits = 0;
  for (int64_t i = 0; i < kLanes; ++i) bits = std::max(bits, lanes[i]);
  for (; p < count; ++p) bits = std::max(bits, std::bit_cast<int32_t>(row[p]) & 0x7FFFFFFF);
  return std::bit_cast<float>(bits);
}

// Rounded to the nearest multiple of the largest magnitude / 127, which it returns.
HWY_INLINE float quantise_row(const float* HWY_RESTRICT row, int64_t count, int8_t* HWY_RESTRICT out) {
  const float largest = largest_magnitude(row, count);
  if (!std::isfinite(largest)) {
    std::fill_n(out, count, int8_t{0});
    return std::numeric_limits<float>::quiet_NaN();
  }
  const float factor = largest == 0 ? 0.0f : std::min(127.0f / largest, std::numeric_limits<float>::max());
  int64_t p = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const hn::Rebind<int8_t, F> d8;
  const FV factors = hn::Set(kF, factor);
  for (; p + kLanes <= count; p += kLanes) {
    const auto whole = hn::NearestInt(hn::Mul(hn::LoadU(kF, row + p), factors));
    hn::StoreU(hn::DemoteTo(d8, whole), d8, out + p);
  }
#endif
  for (; p < count; ++p) out[p] = static_cast<int8_t>(std::nearbyint(row[p] * factor));
  return largest / 127.0f;
}

// A number is scale * (byte - zero).
struct Steps {
  float scale, zero;  // `zero` is whole
};

// Of row[p] * balance[p], which is written to `balanced`.
struct BalancedRow {
  float least, most;  // 0 among the numbers
  bool finite;
};

HWY_NOINLINE BalancedRow balance_row(const float* HWY_RESTRICT row, const float* HWY_RESTRICT balance, int64_t count,
                                     float* HWY_RESTRICT balanced) {
  constexpr int32_t kMagnitude = 0x7FFFFFFF, kInfinity = 0x7F800000;  // as bits, magnitudes are in order, NaN on top
  const auto magnitude = hn::Set(kI, kMagnitude);
  FV low = hn::Zero(kF), high = hn::Zero(kF);
  auto largest = hn::Zero(kI);
  int64_t p = 0;
  for (; p + kLanes <= count; p += kLanes) {
    const FV x = hn::Mul(hn::LoadU(kF, row + p), hn::LoadU(kF, balance + p));
    hn::StoreU(x, kF, balanced + p);
    low = hn::Min(low, x);
    high = hn::Max(high, x);
    largest = hn::Max(largest, hn::And(hn::BitCast(kI, x), magnitude));
  }
  float least = hn::GetLane(hn::MinOfLanes(kF, low)), most = hn::GetLane(hn::MaxOfLanes(kF, high));
  int32_t bits = hn::GetLane(hn::MaxOfLanes(kI, largest));
  for (; p < count; ++p) {
    balanced[p] = row[p] * balance[p];
    least = std::min(least, balanced[p]), most = std::max(most, balanced[p]);
    bits = std::max(bits, std::bit_cast<int32_t>(balanced[p]) & kMagnitude);
  }
  return {least, most, bits < kInfinity};
}

// Rounds these numbers to one of 256 steps from the smallest to the largest of them and 0. `flip` is exclusive-ored to
// every byte: 0x80 makes signed numbers that are 128 smaller.
HWY_NOINLINE Steps round_to_steps(const float* HWY_RESTRICT balanced, int64_t count, const BalancedRow& numbers,
                                  uint8_t flip, uint8_t* HWY_RESTRICT out) {
  const float range = numbers.most - numbers.least;
  if (!numbers.finite || !std::isfinite(range)) {
    std::fill_n(out, count, uint8_t{0});
    return {std::numeric_limits<float>::quiet_NaN(), 0.0f};
  }
  const float factor = range == 0 ? 0.0f : std::min(255.0f / range, std::numeric_limits<float>::max());
  const auto zero = std::min(255, static_cast<int32_t>(std::nearbyint(-numbers.least * factor)));
  int64_t p = 0;
#if HWY_TARGET == HWY_AVX3
  const __m512i zeros = _mm512_set1_epi32(zero);
  const __m512 factors = _mm512_set1_ps(factor);
  const auto whole = [&](int64_t at) HWY_ATTR {
    return _mm512_add_epi32(_mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(balanced + at), factors)), zeros);
  };
  // Two steps of narrowing, both to between 0 and 255, leave groups of four bytes in this order.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i flips = _mm512_set1_epi8(static_cast<char>(flip));
  for (; p + 64 <= count; p += 64) {
    const __m512i low = _mm512_packus_epi32(whole(p), whole(p + 16));
    const __m512i high = _mm512_packus_epi32(whole(p + 32), whole(p + 48));
    const __m512i in_order = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(low, high));
    _mm512_storeu_si512(out + p, _mm512_xor_si512(in_order, flips));
  }
#endif
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const hn::Rebind<uint8_t, F> d8;
  for (; p + kLanes <= count; p += kLanes) {
    const auto steps = hn::NearestInt(hn::Mul(hn::LoadU(kF, balanced + p), hn::Set(kF, factor)));
    const auto bytes = hn::DemoteTo(d8, hn::Add(steps, hn::Set(kI, zero)));
    hn::StoreU(hn::Xor(bytes, hn::Set(d8, flip)), d8, out + p);
  }
#endif
  for (; p < count; ++p) {
    const int32_t whole = static_cast<int32_t>(std::nearbyint(balanced[p] * factor)) + zero;
    out[p] = static_cast<uint8_t>(static_cast<uint8_t>(std::clamp(whole, 0, 255)) ^ flip);
  }
  return {range / 255.0f, static_cast<float>(zero - (flip != 0 ? 128 : 0))};
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
