// Numbers that carry a derivative.
#pragma once

#include "heed/detail/inline.h"
#include "heed/export.h"

HEED_EXPORT_BEGIN
namespace heed::score {

// A number and its derivative by the score, or by the table's entry: forward differentiation in one pass.
template <class Real>
struct Dual {
  Real value, slope;
  Dual() = default;
  HEED_INLINE Dual(const Real& x) : value(x), slope(0.0f) {}  // NOLINT: a constant
  HEED_INLINE Dual(float x) : Dual(Real(x)) {}                // NOLINT
  HEED_INLINE Dual(const Real& x, const Real& d) : value(x), slope(d) {}

  HEED_INLINE friend Dual operator+(const Dual& a, const Dual& b) { return {a.value + b.value, a.slope + b.slope}; }
  HEED_INLINE friend Dual operator-(const Dual& a, const Dual& b) { return {a.value - b.value, a.slope - b.slope}; }
  HEED_INLINE friend Dual operator*(const Dual& a, const Dual& b) {
    return {a.value * b.value, a.slope * b.value + a.value * b.slope};
  }
  HEED_INLINE friend Dual operator/(const Dual& a, const Dual& b) {
    const Real quotient = a.value / b.value;
    return {quotient, (a.slope - quotient * b.slope) / b.value};
  }
  HEED_INLINE friend Dual operator-(const Dual& a) { return {-a.value, -a.slope}; }
  HEED_INLINE friend auto operator<(const Dual& a, const Dual& b) { return a.value < b.value; }
  HEED_INLINE friend auto operator>(const Dual& a, const Dual& b) { return a.value > b.value; }
};

template <class Real>
HEED_INLINE Dual<Real> exp(const Dual<Real>& x) {
  const Real y = exp(x.value);
  return {y, y * x.slope};
}
template <class Real>
HEED_INLINE Dual<Real> log(const Dual<Real>& x) {
  return {log(x.value), x.slope / x.value};
}
template <class Real>
HEED_INLINE Dual<Real> tanh(const Dual<Real>& x) {
  const Real y = tanh(x.value);
  return {y, (Real(1.0f) - y * y) * x.slope};
}
template <class Real>
HEED_INLINE Dual<Real> sqrt(const Dual<Real>& x) {
  const Real y = sqrt(x.value);
  return {y, Real(0.5f) / y * x.slope};
}
template <class Mask, class Real>
HEED_INLINE Dual<Real> select(const Mask& mask, const Dual<Real>& a, const Dual<Real>& b) {
  return {select(mask, a.value, b.value), select(mask, a.slope, b.slope)};
}
template <class Real>
HEED_INLINE Dual<Real> abs(const Dual<Real>& x) {
  return select(x < Dual<Real>(0.0f), -x, x);
}
template <class Real>
HEED_INLINE Dual<Real> min(const Dual<Real>& a, const Dual<Real>& b) {
  return select(b < a, b, a);
}
template <class Real>
HEED_INLINE Dual<Real> max(const Dual<Real>& a, const Dual<Real>& b) {
  return select(a < b, b, a);
}

}  // namespace heed::score
HEED_EXPORT_END
