// log, tanh, sigmoid and the tail of the normal distribution in vectors: the same operations, hence the same bits, on
// every instruction set. Errors against the exact value are below 2 ulp where tests/kernels/math_test.cc says nothing
// else.
#if defined(HEED_KERNELS_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_SIMD_MATH_INL_H_
#undef HEED_KERNELS_SIMD_MATH_INL_H_
#else
#define HEED_KERNELS_SIMD_MATH_INL_H_
#endif

#include "kernels/simd/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// The natural logarithm of any x. 0 gives -inf, negative numbers and NaN give NaN, +inf gives +inf.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V full_log(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V zero = hn::Zero(d);
  const auto tiny = hn::Lt(x, hn::Set(d, 1.17549435e-38f));
  const V scaled = hn::IfThenElse(tiny, hn::Mul(x, hn::Set(d, 8388608.0f)), x);
  // m in [sqrt(1/2), sqrt(2)): the bits are shifted so that the cut is there.
  const auto bits = hn::Sub(hn::BitCast(di, scaled), hn::Set(di, 0x3F3504F3));
  const auto exponent = hn::ShiftRight<23>(bits);
  const V m = hn::BitCast(d, hn::Add(hn::And(bits, hn::Set(di, 0x007FFFFF)), hn::Set(di, 0x3F3504F3)));
  const V e = hn::Sub(hn::ConvertTo(d, exponent), hn::IfThenElse(tiny, hn::Set(d, 23.0f), zero));
  const V f = hn::Sub(m, hn::Set(d, 1.0f));
  V p = hn::Set(d, 7.0376836292e-2f);
  p = fma(p, f, hn::Set(d, -1.1514610310e-1f));
  p = fma(p, f, hn::Set(d, 1.1676998740e-1f));
  p = fma(p, f, hn::Set(d, -1.2420140846e-1f));
  p = fma(p, f, hn::Set(d, 1.4249322787e-1f));
  p = fma(p, f, hn::Set(d, -1.6668057665e-1f));
  p = fma(p, f, hn::Set(d, 2.0000714765e-1f));
  p = fma(p, f, hn::Set(d, -2.4999993993e-1f));
  p = fma(p, f, hn::Set(d, 3.3333331174e-1f));
  const V f2 = hn::Mul(f, f);
  V y = hn::Mul(hn::Mul(p, f), f2);
  y = fma(e, hn::Set(d, -2.12194440e-4f), y);
  y = fma(f2, hn::Set(d, -0.5f), y);
  y = hn::Add(y, f);
  y = fma(e, hn::Set(d, 0.693359375f), y);
  const V infinity = hn::Inf(d);
  y = hn::IfThenElse(hn::Eq(x, infinity), infinity, y);
  y = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), y);
  y = hn::IfThenElse(hn::Lt(x, zero), hn::NaN(d), y);
  return hn::IfThenElse(hn::Eq(x, x), y, x);
}

// 1 / (1 + e^-x).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, full_exp(d, hn::Neg(x))));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V full_tanh(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V magnitude = hn::Abs(x);
  const V z = hn::Mul(x, x);
  V p = hn::Set(d, -5.70498872745e-3f);
  p = fma(p, z, hn::Set(d, 2.06390887954e-2f));
  p = fma(p, z, hn::Set(d, -5.37397155531e-2f));
  p = fma(p, z, hn::Set(d, 1.33314422036e-1f));
  p = fma(p, z, hn::Set(d, -3.33332819422e-1f));
  const V near = fma(hn::Mul(p, z), x, x);
  const V e = full_exp(d, hn::Add(magnitude, magnitude));
  const V far = hn::CopySign(hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(e, one))), x);
  return hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, 0.625f)), far, near);  // NaN takes the polynomial and stays
}

