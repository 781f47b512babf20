// The three exponentials in vectors, side by side. All give the same bits on every instruction set.
//
//   full_exps()          any x, subnormal results included: softmax, activations, losses
//   attention_exps()     x <= 88, results below the normal numbers are 0: weights of attention in f32
//   rough_weights_of()   the same to the digits that bf16 keeps: weights that are rounded to bf16 next
//
// (A fourth one, without fused multiply-adds, belongs to score functions: heed/detail/vector_math.h.)
#if defined(HEED_KERNELS_SIMD_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_SIMD_EXP_INL_H_
#undef HEED_KERNELS_SIMD_EXP_INL_H_
#else
#define HEED_KERNELS_SIMD_EXP_INL_H_
#endif

#include "kernels/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// p = p x + c for one coefficient c after the other, all vectors in step. The loops are unrolled here: at -O2 the
// compiler would keep the coefficients in memory and count them.
template <class D, int kCount, int kTerms, class V = hn::Vec<D>>
HWY_INLINE void add_terms(D d, const V (&x)[kCount], const float (&coefficients)[kTerms], V (&p)[kCount]) {
  HWY_UNROLL(16)
  for (int term = 0; term < kTerms; ++term) {
    HWY_UNROLL(8)
    for (int i = 0; i < kCount; ++i) p[i] = fma(p[i], x[i], hn::Set(d, coefficients[term]));
  }
}

// x = e^x for any x: 2^n p(r) with x = n ln 2 + r. Subnormal results are rounded properly; -inf gives 0, +inf gives
// +inf, NaN stays. The vectors are computed in step: one alone is a chain of twenty instructions (Cascade Lake: 20
// cycles a vector; four in step: 13).
template <class D, int kCount, class V = hn::Vec<D>>
HWY_INLINE void full_exps(D d, V (&x)[kCount]) {
  const hn::RebindToSigned<D> di;
  V t[kCount], r[kCount], p[kCount];
  const auto each = [](auto&& f) HWY_ATTR {
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) f(i);
  };
  // Comparisons instead of Min and Max, which treat NaN differently from target to target.
  each([&](int i) HWY_ATTR { x[i] = hn::IfThenElse(hn::Lt(x[i], hn::Set(d, -104.0f)), hn::Set(d, -104.0f), x[i]); });
  each([&](int i) HWY_ATTR { x[i] = hn::IfThenElse(hn::Gt(x[i], hn::Set(d, 89.0f)), hn::Set(d, 89.0f), x[i]); });
  const V magic = hn::Set(d, 12582912.0f);  // 1.5 * 2^23: rounds to an integer, which is left in the low bits
  each([&](int i) HWY_ATTR { t[i] = fma(x[i], hn::Set(d, 1.44269504f), magic); });
  each([&](int i) HWY_ATTR { p[i] = hn::Sub(t[i], magic); });
  each([&](int i) HWY_ATTR { r[i] = fma(p[i], hn::Set(d, -0.693145751953125f), x[i]); });
  each([&](int i) HWY_ATTR { r[i] = fma(p[i], hn::Set(d, -1.42860677e-6f), r[i]); });
  each([&](int i) HWY_ATTR { p[i] = fma(hn::Set(d, 1.9875691500e-4f), r[i], hn::Set(d, 1.3981999507e-3f)); });
  add_terms(d, r, {8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f}, p);
  each([&](int i) HWY_ATTR { p[i] = fma(p[i], hn::Mul(r[i], r[i]), r[i]); });
  each([&](int i) HWY_ATTR { p[i] = hn::Add(p[i], hn::Set(d, 1.0f)); });
  // 2^n in two factors: n may be beyond the exponents of a normal number.
  each([&](int i) HWY_ATTR {
    const auto integer = hn::Sub(hn::BitCast(di, t[i]), hn::BitCast(di, magic));
    const auto half = hn::ShiftRight<1>(integer);
    const auto bias = hn::Set(di, 127);
    const V first = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
    const V second = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(integer, half), bias)));
    x[i] = hn::Mul(hn::Mul(p[i], first), second);
  });
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V full_exp(D d, V x) {
  V one[1] = {x};
  full_exps(d, one);
  return one[0];
}

// How many vectors attention_exps() should get at once. One alone is a chain of 15 instructions: 11 to 13 cycles a
// vector on Cascade Lake, with six in step 9. AVX2 has registers for three.
constexpr int kExpsInStep = HWY_TARGET <= HWY_AVX3 ? 6 : 3;

