// The numbers that the reference computes score functions with.
#pragma once

#include <cmath>
#include <cstdint>

#include "heed/detail/inline.h"
#include "heed/export.h"

HEED_EXPORT_BEGIN
namespace heed::score {

// One number in double precision and one whole number, which the reference computes with: types of their own, so that
// abs() and the like are found for them as for Lanes.
struct Exact {
  double v;
  Exact() = default;
  HEED_INLINE Exact(double x) : v(x) {}  // NOLINT: a number is one
  HEED_INLINE friend Exact operator+(Exact a, Exact b) { return a.v + b.v; }
  HEED_INLINE friend Exact operator-(Exact a, Exact b) { return a.v - b.v; }
  HEED_INLINE friend Exact operator*(Exact a, Exact b) { return a.v * b.v; }
  HEED_INLINE friend Exact operator/(Exact a, Exact b) { return a.v / b.v; }
  HEED_INLINE friend Exact operator-(Exact a) { return -a.v; }
  HEED_INLINE friend bool operator<(Exact a, Exact b) { return a.v < b.v; }
  HEED_INLINE friend bool operator>(Exact a, Exact b) { return a.v > b.v; }
  HEED_INLINE friend bool operator==(Exact a, Exact b) { return a.v == b.v; }
};
struct Whole {
  int64_t v;
  Whole() = default;
  HEED_INLINE Whole(int64_t x) : v(x) {}  // NOLINT
  HEED_INLINE friend Whole operator+(Whole a, Whole b) { return a.v + b.v; }
  HEED_INLINE friend Whole operator-(Whole a, Whole b) { return a.v - b.v; }
  HEED_INLINE friend Whole operator*(Whole a, Whole b) { return a.v * b.v; }
  HEED_INLINE friend bool operator<(Whole a, Whole b) { return a.v < b.v; }
  HEED_INLINE friend bool operator>(Whole a, Whole b) { return a.v > b.v; }
  HEED_INLINE friend bool operator==(Whole a, Whole b) { return a.v == b.v; }
};
HEED_INLINE Exact exp(Exact x) { return std::exp(x.v); }
HEED_INLINE Exact log(Exact x) { return std::log(x.v); }
HEED_INLINE Exact tanh(Exact x) { return std::tanh(x.v); }
HEED_INLINE Exact sqrt(Exact x) { return std::sqrt(x.v); }
HEED_INLINE Exact abs(Exact x) { return std::abs(x.v); }
HEED_INLINE Exact min(Exact a, Exact b) { return b < a ? b : a; }
HEED_INLINE Exact max(Exact a, Exact b) { return a < b ? b : a; }
HEED_INLINE Exact to_real(Whole x) { return static_cast<double>(x.v); }
HEED_INLINE Exact select(bool mask, Exact a, Exact b) { return mask ? a : b; }
HEED_INLINE Whole abs(Whole x) { return x.v < 0 ? -x.v : x.v; }
HEED_INLINE Whole min(Whole a, Whole b) { return b < a ? b : a; }
HEED_INLINE Whole max(Whole a, Whole b) { return a < b ? b : a; }

}  // namespace heed::score
HEED_EXPORT_END