// Phi(-x) for 0 <= x <= 12, the share of a normal distribution that lies above x. Within 5e-8, and up to x = 5 within
// 6e-6 of itself; at 12, where it is 2e-33, the result is 0. It is 2^r with a polynomial r of degree 10. The vectors
// are computed in step, as in full_exps().
constexpr float kLastTail = 12.0f;
template <class D, int kCount, class V = hn::Vec<D>>
HWY_INLINE void normal_tails(D d, V (&x)[kCount]) {
  const hn::RebindToSigned<D> di;
  const V magic = hn::Set(d, 12582912.0f);
  V s[kCount], r[kCount], p[kCount];
  const auto each = [](auto&& f) HWY_ATTR {
    HWY_UNROLL(8)
    for (int i = 0; i < kCount; ++i) f(i);
  };
  // The even and the odd powers: two chains wait less than one.
  each([&](int i) HWY_ATTR { s[i] = hn::Mul(x[i], x[i]); });
  each([&](int i) HWY_ATTR { r[i] = fma(hn::Set(d, -1.72302173e-8f), s[i], hn::Set(d, -8.64962294e-6f)); });
  each([&](int i) HWY_ATTR { p[i] = fma(hn::Set(d, 6.04221157e-7f), s[i], hn::Set(d, 6.5084314e-5f)); });
  add_terms(d, s, {-2.46882904e-4f, 7.00495997e-3f, -4.59211856e-1f, -1.0f}, r);
  add_terms(d, s, {-5.67927345e-5f, -5.24741486e-2f, -1.15110505f}, p);
  each([&](int i) HWY_ATTR { r[i] = fma(p[i], x[i], r[i]); });
  each([&](int i) HWY_ATTR { s[i] = hn::Add(r[i], magic); });
  each([&](int i) HWY_ATTR { r[i] = hn::Sub(r[i], hn::Sub(s[i], magic)); });
  // 2^r on [-1/2, 1/2] as in attention_exps(), and the whole part is added to the exponent.
  each([&](int i) HWY_ATTR { p[i] = fma(hn::Set(d, 0.00015353362f), r[i], hn::Set(d, 0.0013398874f)); });
  add_terms(d, r, {0.009618437f, 0.055503325f, 0.24022648f, 0.6931472f, 1.0f}, p);
  each([&](int i) HWY_ATTR {
    const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, s[i]));
    const V tail = hn::BitCast(d, hn::Add(hn::BitCast(di, p[i]), exponent));
    x[i] = hn::IfThenElseZero(hn::Lt(x[i], hn::Set(d, kLastTail)), tail);
  });
}

// ln x for normal x > 0, as attention needs it. Cephes' logf: within 1 unit in the last place.
HWY_INLINE FV attention_log(FV x) {
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2)): after subtracting the bits of sqrt(1/2), e is above the mantissa.
  const auto bits = hn::BitCast(kI, x);
  const auto from_root = hn::Sub(bits, hn::Set(kI, 0x3F3504F3));
  const FV e = hn::ConvertTo(kF, hn::ShiftRight<23>(from_root));
  const auto mantissa = hn::Add(hn::And(from_root, hn::Set(kI, 0x007FFFFF)), hn::Set(kI, 0x3F3504F3));
  const FV m = hn::Sub(hn::BitCast(kF, mantissa), all(1.0f));
  const FV z = hn::Mul(m, m);
  FV p = all(7.0376836292e-2f);
  p = fma(p, m, all(-1.1514610310e-1f));
  p = fma(p, m, all(1.1676998740e-1f));
  p = fma(p, m, all(-1.2420140846e-1f));
  p = fma(p, m, all(1.4249322787e-1f));
  p = fma(p, m, all(-1.6668057665e-1f));
  p = fma(p, m, all(2.0000714765e-1f));
  p = fma(p, m, all(-2.4999993993e-1f));
  p = fma(p, m, all(3.3333331174e-1f));
  FV y = hn::Mul(hn::Mul(p, m), z);
  y = fma(e, all(-2.12194440e-4f), y);
  y = fma(z, all(-0.5f), y);
  return fma(e, all(0.693359375f), hn::Add(m, y));
}

// Cephes' tanhf: a polynomial near 0, where 1 - 2 / (e^2x + 1) would lose all digits.
HWY_INLINE FV attention_tanh(FV x) {
  const FV magnitude = hn::Abs(x);
  const FV z = hn::Mul(x, x);
  FV p = all(-5.70498872745e-3f);
  p = fma(p, z, all(2.06390887954e-2f));
  p = fma(p, z, all(-5.37397155531e-2f));
  p = fma(p, z, all(1.33314422036e-1f));
  p = fma(p, z, all(-3.33332819422e-1f));
  const FV near = fma(hn::Mul(p, z), x, x);
  // e^-2|x| cannot overflow, so nothing is lost by large x.
  const FV e = attention_exp(hn::Mul(magnitude, all(-2.0f)));
  const FV far = hn::CopySign(hn::Div(hn::Sub(all(1.0f), e), hn::Add(all(1.0f), e)), x);
  return hn::IfThenElse(hn::Lt(magnitude, all(0.625f)), near, far);
}

// Which NaN an operation returns differs between processors. A kernel always returns this one.
HWY_INLINE FV canonical_nan(FV x) {
  return hn::IfThenElse(hn::IsNaN(x), all(std::numeric_limits<float>::quiet_NaN()), x);
}

// The canonical form of a result: one NaN, and no -0. Which zero a sum of vanishing terms gives depends on whether
// masked keys were skipped.
HWY_INLINE FV canonical(FV x) { return canonical_nan(hn::Add(x, hn::Zero(kF))); }

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
