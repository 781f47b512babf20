// Rounding f32 to bf16, and lines of f32 packed as bf16 pairs.
#if defined(HEED_KERNELS_ATTENTION_BF16_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_BF16_PAIRS_INL_H_
#undef HEED_KERNELS_ATTENTION_BF16_PAIRS_INL_H_
#else
#define HEED_KERNELS_ATTENTION_BF16_PAIRS_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "kernels/attention/bf16/bf16.h"
#include "kernels/attention/tile/columns-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

using kernels::kPairDepth;
using kernels::padded_depth;

// Rounded to bf16, to nearest even, in the upper half of each lane; the lower half is arbitrary.
HWY_INLINE UV rounded(FV x) {
  const UV bits = hn::BitCast(kU, x);
  const UV odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(kU, 1));
  const UV up = hn::Add(hn::Add(bits, hn::Set(kU, 0x7FFF)), odd);
  return hn::IfThenElse(hn::RebindMask(kU, hn::IsNaN(x)), hn::Set(kU, 0x7FC00000), up);
}

HWY_INLINE UV pair_of(FV low, FV high) {
  return hn::Or(hn::ShiftRight<16>(rounded(low)), hn::And(rounded(high), hn::Set(kU, 0xFFFF0000)));
}

// Lines of f32 (count, width) as pairs of lines; zeros up to a multiple of kPairDepth lines.
template <class Unit>
HWY_INLINE void pack_pairs(const float* HWY_RESTRICT lines, int64_t count, int64_t width, uint32_t* HWY_RESTRICT to) {
  int64_t i = 0;
  for (; i + 2 <= count; i += 2, lines += 2 * width, to += width) {
    for (int64_t lane = 0; lane < width; lane += kLanes) {
      hn::Store(Unit::pair(hn::Load(kF, lines + lane), hn::Load(kF, lines + width + lane)), kU, to + lane);
    }
  }
  if (i < count) {
    for (int64_t lane = 0; lane < width; lane += kLanes) {
      hn::Store(Unit::pair(hn::Load(kF, lines + lane), hn::Zero(kF)), kU, to + lane);
    }
    i += 2, to += width;
  }
  if (i < padded_depth(count)) std::fill_n(to, (padded_depth(count) - i) / 2 * width, uint32_t{0});
}

HWY_INLINE void store_rounded(FV x, uint16_t* to) {
  const hn::Rebind<uint16_t, F> d16;
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(kI, hn::ShiftRight<16>(rounded(x)))), d16, to);
}

// Lines of f32 (count, width), times `factor`, as bf16 lines of kBlockKeys numbers, the rest of each 0.
HWY_INLINE void round_lines(const float* HWY_RESTRICT lines, int64_t count, int64_t width, float factor,
                            uint16_t* HWY_RESTRICT to) {
  static_assert(kTileQueries <= kBlockKeys);
  for (int64_t j = 0; j < count; ++j, lines += width, to += kBlockKeys) {
    for (int64_t lane = 0; lane < width; lane += kLanes) {
      store_rounded(hn::Mul(hn::Load(kF, lines + lane), all(factor)), to + lane);
    }
    std::memset(to + width, 0, static_cast<size_t>(kBlockKeys - width) * sizeof(uint16_t));
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
