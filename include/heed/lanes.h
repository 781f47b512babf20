// Sixteen numbers side by side, and numbers that carry their derivatives: what score functions (score.h) are written
// in.
//
// Arithmetic is that of IEEE 754, each operation rounded on its own, so the bits are the same on every instruction set,
// as long as the compiler does not fuse multiplications with additions (-ffp-contract=off, which linking heed::heed
// asks for). exp, log and tanh are within 2 units in the last place.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#define HEED_INLINE inline __attribute__((always_inline))

namespace heed::score {

namespace detail {
using FloatVector = float __attribute__((vector_size(64)));
using IntVector = int32_t __attribute__((vector_size(64)));
}  // namespace detail

// Passed in memory, not in registers, so that code for different instruction sets can call each other.
struct Lanes {
  static constexpr int64_t kCount = 16;
  float v[16];

  Lanes() = default;
  HEED_INLINE Lanes(float x) {  // NOLINT: a number is sixteen equal ones
    for (int n = 0; n < 16; ++n) v[n] = x;
  }
  [[nodiscard]] HEED_INLINE static Lanes load(const float* from) {
    Lanes r;
    __builtin_memcpy(r.v, from, sizeof r.v);
    return r;
  }
  HEED_INLINE void store(float* to) const { __builtin_memcpy(to, v, sizeof v); }
};

struct Ints {
  int32_t v[16];

