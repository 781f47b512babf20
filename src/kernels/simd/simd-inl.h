// What every Highway kernel needs: the active target's vector types and a multiply-add that is fused on all of them.
//
// A kernel file looks like this (gemm.cc is the model to copy):
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "kernels/gemm/gemm.cc"
//   #include <hwy/foreach_target.h>
//   #include <hwy/highway.h>
//   #include "kernels/simd/simd-inl.h"
//   HWY_BEFORE_NAMESPACE();
//   namespace heed::HWY_NAMESPACE { ... }
//   HWY_AFTER_NAMESPACE();
//   #if HWY_ONCE
//   namespace heed { HWY_EXPORT(Body); void body(...) { dispatch_ready(); HWY_DYNAMIC_DISPATCH(Body)(...); } }
//   #endif
//
// Include guard per target, as Highway wants it.
#if defined(HEED_KERNELS_SIMD_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_SIMD_SIMD_INL_H_
#undef HEED_KERNELS_SIMD_SIMD_INL_H_
#else
#define HEED_KERNELS_SIMD_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <bit>
#include <cstdint>

#include "heed/cpu.h"

#ifndef HEED_KERNELS_SIMD_ONCE_
#define HEED_KERNELS_SIMD_ONCE_
namespace heed {

// Settles which instruction set is used (HEED_ISA, or the best) before the first dispatch of a process.
inline void dispatch_ready() { (void)active_isa(); }

// a * b + c with one rounding, without a fused instruction. The product of two floats is exact in double; the sum is
// rounded to odd there (Boldo and Melquiond 2008), so that the final rounding to float is the only one that shows.
inline float fma_in_double(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double addend = static_cast<double>(c);
  const double sum = product + addend;
  const double part = sum - product;  // the error of the sum, exactly (Knuth's TwoSum)
  const double error = (product - (sum - part)) + (addend - part);
  uint64_t bits = std::bit_cast<uint64_t>(sum);
  const bool finite = (bits & 0x7FF0000000000000u) != 0x7FF0000000000000u;
  if (finite && error != 0.0 && (bits & 1u) == 0) {
    // Towards the error's side: the odd neighbour that brackets the exact value.
    bits = (error > 0.0) == (sum > 0.0) ? bits + 1 : bits - 1;
  }
  return static_cast<float>(std::bit_cast<double>(bits));
}

}  // namespace heed
#endif

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// a * b + c, one rounding, the same bits on every target.
template <class V>
HWY_INLINE V Fma(V a, V b, V c) {
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  V result = c;
  const hn::DFromV<V> d;
  constexpr size_t kLanes = hn::MaxLanes(hn::DFromV<V>());
  HWY_ALIGN float x[kLanes], y[kLanes], z[kLanes];
  hn::Store(a, d, x);
  hn::Store(b, d, y);
  hn::Store(c, d, z);
  for (size_t i = 0; i < kLanes; ++i) z[i] = fma_in_double(x[i], y[i], z[i]);
  result = hn::Load(d, z);
  return result;
#else
  return hn::MulAdd(a, b, c);
#endif
}

// c - a * b, one rounding.
template <class V>
HWY_INLINE V FmaNegated(V a, V b, V c) {
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  return Fma(hn::Neg(a), b, c);
#else
  return hn::NegMulAdd(a, b, c);
#endif
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
