// log, tanh, erf and sigmoid in vectors: the same operations, hence the same bits, on every instruction set. Errors
// against the exact value are below 2 ulp where tests/kernels/math_test.cc says nothing else.
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

// The error function by two polynomials, the outer one in the exponent of 1 - e^p. The vectors are computed in step, as
// in full_exps().
template <class D, int kCount, class V = hn::Vec<D>>
HWY_INLINE void erfs(D d, V (&x)[kCount]) {
  const hn::RebindToSigned<D> di;
  V s[kCount], t[kCount], r[kCount], p[kCount], q[kCount];
  const auto each = [](auto&& f) HWY_ATTR {
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) f(i);
  };
  each([&](int i) HWY_ATTR { t[i] = hn::Abs(x[i]), s[i] = hn::Mul(x[i], x[i]); });
  each([&](int i) HWY_ATTR { r[i] = fma(hn::Set(d, -1.72853470e-5f), t[i], hn::Set(d, 3.83197126e-4f)); });
  each([&](int i) HWY_ATTR { p[i] = fma(hn::Set(d, -3.88396438e-3f), t[i], hn::Set(d, 2.42546219e-2f)); });
  each([&](int i) HWY_ATTR { r[i] = fma(r[i], s[i], p[i]); });
  for (const float coefficient : {-1.06777877e-1f, -6.34846687e-1f, -1.28717512e-1f}) {
    each([&](int i) HWY_ATTR { r[i] = fma(r[i], t[i], hn::Set(d, coefficient)); });
  }
  each([&](int i) HWY_ATTR { r[i] = fma(r[i], t[i], hn::Neg(t[i])); });
  each([&](int i) HWY_ATTR { q[i] = fma(hn::Set(d, -5.96761703e-4f), s[i], hn::Set(d, 4.99119423e-3f)); });
  for (const float coefficient : {-2.67681349e-2f, 1.12819925e-1f, -3.76125336e-1f, 1.28379166e-1f}) {
    each([&](int i) HWY_ATTR { q[i] = fma(q[i], s[i], hn::Set(d, coefficient)); });
  }
  each([&](int i) HWY_ATTR { q[i] = fma(q[i], x[i], x[i]); });  // near 0
  // e^r as in full_exps(), without what r cannot be: above 0. Below -87 nothing is left of it beside 1.
  const V magic = hn::Set(d, 12582912.0f);
  each([&](int i) HWY_ATTR { r[i] = hn::Max(r[i], hn::Set(d, -87.0f)); });
  each([&](int i) HWY_ATTR { s[i] = fma(r[i], hn::Set(d, 1.44269504f), magic); });
  each([&](int i) HWY_ATTR { p[i] = hn::Sub(s[i], magic); });
  each([&](int i) HWY_ATTR { r[i] = fma(p[i], hn::Set(d, -0.693145751953125f), r[i]); });
  each([&](int i) HWY_ATTR { r[i] = fma(p[i], hn::Set(d, -1.42860677e-6f), r[i]); });
  each([&](int i) HWY_ATTR { p[i] = fma(hn::Set(d, 1.9875691500e-4f), r[i], hn::Set(d, 1.3981999507e-3f)); });
  for (const float coefficient : {8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f}) {
    each([&](int i) HWY_ATTR { p[i] = fma(p[i], r[i], hn::Set(d, coefficient)); });
  }
  each([&](int i) HWY_ATTR { p[i] = fma(p[i], hn::Mul(r[i], r[i]), r[i]); });
  const V one = hn::Set(d, 1.0f);
  each([&](int i) HWY_ATTR {
    const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::BitCast(di, s[i]), hn::Set(di, 127))));
    p[i] = hn::CopySign(hn::Sub(one, hn::Mul(hn::Add(p[i], one), power)), x[i]);
  });
  each([&](int i) HWY_ATTR { x[i] = hn::IfThenElse(hn::Gt(t[i], hn::Set(d, 0.927734375f)), p[i], q[i]); });
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V erf(D d, V x) {
  V one[1] = {x};
  erfs(d, one);
  return one[0];
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
