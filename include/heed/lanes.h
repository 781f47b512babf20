// Numbers side by side, and numbers that carry their derivatives: what score functions (score.h) are written in.
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

template <int kWidth>
struct VectorsOf;
template <>
struct VectorsOf<4> {
  using Float = float __attribute__((vector_size(16)));
  using Int = int32_t __attribute__((vector_size(16)));
};
template <>
struct VectorsOf<8> {
  using Float = float __attribute__((vector_size(32)));
  using Int = int32_t __attribute__((vector_size(32)));
};
template <>
struct VectorsOf<16> {
  using Float = float __attribute__((vector_size(64)));
  using Int = int32_t __attribute__((vector_size(64)));
};

// One load and one store: GCC copies structures of 32 bytes as two of 16, behind which a load of all 32 has to wait.
template <class Vector>
HEED_INLINE void copy(void* to, const void* from) {
  Vector all;
  __builtin_memcpy(&all, from, sizeof all);
  __builtin_memcpy(to, &all, sizeof all);
}

// Vectors as values live inside these macros' functions only: passed between functions they would need one ABI.
#define HEED_LANES_BINARY(Result, name, Operand, expression)           \
  HEED_INLINE friend Result name(const Operand& p, const Operand& q) { \
    typename Operand::Vector a, b;                                     \
    __builtin_memcpy(&a, p.v, sizeof a);                               \
    __builtin_memcpy(&b, q.v, sizeof b);                               \
    const typename Result::Vector c = expression;                      \
    Result r;                                                          \
    __builtin_memcpy(r.v, &c, sizeof c);                               \
    return r;                                                          \
  }
#define HEED_LANES_UNARY(Result, name, Operand, expression) \
  HEED_INLINE friend Result name(const Operand& p) {        \
    typename Operand::Vector a;                             \
    __builtin_memcpy(&a, p.v, sizeof a);                    \
    const typename Result::Vector c = expression;           \
    Result r;                                               \
    __builtin_memcpy(r.v, &c, sizeof c);                    \
    return r;                                               \
  }

}  // namespace detail

template <int kWidth>
struct LanesOf;

template <int kWidth>
struct IntsOf {
  using Vector = typename detail::VectorsOf<kWidth>::Int;
  int32_t v[kWidth];

  IntsOf() = default;
  HEED_INLINE IntsOf(int32_t x) {  // NOLINT: a number is that many equal ones
    for (int n = 0; n < kWidth; ++n) v[n] = x;
  }
  HEED_INLINE IntsOf(const IntsOf& other) { detail::copy<Vector>(v, other.v); }
  HEED_INLINE IntsOf& operator=(const IntsOf& other) {
    detail::copy<Vector>(v, other.v);
    return *this;
  }
  [[nodiscard]] HEED_INLINE static IntsOf load(const void* from) {
    IntsOf r;
    detail::copy<Vector>(r.v, from);
    return r;
  }
  HEED_INLINE void store(int32_t* to) const { detail::copy<Vector>(to, v); }

  HEED_LANES_BINARY(IntsOf, operator+, IntsOf, a + b)
  HEED_LANES_BINARY(IntsOf, operator-, IntsOf, a - b)
  HEED_LANES_BINARY(IntsOf, operator*, IntsOf, a* b)
  HEED_LANES_BINARY(IntsOf, operator<, IntsOf, a < b)  // -1 where true, 0 elsewhere
  HEED_LANES_BINARY(IntsOf, operator>, IntsOf, a > b)
  HEED_LANES_BINARY(IntsOf, operator==, IntsOf, a == b)
  HEED_LANES_BINARY(IntsOf, min, IntsOf, b < a ? b : a)
  HEED_LANES_BINARY(IntsOf, max, IntsOf, a < b ? b : a)
  HEED_LANES_UNARY(IntsOf, abs, IntsOf, a < 0 ? -a : a)

