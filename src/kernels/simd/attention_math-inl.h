// exp, log and tanh of vectors of f32, by polynomials and fused multiply-adds: the same bits on every target.
#if defined(HEED_KERNELS_SIMD_ATTENTION_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_SIMD_ATTENTION_MATH_INL_H_
#undef HEED_KERNELS_SIMD_ATTENTION_MATH_INL_H_
#else
#define HEED_KERNELS_SIMD_ATTENTION_MATH_INL_H_
#endif

#include <limits>

#include "kernels/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// Full vectors of this target (1 lane on the portable one, 8, 16), and its integers.
using F = hn::ScalableTag<float>;
using I = hn::RebindToSigned<F>;
using U = hn::RebindToUnsigned<F>;
using FV = hn::Vec<F>;
using UV = hn::Vec<U>;
constexpr F kF;
constexpr I kI;
constexpr U kU;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(F()));
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

HWY_INLINE FV all(float value) { return hn::Set(kF, value); }

// a > b ? a : b. A NaN in either gives b: the same rule as the x86 instruction, spelled out for the portable target.
HWY_INLINE FV larger(FV a, FV b) {
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  return hn::IfThenElse(hn::Gt(a, b), a, b);
#else
  return hn::Max(a, b);
#endif
}

// How many vectors exponentials() takes at best. One alone is a chain of 15 instructions, of which a processor looks
// ahead over five or so: 11 to 13 cycles a vector on Cascade Lake, with six in step 9. AVX2 has registers for three.
constexpr int kInStep = HWY_TARGET <= HWY_AVX3 ? 6 : 3;

// x = e^x for x <= 88, for all vectors in step; NaN stays NaN, and below `least` it is exactly 0. Within 1.2 units in
// the last place for all inputs (tools/exp_error.cc). 2^r on [-1/2, 1/2] by a minimax polynomial of degree 6; e^0 is
// exactly 1.
template <int kVectors>
HWY_INLINE void exponentials(FV (&x)[kVectors], float least) {
  const FV log2e = all(1.44269504f);
  // Adding 1.5 * 2^23 rounds to an integer, and leaves it in the low bits; 127 more makes it the exponent field of 2^n.
  const FV magic = all(12582912.0f + 127.0f);
  FV shifted[kVectors], r[kVectors], p[kVectors];
  const auto each = [&](auto&& f) HWY_ATTR {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) f(v);
  };
  each([&](int v) HWY_ATTR { shifted[v] = Fma(x[v], log2e, magic); });
  each([&](int v) HWY_ATTR { r[v] = hn::Sub(magic, shifted[v]); });
  each([&](int v) HWY_ATTR { r[v] = Fma(x[v], log2e, r[v]); });
  // What remains of x log2(e), whose digits beyond f32 count where x is large.
  each([&](int v) HWY_ATTR { r[v] = Fma(x[v], all(1.92596299e-8f), r[v]); });
  each([&](int v) HWY_ATTR { p[v] = Fma(all(0.00015353362f), r[v], all(0.0013398874f)); });
  for (const float coefficient : {0.009618437f, 0.055503325f, 0.24022648f, 0.6931472f, 1.0f}) {
    each([&](int v) HWY_ATTR { p[v] = Fma(p[v], r[v], all(coefficient)); });
  }
  each([&](int v) HWY_ATTR {
    const FV power = hn::BitCast(kF, hn::ShiftLeft<23>(hn::BitCast(kI, shifted[v])));
    x[v] = hn::IfThenZeroElse(hn::Lt(x[v], all(least)), hn::Mul(p[v], power));
  });
}

// Below it e^x is subnormal.
constexpr float kLeastNormalExponent = -87.33654f;

// e^x of one vector; where it would be subnormal, it is 0.
HWY_INLINE FV exponential(FV x) {
  FV one[1] = {x};
  exponentials(one, kLeastNormalExponent);
  return one[0];
}

// The weights of scores so far below the largest one. Under e^-75, 3e-33, it is 0: beside a weight of 1 it adds
// nothing, but its products with values and gradients can be subnormal, each of which takes the processor a hundred
// cycles (ALiBi with a slope of 2 took 3.6 times as long as plain attention, with this 1.2).
template <int kVectors>
HWY_INLINE void weights_of(FV (&below)[kVectors]) {
  exponentials(below, -75.0f);
}

