// Dropout's factors, 0 or 1 / (1 - rate), for a range of element numbers, by Philox on vectors of counters.
// Include guard per target, as Highway wants it.
#if defined(HEED_KERNELS_ROWS_DROPOUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ROWS_DROPOUT_INL_H_
#undef HEED_KERNELS_ROWS_DROPOUT_INL_H_
#else
#define HEED_KERNELS_ROWS_DROPOUT_INL_H_
#endif

#include <algorithm>

#include "base/philox.h"
#include "heed/ops_options.h"
#include "kernels/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

struct DropoutStream {
  uint64_t seed;
  uint32_t threshold;
  float factor;
  explicit DropoutStream(const ops::Dropout& dropout)
      : seed(dropout.seed), threshold(dropout_threshold(dropout.rate)), factor(1.0f / (1.0f - dropout.rate)) {}
};

// Elements 64 * block .. 64 * block + 63.
HWY_INLINE void dropout_block(const DropoutStream& s, int64_t block, float* HWY_RESTRICT out) {
  const uint64_t counter = static_cast<uint64_t>(block) * 16;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const F d;
  const hn::RebindToUnsigned<F> du;
  const hn::Repartition<uint64_t, F> du64;
  const auto factor = hn::Set(d, s.factor);
  const auto threshold = hn::Set(du, s.threshold);
  const auto m0 = hn::Set(du, 0xD2511F53u), m1 = hn::Set(du, 0xCD9E8D57u);
  const auto multiply = [&](auto x, auto m, auto& high, auto& low) {
    const auto even = hn::MulEven(x, m);
    const auto odd = hn::MulEven(hn::BitCast(du, hn::ShiftRight<32>(hn::BitCast(du64, x))), m);
    high = hn::OddEven(hn::BitCast(du, odd), hn::BitCast(du, hn::ShiftRight<32>(even)));
    low = hn::OddEven(hn::BitCast(du, hn::ShiftLeft<32>(odd)), hn::BitCast(du, even));
  };
  for (int part = 0; part < kParts; ++part) {
    auto c0 = hn::Iota(du, static_cast<uint32_t>(counter) + static_cast<uint32_t>(part * kLanes));
    auto c1 = hn::Set(du, static_cast<uint32_t>(counter >> 32));
    auto c2 = hn::Zero(du), c3 = hn::Zero(du);
    uint32_t k0 = static_cast<uint32_t>(s.seed), k1 = static_cast<uint32_t>(s.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      auto a_high = c0, a_low = c0, b_high = c0, b_low = c0;
      multiply(c0, m0, a_high, a_low);
      multiply(c2, m1, b_high, b_low);
      c0 = hn::Xor(hn::Xor(b_high, c1), hn::Set(du, k0));
      c2 = hn::Xor(hn::Xor(a_high, c3), hn::Set(du, k1));
      c1 = b_low;
      c3 = a_low;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    float* const to = out + part * kLanes;
    const auto store = [&](auto word, int64_t offset) {
      const auto dropped = hn::RebindMask(d, hn::Lt(word, threshold));
      hn::StoreU(hn::IfThenZeroElse(dropped, factor), d, to + offset);
    };
    store(c0, 0);
    store(c1, 16);
    store(c2, 32);
    store(c3, 48);
  }
#else
  for (uint64_t lane = 0; lane < 16; ++lane) {
    const auto words = philox(s.seed, 0, counter + lane);
    for (size_t word = 0; word < 4; ++word) out[16 * word + lane] = words[word] >= s.threshold ? s.factor : 0.0f;
  }
#endif
}

// Elements first .. first + count - 1.
HWY_INLINE void dropout_factors(const DropoutStream& s, int64_t first, int64_t count, float* HWY_RESTRICT out) {
  int64_t i = 0;
  while (i < count) {
    const int64_t block = (first + i) / 64, skip = (first + i) % 64;
    if (skip == 0 && count - i >= 64) {
      dropout_block(s, block, out + i);
      i += 64;
      continue;
    }
    float factors[64];
    dropout_block(s, block, factors);
    const int64_t some = std::min<int64_t>(64 - skip, count - i);
    std::memcpy(out + i, factors + skip, static_cast<size_t>(some) * sizeof(float));
    i += some;
  }
}

// x * factor, and 0 where the factor is 0 even if x is NaN or infinite.
HWY_INLINE FV drop(FV x, FV factor) {
  const F d;
  return hn::IfThenElse(hn::Eq(factor, hn::Zero(d)), hn::Zero(d), hn::Mul(x, factor));
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