  Ints() = default;
  HEED_INLINE Ints(int32_t x) {  // NOLINT
    for (int n = 0; n < 16; ++n) v[n] = x;
  }
  [[nodiscard]] HEED_INLINE static Ints load(const int32_t* from) {
    Ints r;
    __builtin_memcpy(r.v, from, sizeof r.v);
    return r;
  }
  HEED_INLINE void store(int32_t* to) const { __builtin_memcpy(to, v, sizeof v); }
};

namespace detail {

template <class T>
struct VectorOf {
  using type = FloatVector;
};
template <>
struct VectorOf<Ints> {
  using type = IntVector;
};

// Vectors as values live inside these macros' functions only: passed between functions they would need one ABI.
#define HEED_LANES_BINARY(Result, name, Operand, expression)    \
  HEED_INLINE Result name(const Operand& p, const Operand& q) { \
    detail::VectorOf<Operand>::type a, b;                       \
    __builtin_memcpy(&a, p.v, sizeof a);                        \
    __builtin_memcpy(&b, q.v, sizeof b);                        \
    const detail::VectorOf<Result>::type c = expression;        \
    Result r;                                                   \
    __builtin_memcpy(r.v, &c, sizeof c);                        \
    return r;                                                   \
  }
#define HEED_LANES_UNARY(Result, name, Operand, expression) \
  HEED_INLINE Result name(const Operand& p) {               \
    detail::VectorOf<Operand>::type a;                      \
    __builtin_memcpy(&a, p.v, sizeof a);                    \
    const detail::VectorOf<Result>::type c = expression;    \
    Result r;                                               \
    __builtin_memcpy(r.v, &c, sizeof c);                    \
    return r;                                               \
  }

}  // namespace detail

HEED_LANES_BINARY(Lanes, operator+, Lanes, a + b)
HEED_LANES_BINARY(Lanes, operator-, Lanes, a - b)
HEED_LANES_BINARY(Lanes, operator*, Lanes, a* b)
HEED_LANES_BINARY(Lanes, operator/, Lanes, a / b)
HEED_LANES_BINARY(Lanes, min, Lanes, b < a ? b : a)
HEED_LANES_BINARY(Lanes, max, Lanes, a < b ? b : a)
HEED_LANES_BINARY(Ints, operator<, Lanes, a < b)  // -1 where true, 0 elsewhere
HEED_LANES_BINARY(Ints, operator>, Lanes, a > b)
HEED_LANES_BINARY(Ints, operator==, Lanes, a == b)
HEED_LANES_BINARY(Ints, operator+, Ints, a + b)
HEED_LANES_BINARY(Ints, operator-, Ints, a - b)
HEED_LANES_BINARY(Ints, operator*, Ints, a* b)
HEED_LANES_BINARY(Ints, operator<, Ints, a < b)
HEED_LANES_BINARY(Ints, operator>, Ints, a > b)
HEED_LANES_BINARY(Ints, operator==, Ints, a == b)
HEED_LANES_BINARY(Ints, min, Ints, b < a ? b : a)
HEED_LANES_BINARY(Ints, max, Ints, a < b ? b : a)
HEED_LANES_UNARY(Lanes, operator-, Lanes, -a)
HEED_LANES_UNARY(Lanes, abs, Lanes, a < 0 ? -a : a)
HEED_LANES_UNARY(Ints, abs, Ints, a < 0 ? -a : a)
HEED_LANES_UNARY(Lanes, to_real, Ints, __builtin_convertvector(a, detail::FloatVector))
#undef HEED_LANES_BINARY
#undef HEED_LANES_UNARY

// Where the mask is not 0 `a`, elsewhere `b`.
HEED_INLINE Lanes select(const Ints& mask, const Lanes& a, const Lanes& b) {
  detail::IntVector m;
  detail::FloatVector x, y;
  __builtin_memcpy(&m, mask.v, sizeof m);
  __builtin_memcpy(&x, a.v, sizeof x);
  __builtin_memcpy(&y, b.v, sizeof y);
  const detail::FloatVector z = m ? x : y;
  return Lanes::load(reinterpret_cast<const float*>(&z));
}

// e^x: 2^n times a polynomial of degree 7 on [-ln 2 / 2, ln 2 / 2] (Cephes' expf). 0 below -87.3, infinity above 88.7.
HEED_INLINE Lanes exp(const Lanes& x) {
  const Lanes clipped = min(max(x, -87.3365f), 88.72f);
  const Lanes shifted = clipped * 1.44269504f + 12582912.0f;  // rounds to a whole number, which its low bits hold
  const Lanes n = shifted - 12582912.0f;
  const Lanes r = (clipped - n * 0.693359375f) + n * 2.12194440e-4f;
  Lanes p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const Lanes y = p * (r * r) + r + 1.0f;
  // 2^n in two factors: n = 128 and -126 alone would leave the range of exponents.
  detail::IntVector bits;
  __builtin_memcpy(&bits, shifted.v, sizeof bits);
  const detail::IntVector whole = bits - 0x4B400000, half = whole >> 1;
  const detail::IntVector low = (half + 127) << 23, high = (whole - half + 127) << 23;
  const Lanes result =
      y * Lanes::load(reinterpret_cast<const float*>(&low)) * Lanes::load(reinterpret_cast<const float*>(&high));
  const Lanes small = select(x < Lanes(-87.3365f), Lanes(0.0f), result);
  return select(x > Lanes(88.72f), Lanes(std::numeric_limits<float>::infinity()), small);  // NaN came through
}

namespace detail {

// e^x for x <= 0, without the selections: what is below -87.3 counts as that.
HEED_INLINE Lanes exp_of_negative(const Lanes& x) {
  const Lanes clipped = max(x, -87.3365f);
  const Lanes shifted = clipped * 1.44269504f + 12582912.0f;
  const Lanes n = shifted - 12582912.0f;
  const Lanes r = (clipped - n * 0.693359375f) + n * 2.12194440e-4f;
  Lanes p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const Lanes y = p * (r * r) + r + 1.0f;
  IntVector bits;
  __builtin_memcpy(&bits, shifted.v, sizeof bits);
  const IntVector power = (bits - 0x4B400000 + 127) << 23;
  return y * Lanes::load(reinterpret_cast<const float*>(&power));
}

}  // namespace detail

// ln x for normal x > 0; -inf for 0 and what is smaller, NaN below 0. Cephes' logf.
HEED_INLINE Lanes log(const Lanes& x) {
  detail::IntVector bits;
  __builtin_memcpy(&bits, x.v, sizeof bits);
  const detail::IntVector from_root = bits - 0x3F3504F3;
  const detail::IntVector exponent = from_root >> 23, mantissa = (from_root & 0x007FFFFF) + 0x3F3504F3;
  const Lanes e = to_real(Ints::load(reinterpret_cast<const int32_t*>(&exponent)));
  const Lanes m = Lanes::load(reinterpret_cast<const float*>(&mantissa)) - 1.0f;
  const Lanes z = m * m;
  Lanes p = 7.0376836292e-2f;
  p = p * m + -1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m + -1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m + -1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m + -2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const Lanes y = p * m * z - e * 2.12194440e-4f - z * 0.5f;
  const Lanes inside = m + y + e * 0.693359375f;
  const float inf = std::numeric_limits<float>::infinity();
  const Lanes finite = select(x > Lanes(std::numeric_limits<float>::max()), Lanes(inf), inside);
  const Lanes positive = select(x < Lanes(std::numeric_limits<float>::min()), Lanes(-inf), finite);
  return select(x < Lanes(0.0f), Lanes(std::numeric_limits<float>::quiet_NaN()), select(x == x, positive, x));
}

// Cephes' tanhf: a polynomial near 0, where 1 - 2 / (e^2x + 1) would lose all digits.
HEED_INLINE Lanes tanh(const Lanes& x) {
  const Lanes magnitude = abs(x), z = x * x;
  Lanes p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z + -5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z + -3.33332819422e-1f;
  const Lanes near = p * z * x + x;
  const Lanes e = detail::exp_of_negative(magnitude * -2.0f);
  const Lanes far = (1.0f - e) / (1.0f + e);
  return select(magnitude < Lanes(0.625f), near, select(x < Lanes(0.0f), -far, far));
}

HEED_INLINE Lanes sqrt(const Lanes& x) {
  Lanes r;
  for (int64_t n = 0; n < Lanes::kCount; ++n) r.v[n] = __builtin_sqrtf(x.v[n]);
  return r;
}

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

// Scores in memory: `lines` of `width` (a multiple of 16). Lane n of line m is the pair (head[n], query[n],
// key[n] + m * key_step).
struct Block {
  float* scores = nullptr;
  int64_t lines = 0, width = 0;
  const int32_t *head = nullptr, *query = nullptr, *key = nullptr;
  int32_t key_step = 0;
  int64_t sequence = 0, offset = 0;
  const float* table = nullptr;  // dense, `entries` numbers
  int32_t entries = 0;
  // Where wanted, of the same size: d result / d score, d result / d entry, and which entry.
  float *by_score = nullptr, *by_entry = nullptr;
  int32_t* entry = nullptr;
};

}  // namespace heed::score
