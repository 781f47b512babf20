// Activations in vectors, and their derivatives.
#if defined(HEED_KERNELS_ROWS_ACTIVATIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ROWS_ACTIVATIONS_INL_H_
#undef HEED_KERNELS_ROWS_ACTIVATIONS_INL_H_
#else
#define HEED_KERNELS_ROWS_ACTIVATIONS_INL_H_
#endif

#include "heed/ops_options.h"
#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// Activations and their derivatives at x. Relu's NaN stays NaN. values() computes several vectors in step where that is
// faster than one after the other.

template <class Function, class D, int kCount, class V = hn::Vec<D>>
HWY_INLINE void one_by_one(D d, V (&x)[kCount]) {
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) x[i] = Function::value(d, x[i]);
}

struct NoActivation {
  template <class D, int kCount, class V = hn::Vec<D>>
  static HWY_INLINE void values(D /*d*/, V (&/*x*/)[kCount]) {}
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V value(D /*d*/, V x) {
    return x;
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V slope(D d, V /*x*/) {
    return hn::Set(d, 1.0f);
  }
};

struct ReluFunction {
  template <class D, int kCount, class V = hn::Vec<D>>
  static HWY_INLINE void values(D d, V (&x)[kCount]) {
    one_by_one<ReluFunction>(d, x);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V value(D d, V x) {
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V slope(D d, V x) {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Set(d, 1.0f), hn::Zero(d));
  }
};

// x Phi(x) as max(x, 0) - |x| Phi(-|x|): unlike (1 + erf(x / sqrt 2)) / 2, a small Phi is no difference of numbers
// near 1.
struct GeluFunction {
  // |x|, or kLastTail above it and for NaN. As integers, which have the order of positive numbers.
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V magnitude(D d, V x) {
    const hn::RebindToSigned<D> di;
    return hn::BitCast(d, hn::Min(hn::BitCast(di, hn::Abs(x)), hn::BitCast(di, hn::Set(d, kLastTail))));
  }
  template <class D, int kCount, class V = hn::Vec<D>>
  static HWY_INLINE void values(D d, V (&x)[kCount]) {
    V tail[kCount];
    HWY_UNROLL(8)
    for (int i = 0; i < kCount; ++i) tail[i] = magnitude(d, x[i]);
    normal_tails(d, tail);
    HWY_UNROLL(8)
    for (int i = 0; i < kCount; ++i) x[i] = fma_negated(magnitude(d, x[i]), tail[i], ReluFunction::value(d, x[i]));
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V value(D d, V x) {
    V one[1] = {x};
    values(d, one);
    return one[0];
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V cumulative(D d, V x) {
    V tail[1] = {magnitude(d, x)};
    normal_tails(d, tail);
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail[0], hn::Sub(hn::Set(d, 1.0f), tail[0]));
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V slope(D d, V x) {
    const V density = hn::Mul(full_exp(d, hn::Mul(hn::Mul(x, x), hn::Set(d, -0.5f))), hn::Set(d, 0.398942280f));
    return fma(x, density, cumulative(d, x));
  }
};

struct GeluTanhFunction {
  template <class D, int kCount, class V = hn::Vec<D>>
  static HWY_INLINE void values(D d, V (&x)[kCount]) {
    one_by_one<GeluTanhFunction>(d, x);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V inner(D d, V x, V square) {
    const V cubic = fma(square, hn::Set(d, 0.044715f), hn::Set(d, 1.0f));
    return full_tanh(d, hn::Mul(hn::Mul(x, cubic), hn::Set(d, 0.797884561f)));
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V value(D d, V x) {
    const V half = hn::Mul(x, hn::Set(d, 0.5f));
    return fma(half, inner(d, x, hn::Mul(x, x)), half);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V slope(D d, V x) {
    const V one = hn::Set(d, 1.0f), half = hn::Set(d, 0.5f);
    const V square = hn::Mul(x, x);
    const V t = inner(d, x, square);
    const V inner_slope = hn::Mul(fma(square, hn::Set(d, 3 * 0.044715f), one), hn::Set(d, 0.797884561f));
    const V tail = hn::Mul(hn::Mul(hn::Mul(half, x), fma_negated(t, t, one)), inner_slope);
    return hn::Add(fma(half, t, half), tail);
  }
};

struct SiluFunction {
  template <class D, int kCount, class V = hn::Vec<D>>
  static HWY_INLINE void values(D d, V (&x)[kCount]) {
    one_by_one<SiluFunction>(d, x);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V value(D d, V x) {
    return hn::Mul(x, sigmoid(d, x));
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V slope(D d, V x) {
    const V one = hn::Set(d, 1.0f);
    const V s = sigmoid(d, x);
    return hn::Mul(s, fma(x, hn::Sub(one, s), one));
  }
};

struct TanhFunction {
  template <class D, int kCount, class V = hn::Vec<D>>
  static HWY_INLINE void values(D d, V (&x)[kCount]) {
    one_by_one<TanhFunction>(d, x);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V value(D d, V x) {
    return full_tanh(d, x);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V slope(D d, V x) {
    const V t = full_tanh(d, x);
    return fma_negated(t, t, hn::Set(d, 1.0f));
  }
};

// f() with the struct of this activation.
template <class Function>
HWY_INLINE void with_activation(Activation activation, Function&& f) {
  switch (activation) {
    case Activation::none: return f(NoActivation());
    case Activation::relu: return f(ReluFunction());
    case Activation::gelu: return f(GeluFunction());
    case Activation::gelu_tanh: return f(GeluTanhFunction());
    case Activation::silu: return f(SiluFunction());
    case Activation::tanh: return f(TanhFunction());
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