// x = e^x for x <= 88, all vectors in step. NaN stays NaN, and below `least` the result is exactly 0. Within 1.2 units
// in the last place for all inputs (tools/exp_error.cc). 2^r on [-1/2, 1/2] is a minimax polynomial of degree 6; e^0 is
// exactly 1.
template <int kVectors>
HWY_INLINE void attention_exps(FV (&x)[kVectors], float least) {
  const FV log2e = all(1.44269504f);
  // Adding 1.5 * 2^23 rounds to an integer, which is left in the low bits; 127 more makes it the exponent field of 2^n.
  const FV magic = all(12582912.0f + 127.0f);
  FV shifted[kVectors], r[kVectors], p[kVectors];
  const auto each = [&](auto&& f) HWY_ATTR {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) f(v);
  };
  each([&](int v) HWY_ATTR { shifted[v] = fma(x[v], log2e, magic); });
  each([&](int v) HWY_ATTR { r[v] = hn::Sub(magic, shifted[v]); });
  each([&](int v) HWY_ATTR { r[v] = fma(x[v], log2e, r[v]); });
  // The digits of log2(e) beyond f32, which count where x is large.
  each([&](int v) HWY_ATTR { r[v] = fma(x[v], all(1.92596299e-8f), r[v]); });
  each([&](int v) HWY_ATTR { p[v] = fma(all(0.00015353362f), r[v], all(0.0013398874f)); });
  add_terms(kF, r, {0.009618437f, 0.055503325f, 0.24022648f, 0.6931472f, 1.0f}, p);
  each([&](int v) HWY_ATTR {
    const FV power = hn::BitCast(kF, hn::ShiftLeft<23>(hn::BitCast(kI, shifted[v])));
    x[v] = hn::IfThenZeroElse(hn::Lt(x[v], all(least)), hn::Mul(p[v], power));
  });
}

// Below this e^x is subnormal.
constexpr float kLeastNormalExponent = -87.33654f;

// e^x of one vector; where it would be subnormal, it is 0.
HWY_INLINE FV attention_exp(FV x) {
  FV one[1] = {x};
  attention_exps(one, kLeastNormalExponent);
  return one[0];
}

// The weights of scores that are this far below the largest one. A weight under e^-75 (3e-33) is 0. Beside a weight of
// 1 it adds nothing, but its products with values and gradients can be subnormal, and each of those takes the processor
// a hundred cycles (ALiBi with a slope of 2 took 3.6 times as long as plain attention, with this 1.2).
template <int kVectors>
HWY_INLINE void weights_of(FV (&below)[kVectors]) {
  attention_exps(below, -75.0f);
}

// The same for weights that are rounded to bf16 next, which keeps 8 binary digits: within 4e-6 of e^x, and e^0 is
// still 1. It takes six multiply-adds instead of eleven, and makes 2^n by adding to the exponent. A NaN stays NaN,
// since 0 is added to it.
template <int kVectors>
HWY_INLINE void rough_weights_of(FV (&below)[kVectors]) {
  const FV log2e = all(1.44269504f), magic = all(12582912.0f);
  FV shifted[kVectors], r[kVectors], p[kVectors];
  const auto each = [&](auto&& f) HWY_ATTR {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) f(v);
  };
  each([&](int v) HWY_ATTR { shifted[v] = fma(below[v], log2e, magic); });
  each([&](int v) HWY_ATTR { r[v] = hn::Sub(magic, shifted[v]); });
  each([&](int v) HWY_ATTR { r[v] = fma(below[v], log2e, r[v]); });
  each([&](int v) HWY_ATTR { p[v] = fma(all(0.009582853f), r[v], all(0.055906426f)); });
  add_terms(kF, r, {0.24024099f, 0.6931242f, 1.0f}, p);
  each([&](int v) HWY_ATTR {
    const auto exponent = hn::ShiftLeft<23>(hn::BitCast(kI, shifted[v]));
    const FV scaled = hn::BitCast(kF, hn::Add(hn::BitCast(kI, p[v]), exponent));
    below[v] = hn::IfThenZeroElse(hn::Lt(below[v], all(-75.0f)), scaled);
  });
}

HWY_INLINE FV weight_of(FV below) {
  FV one[1] = {below};
  weights_of(one);
  return one[0];
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
