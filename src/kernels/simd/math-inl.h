// exp, log, tanh, erf, sigmoid and the activations on vectors of f32: the same operations, hence the same bits, on
// every target. Errors against the exact value are below 2 ulp where tests/kernels/math_test.cc says nothing else.
// Include guard per target, as Highway wants it.
#if defined(HEED_KERNELS_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_SIMD_MATH_INL_H_
#undef HEED_KERNELS_SIMD_MATH_INL_H_
#else
#define HEED_KERNELS_SIMD_MATH_INL_H_
#endif

#include "kernels/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// e^x in place of x: 2^n * p(r), x = n ln 2 + r. Subnormal results are rounded properly; -inf gives 0, +inf gives +inf,
// NaN stays. All vectors in step: one alone is a chain of twenty instructions, of which a processor looks ahead over
// three or four (Cascade Lake: 20 cycles a vector; four in step: 13).
template <class D, int kCount, class V = hn::Vec<D>>
HWY_INLINE void ExpInStep(D d, V (&x)[kCount]) {
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
  each([&](int i) HWY_ATTR { t[i] = Fma(x[i], hn::Set(d, 1.44269504f), magic); });
  each([&](int i) HWY_ATTR { p[i] = hn::Sub(t[i], magic); });
  each([&](int i) HWY_ATTR { r[i] = Fma(p[i], hn::Set(d, -0.693145751953125f), x[i]); });
  each([&](int i) HWY_ATTR { r[i] = Fma(p[i], hn::Set(d, -1.42860677e-6f), r[i]); });
  each([&](int i) HWY_ATTR { p[i] = Fma(hn::Set(d, 1.9875691500e-4f), r[i], hn::Set(d, 1.3981999507e-3f)); });
  for (const float coefficient : {8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f}) {
    each([&](int i) HWY_ATTR { p[i] = Fma(p[i], r[i], hn::Set(d, coefficient)); });
  }
  each([&](int i) HWY_ATTR { p[i] = Fma(p[i], hn::Mul(r[i], r[i]), r[i]); });
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
HWY_INLINE V Exp(D d, V x) {
  V one[1] = {x};
  ExpInStep(d, one);
  return one[0];
}

// The natural logarithm. 0 gives -inf, negative numbers and NaN give NaN, +inf gives +inf.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Log(D d, V x) {
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
  p = Fma(p, f, hn::Set(d, -1.1514610310e-1f));
  p = Fma(p, f, hn::Set(d, 1.1676998740e-1f));
  p = Fma(p, f, hn::Set(d, -1.2420140846e-1f));
  p = Fma(p, f, hn::Set(d, 1.4249322787e-1f));
  p = Fma(p, f, hn::Set(d, -1.6668057665e-1f));
  p = Fma(p, f, hn::Set(d, 2.0000714765e-1f));
  p = Fma(p, f, hn::Set(d, -2.4999993993e-1f));
  p = Fma(p, f, hn::Set(d, 3.3333331174e-1f));
  const V f2 = hn::Mul(f, f);
  V y = hn::Mul(hn::Mul(p, f), f2);
  y = Fma(e, hn::Set(d, -2.12194440e-4f), y);
  y = Fma(f2, hn::Set(d, -0.5f), y);
  y = hn::Add(y, f);
  y = Fma(e, hn::Set(d, 0.693359375f), y);
  const V infinity = hn::Inf(d);
  y = hn::IfThenElse(hn::Eq(x, infinity), infinity, y);
  y = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), y);
  y = hn::IfThenElse(hn::Lt(x, zero), hn::NaN(d), y);
  return hn::IfThenElse(hn::Eq(x, x), y, x);
}

