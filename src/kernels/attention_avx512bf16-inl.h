// Rounding to bf16 by the instructions of AVX512-BF16, which processors with AMX have as well.
#if defined(HEED_KERNELS_ATTENTION_AVX512BF16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_AVX512BF16_INL_H_
#undef HEED_KERNELS_ATTENTION_AVX512BF16_INL_H_
#else
#define HEED_KERNELS_ATTENTION_AVX512BF16_INL_H_
#endif

#include "kernels/attention_math-inl.h"

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// Written as text: the compiler's functions for these need a target of their own, which would reach into every function
// they are inlined into.
struct Bf16Pack {
  static HWY_INLINE UV pair(FV low, FV high) {
    __m512i both;  // 16 numbers of `low`, then 16 of `high`
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(both) : "v"(high.raw), "v"(low.raw));
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8,  //
                                           23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return UV{_mm512_permutexvar_epi16(order, both)};
  }
};

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // include guard