// The same for weights that are rounded to bf16 next, which keeps 8 binary digits: within 4e-6 of e^x, e^0 still 1. Six
// multiply-adds instead of eleven, and 2^n by adding to the exponent; a NaN stays one, since what is added to it is 0.
template <int kVectors>
HWY_INLINE void rough_weights_of(FV (&below)[kVectors]) {
  const FV log2e = all(1.44269504f), magic = all(12582912.0f);
  FV shifted[kVectors], r[kVectors], p[kVectors];
  const auto each = [&](auto&& f) HWY_ATTR {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) f(v);
  };
  each([&](int v) HWY_ATTR { shifted[v] = Fma(below[v], log2e, magic); });
  each([&](int v) HWY_ATTR { r[v] = hn::Sub(magic, shifted[v]); });
  each([&](int v) HWY_ATTR { r[v] = Fma(below[v], log2e, r[v]); });
  each([&](int v) HWY_ATTR { p[v] = Fma(all(0.009582853f), r[v], all(0.055906426f)); });
  for (const float coefficient : {0.24024099f, 0.6931242f, 1.0f}) {
    each([&](int v) HWY_ATTR { p[v] = Fma(p[v], r[v], all(coefficient)); });
  }
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

// ln x for normal x > 0. Cephes' logf: within 1 unit in the last place.
HWY_INLINE FV logarithm(FV x) {
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2)): subtract the bits of sqrt(1/2), and what is above the mantissa is e.
  const auto bits = hn::BitCast(kI, x);
  const auto from_root = hn::Sub(bits, hn::Set(kI, 0x3F3504F3));
  const FV e = hn::ConvertTo(kF, hn::ShiftRight<23>(from_root));
  const auto mantissa = hn::Add(hn::And(from_root, hn::Set(kI, 0x007FFFFF)), hn::Set(kI, 0x3F3504F3));
  const FV m = hn::Sub(hn::BitCast(kF, mantissa), all(1.0f));
  const FV z = hn::Mul(m, m);
  FV p = all(7.0376836292e-2f);
  p = Fma(p, m, all(-1.1514610310e-1f));
  p = Fma(p, m, all(1.1676998740e-1f));
  p = Fma(p, m, all(-1.2420140846e-1f));
  p = Fma(p, m, all(1.4249322787e-1f));
  p = Fma(p, m, all(-1.6668057665e-1f));
  p = Fma(p, m, all(2.0000714765e-1f));
  p = Fma(p, m, all(-2.4999993993e-1f));
  p = Fma(p, m, all(3.3333331174e-1f));
  FV y = hn::Mul(hn::Mul(p, m), z);
  y = Fma(e, all(-2.12194440e-4f), y);
  y = Fma(z, all(-0.5f), y);
  return Fma(e, all(0.693359375f), hn::Add(m, y));
}

// Cephes' tanhf: a polynomial near 0, where 1 - 2 / (e^2x + 1) would lose all digits.
HWY_INLINE FV hyperbolic_tangent(FV x) {
  const FV magnitude = hn::Abs(x);
  const FV z = hn::Mul(x, x);
  FV p = all(-5.70498872745e-3f);
  p = Fma(p, z, all(2.06390887954e-2f));
  p = Fma(p, z, all(-5.37397155531e-2f));
  p = Fma(p, z, all(1.33314422036e-1f));
  p = Fma(p, z, all(-3.33332819422e-1f));
  const FV near = Fma(hn::Mul(p, z), x, x);
  // e^-2|x| cannot overflow, so nothing is lost by large x.
  const FV e = exponential(hn::Mul(magnitude, all(-2.0f)));
  const FV far = hn::CopySign(hn::Div(hn::Sub(all(1.0f), e), hn::Add(all(1.0f), e)), x);
  return hn::IfThenElse(hn::Lt(magnitude, all(0.625f)), near, far);
}

// Which NaN an operation returns differs between processors; what leaves a kernel is always the same one.
HWY_INLINE FV one_nan(FV x) { return hn::IfThenElse(hn::IsNaN(x), all(std::numeric_limits<float>::quiet_NaN()), x); }

// Adding 0 turns -0 into 0: which of the two a sum of vanishing terms gives depends on whether masked keys were
// skipped.
HWY_INLINE FV tidy(FV x) { return one_nan(hn::Add(x, hn::Zero(kF))); }

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