// 1 / (1 + e^-x).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, Exp(d, hn::Neg(x))));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Tanh(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V magnitude = hn::Abs(x);
  const V z = hn::Mul(x, x);
  V p = hn::Set(d, -5.70498872745e-3f);
  p = Fma(p, z, hn::Set(d, 2.06390887954e-2f));
  p = Fma(p, z, hn::Set(d, -5.37397155531e-2f));
  p = Fma(p, z, hn::Set(d, 1.33314422036e-1f));
  p = Fma(p, z, hn::Set(d, -3.33332819422e-1f));
  const V near = Fma(hn::Mul(p, z), x, x);
  const V e = Exp(d, hn::Add(magnitude, magnitude));
  const V far = hn::CopySign(hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(e, one))), x);
  return hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, 0.625f)), far, near);  // NaN takes the polynomial and stays
}

// The error function; two polynomials, the outer one in the exponent of 1 - e^p.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Erf(D d, V x) {
  const V t = hn::Abs(x);
  const V s = hn::Mul(x, x);
  V r = Fma(hn::Set(d, -1.72853470e-5f), t, hn::Set(d, 3.83197126e-4f));
  const V u = Fma(hn::Set(d, -3.88396438e-3f), t, hn::Set(d, 2.42546219e-2f));
  r = Fma(r, s, u);
  r = Fma(r, t, hn::Set(d, -1.06777877e-1f));
  r = Fma(r, t, hn::Set(d, -6.34846687e-1f));
  r = Fma(r, t, hn::Set(d, -1.28717512e-1f));
  r = Fma(r, t, hn::Neg(t));
  const V far = hn::CopySign(hn::Sub(hn::Set(d, 1.0f), Exp(d, r)), x);
  V q = hn::Set(d, -5.96761703e-4f);
  q = Fma(q, s, hn::Set(d, 4.99119423e-3f));
  q = Fma(q, s, hn::Set(d, -2.67681349e-2f));
  q = Fma(q, s, hn::Set(d, 1.12819925e-1f));
  q = Fma(q, s, hn::Set(d, -3.76125336e-1f));
  q = Fma(q, s, hn::Set(d, 1.28379166e-1f));
  const V near = Fma(q, x, x);
  return hn::IfThenElse(hn::Gt(t, hn::Set(d, 0.927734375f)), far, near);
}

// Activations and their derivatives at x; Relu's NaN stays NaN.

struct ReluFunction {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Value(D d, V x) {
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Slope(D d, V x) {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Set(d, 1.0f), hn::Zero(d));
  }
};

struct GeluFunction {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Cumulative(D d, V x) {
    const V half = hn::Set(d, 0.5f);
    return Fma(Erf(d, hn::Mul(x, hn::Set(d, 0.707106781f))), half, half);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Value(D d, V x) {
    return hn::Mul(x, Cumulative(d, x));
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Slope(D d, V x) {
    const V density = hn::Mul(Exp(d, hn::Mul(hn::Mul(x, x), hn::Set(d, -0.5f))), hn::Set(d, 0.398942280f));
    return Fma(x, density, Cumulative(d, x));
  }
};

struct GeluTanhFunction {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Inner(D d, V x, V square) {
    const V cubic = Fma(square, hn::Set(d, 0.044715f), hn::Set(d, 1.0f));
    return Tanh(d, hn::Mul(hn::Mul(x, cubic), hn::Set(d, 0.797884561f)));
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Value(D d, V x) {
    const V half = hn::Mul(x, hn::Set(d, 0.5f));
    return Fma(half, Inner(d, x, hn::Mul(x, x)), half);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Slope(D d, V x) {
    const V one = hn::Set(d, 1.0f), half = hn::Set(d, 0.5f);
    const V square = hn::Mul(x, x);
    const V t = Inner(d, x, square);
    const V inner_slope = hn::Mul(Fma(square, hn::Set(d, 3 * 0.044715f), one), hn::Set(d, 0.797884561f));
    const V tail = hn::Mul(hn::Mul(hn::Mul(half, x), FmaNegated(t, t, one)), inner_slope);
    return hn::Add(Fma(half, t, half), tail);
  }
};

struct SiluFunction {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Value(D d, V x) {
    return hn::Mul(x, Sigmoid(d, x));
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Slope(D d, V x) {
    const V one = hn::Set(d, 1.0f);
    const V s = Sigmoid(d, x);
    return hn::Mul(s, Fma(x, hn::Sub(one, s), one));
  }
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
