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

// `flip` is exclusive-ored to every byte: 0x80 makes unsigned numbers that are 128 larger.
HWY_NOINLINE float quantise_row(const float* HWY_RESTRICT row, int64_t count, uint8_t flip, uint8_t* HWY_RESTRICT out) {
  const float largest = largest_magnitude(row, count);
  if (!std::isfinite(largest)) {
    std::fill_n(out, count, flip);
    return std::numeric_limits<float>::quiet_NaN();
  }
  const float factor = largest == 0 ? 0.0f : std::min(127.0f / largest, std::numeric_limits<float>::max());
  int64_t p = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const hn::Rebind<int8_t, F> d8;
  const hn::Rebind<uint8_t, F> du8;
  const auto flips = hn::Set(du8, flip);
  const FV factors = hn::Set(kF, factor);
  for (; p + kLanes <= count; p += kLanes) {
    const auto whole = hn::NearestInt(hn::Mul(hn::LoadU(kF, row + p), factors));
    hn::StoreU(hn::Xor(hn::BitCast(du8, hn::DemoteTo(d8, whole)), flips), du8, out + p);
  }
#endif
  for (; p < count; ++p) {
    const auto whole = static_cast<int8_t>(std::nearbyint(row[p] * factor));
    out[p] = static_cast<uint8_t>(static_cast<uint8_t>(whole) ^ flip);
  }
  return largest / 127.0f;
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