  HEED_INLINE friend LanesOf<kWidth> to_real(const IntsOf& p) {
    Vector a;
    __builtin_memcpy(&a, p.v, sizeof a);
    const typename LanesOf<kWidth>::Vector c = __builtin_convertvector(a, typename LanesOf<kWidth>::Vector);
    return LanesOf<kWidth>::load(&c);
  }
  // Where the mask is not 0 `a`, elsewhere `b`.
  HEED_INLINE friend LanesOf<kWidth> select(const IntsOf& mask, const LanesOf<kWidth>& a, const LanesOf<kWidth>& b) {
    Vector m;
    typename LanesOf<kWidth>::Vector x, y;
    __builtin_memcpy(&m, mask.v, sizeof m);
    __builtin_memcpy(&x, a.v, sizeof x);
    __builtin_memcpy(&y, b.v, sizeof y);
    const typename LanesOf<kWidth>::Vector z = m ? x : y;
    return LanesOf<kWidth>::load(&z);
  }
};

// Passed in memory, not in registers, so that code for different instruction sets can call each other. As wide as the
// instruction set's vectors: where they are wider, GCC keeps every intermediate result in memory.
template <int kWidth>
struct LanesOf {
  static constexpr int64_t kCount = kWidth;
  using Vector = typename detail::VectorsOf<kWidth>::Float;
  float v[kWidth];

  LanesOf() = default;
  HEED_INLINE LanesOf(float x) {  // NOLINT
    for (int n = 0; n < kWidth; ++n) v[n] = x;
  }
  HEED_INLINE LanesOf(const LanesOf& other) { detail::copy<Vector>(v, other.v); }
  HEED_INLINE LanesOf& operator=(const LanesOf& other) {
    detail::copy<Vector>(v, other.v);
    return *this;
  }
  [[nodiscard]] HEED_INLINE static LanesOf load(const void* from) {
    LanesOf r;
    detail::copy<Vector>(r.v, from);
    return r;
  }
  HEED_INLINE void store(float* to) const { detail::copy<Vector>(to, v); }

  HEED_LANES_BINARY(LanesOf, operator+, LanesOf, a + b)
  HEED_LANES_BINARY(LanesOf, operator-, LanesOf, a - b)
  HEED_LANES_BINARY(LanesOf, operator*, LanesOf, a* b)
  HEED_LANES_BINARY(LanesOf, operator/, LanesOf, a / b)
  HEED_LANES_BINARY(LanesOf, min, LanesOf, b < a ? b : a)
  HEED_LANES_BINARY(LanesOf, max, LanesOf, a < b ? b : a)
  HEED_LANES_BINARY(IntsOf<kWidth>, operator<, LanesOf, a < b)
  HEED_LANES_BINARY(IntsOf<kWidth>, operator>, LanesOf, a > b)
  HEED_LANES_BINARY(IntsOf<kWidth>, operator==, LanesOf, a == b)
  HEED_LANES_UNARY(LanesOf, operator-, LanesOf, -a)
  HEED_LANES_UNARY(LanesOf, abs, LanesOf, a < 0 ? -a : a)
};

#undef HEED_LANES_BINARY
#undef HEED_LANES_UNARY

using Lanes = LanesOf<16>;
using Ints = IntsOf<16>;

// e^x: 2^n times a polynomial of degree 7 on [-ln 2 / 2, ln 2 / 2] (Cephes' expf). 0 below -87.3, infinity above 88.7.
template <int kWidth>
HEED_INLINE LanesOf<kWidth> exp(const LanesOf<kWidth>& x) {
  using Real = LanesOf<kWidth>;
  using IntVector = typename IntsOf<kWidth>::Vector;
  const Real clipped = min(max(x, -87.3365f), 88.72f);
  const Real shifted = clipped * 1.44269504f + 12582912.0f;  // rounds to a whole number, which its low bits hold
  const Real n = shifted - 12582912.0f;
  const Real r = (clipped - n * 0.693359375f) + n * 2.12194440e-4f;
  Real p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const Real y = p * (r * r) + r + 1.0f;
  // 2^n in two factors: n = 128 and -126 alone would leave the range of exponents.
  IntVector bits;
  __builtin_memcpy(&bits, shifted.v, sizeof bits);
  const IntVector whole = bits - 0x4B400000, half = whole >> 1;
  const IntVector low = (half + 127) << 23, high = (whole - half + 127) << 23;
  const Real result = y * Real::load(&low) * Real::load(&high);
  const Real small = select(x < Real(-87.3365f), Real(0.0f), result);
  return select(x > Real(88.72f), Real(std::numeric_limits<float>::infinity()), small);  // NaN came through
}

