// 4, 8 or 16 numbers side by side, with the operators of one number.
#pragma once

#include <cstdint>

#include "heed/detail/inline.h"
#include "heed/export.h"

HEED_EXPORT_BEGIN
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
  HEED_INLINE IntsOf& operator=(const IntsOf& other) {  // NOLINT: it loads before it stores
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
  HEED_INLINE LanesOf& operator=(const LanesOf& other) {  // NOLINT: it loads before it stores
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

}  // namespace heed::score
HEED_EXPORT_END
