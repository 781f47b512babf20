// Rounding to bf16 by the instructions of AVX512-BF16, on attention's vectors.
#if defined(HEED_KERNELS_ATTENTION_BF16_ROUND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_BF16_ROUND_INL_H_
#undef HEED_KERNELS_ATTENTION_BF16_ROUND_INL_H_
#else
#define HEED_KERNELS_ATTENTION_BF16_ROUND_INL_H_
#endif

#include "kernels/simd/bf16-inl.h"
#include "kernels/simd/math-inl.h"

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

struct Bf16Pack {
  static HWY_INLINE UV pair(FV low, FV high) { return UV{bf16_pairs(low.raw, high.raw)}; }
};

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // include guard
