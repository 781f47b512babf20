// What every kernel needs: the vectors of the instruction set that is compiled for, and a fused multiply-add.
//
// A kernel file is compiled once for each instruction set. It looks like this (rows/softmax.cc is the file to copy):
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "kernels/rows/softmax.cc"
//   #include <hwy/foreach_target.h>
//   #include <hwy/highway.h>
//   #include "kernels/simd/simd-inl.h"
//   HWY_BEFORE_NAMESPACE();
//   namespace heed::HWY_NAMESPACE { namespace { void run_body(...) { ... } } }
//   HWY_AFTER_NAMESPACE();
//   #if HWY_ONCE
//   namespace heed::kernels {
//   HWY_EXPORT(run_body);
//   void body(...) { dispatch_ready(); HWY_DYNAMIC_DISPATCH(run_body)(...); }
//   }
//   #endif
//
// This is heed's one dispatch: Highway calls the function of active_isa(). The last two instruction sets, avx512bf16
// and amx, differ from avx512 in bf16 products alone: the engines of attention and gemm.cc ask for those by
// active_isa().
//
// Highway wants the include guard to work once for each instruction set.
#if defined(HEED_KERNELS_SIMD_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_SIMD_SIMD_INL_H_
#undef HEED_KERNELS_SIMD_SIMD_INL_H_
#else
#define HEED_KERNELS_SIMD_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <bit>
#include <cstdint>
#include <limits>

#include "heed/cpu.h"

#ifndef HEED_KERNELS_SIMD_ONCE_
#define HEED_KERNELS_SIMD_ONCE_
namespace heed {

// Chooses the instruction set (HEED_ISA, or the best) before the first dispatch of a process.
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
    // The neighbour on the error's side, which is odd: the two bracket the exact value.
    bits = (error > 0.0) == (sum > 0.0) ? bits + 1 : bits - 1;
  }
  return static_cast<float>(std::bit_cast<double>(bits));
}

}  // namespace heed
#endif

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Vectors of f32: 16 lanes on AVX-512, 8 on AVX2, 4 on NEON, 1 on the portable path of x86; and integers beside them.
using F = hn::CappedTag<float, 16>;
using I = hn::RebindToSigned<F>;
using U = hn::RebindToUnsigned<F>;
using FV = hn::Vec<F>;
using UV = hn::Vec<U>;
inline constexpr F kF{};
inline constexpr I kI{};
inline constexpr U kU{};
inline constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(F()));
inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

HWY_INLINE FV all(float value) { return hn::Set(kF, value); }

// a > b ? a : b. A NaN in either gives b: the rule of the x86 instruction, written out for the portable target.
HWY_INLINE FV larger(FV a, FV b) {
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  return hn::IfThenElse(hn::Gt(a, b), a, b);
#else
  return hn::Max(a, b);
#endif
}

// a * b + c, one rounding, the same bits on every target.
template <class V>
HWY_INLINE V fma(V a, V b, V c) {
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  V result = c;
  const hn::DFromV<V> d;
  constexpr size_t kCount = hn::MaxLanes(hn::DFromV<V>());
  HWY_ALIGN float x[kCount], y[kCount], z[kCount];
  hn::Store(a, d, x);
  hn::Store(b, d, y);
  hn::Store(c, d, z);
  for (size_t i = 0; i < kCount; ++i) z[i] = fma_in_double(x[i], y[i], z[i]);
  result = hn::Load(d, z);
  return result;
#else
  return hn::MulAdd(a, b, c);
#endif
}

// c - a * b, one rounding.
template <class V>
HWY_INLINE V fma_negated(V a, V b, V c) {
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  return fma(hn::Neg(a), b, c);
#else
  return hn::NegMulAdd(a, b, c);
#endif
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