namespace detail {

// e^x for x <= 0, without the selections: what is below -87.3 counts as that.
template <int kWidth>
HEED_INLINE LanesOf<kWidth> exp_of_negative(const LanesOf<kWidth>& x) {
  using Real = LanesOf<kWidth>;
  using IntVector = typename IntsOf<kWidth>::Vector;
  const Real clipped = max(x, -87.3365f);
  const Real shifted = clipped * 1.44269504f + 12582912.0f;
  const Real n = shifted - 12582912.0f;
  const Real r = (clipped - n * 0.693359375f) + n * 2.12194440e-4f;
  Real p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const Real y = p * (r * r) + r + 1.0f;
  IntVector bits;
  __builtin_memcpy(&bits, shifted.v, sizeof bits);
  const IntVector power = (bits - 0x4B400000 + 127) << 23;
  return y * Real::load(&power);
}

}  // namespace detail

// ln x for normal x > 0; -inf for 0 and what is smaller, NaN below 0. Cephes' logf.
template <int kWidth>
HEED_INLINE LanesOf<kWidth> log(const LanesOf<kWidth>& x) {
  using Real = LanesOf<kWidth>;
  using IntVector = typename IntsOf<kWidth>::Vector;
  IntVector bits;
  __builtin_memcpy(&bits, x.v, sizeof bits);
  const IntVector from_root = bits - 0x3F3504F3;
  const IntVector exponent = from_root >> 23, mantissa = (from_root & 0x007FFFFF) + 0x3F3504F3;
  const Real e = to_real(IntsOf<kWidth>::load(&exponent));
  const Real m = Real::load(&mantissa) - 1.0f;
  const Real z = m * m;
  Real p = 7.0376836292e-2f;
  p = p * m + -1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m + -1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m + -1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m + -2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const Real y = p * m * z - e * 2.12194440e-4f - z * 0.5f;
  const Real inside = m + y + e * 0.693359375f;
  const float inf = std::numeric_limits<float>::infinity();
  const Real finite = select(x > Real(std::numeric_limits<float>::max()), Real(inf), inside);
  const Real positive = select(x < Real(std::numeric_limits<float>::min()), Real(-inf), finite);
  return select(x < Real(0.0f), Real(std::numeric_limits<float>::quiet_NaN()), select(x == x, positive, x));
}

// Cephes' tanhf: a polynomial near 0, where 1 - 2 / (e^2x + 1) would lose all digits.
template <int kWidth>
HEED_INLINE LanesOf<kWidth> tanh(const LanesOf<kWidth>& x) {
  using Real = LanesOf<kWidth>;
  const Real magnitude = abs(x), z = x * x;
  Real p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z + -5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z + -3.33332819422e-1f;
  const Real near = p * z * x + x;
  const Real e = detail::exp_of_negative(magnitude * -2.0f);
  const Real far = (1.0f - e) / (1.0f + e);
  return select(magnitude < Real(0.625f), near, select(x < Real(0.0f), -far, far));
}

template <int kWidth>
HEED_INLINE LanesOf<kWidth> sqrt(const LanesOf<kWidth>& x) {
  using Real = LanesOf<kWidth>;
  Real r;
  for (int64_t n = 0; n < Real::kCount; ++n) r.v[n] = __builtin_sqrtf(x.v[n]);
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
