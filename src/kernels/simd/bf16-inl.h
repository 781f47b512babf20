// The instructions of AVX512-BF16, which processors with AMX have as well.
//
// Written as text: the compiler's functions for these need a target of their own, which would reach into every function
// they are inlined into.
#if defined(HEED_KERNELS_SIMD_BF16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_SIMD_BF16_INL_H_
#undef HEED_KERNELS_SIMD_BF16_INL_H_
#else
#define HEED_KERNELS_SIMD_BF16_INL_H_
#endif

#include <hwy/highway.h>

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// 16 numbers of `low`, then 16 of `high`, rounded to the nearest bf16 (to even); subnormal ones to zero.
HWY_INLINE __m512i bf16_in_turn(__m512 low, __m512 high) {
  __m512i both;
  asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(both) : "v"(high), "v"(low));
  return both;
}

// The same with each number of `low` beside that of `high`: 16 pairs.
HWY_INLINE __m512i bf16_pairs(__m512 low, __m512 high) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8,  //
                                         23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, bf16_in_turn(low, high));
}

// sum + the two products of each lane's pair.
HWY_INLINE __m512 bf16_dot(__m512 sum, __m512i a, __m512i x) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(x));
  return sum;
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // include guard
