// exp, log, tanh and square root of numbers side by side, within 2 units in the last place.
#pragma once

#include <cstdint>
#include <limits>

#include "heed/detail/vectors.h"
#include "heed/export.h"

HEED_EXPORT_BEGIN
namespace heed::score {

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
  return select(x < Real(0.0f), Real(std::numeric_limits<float>::quiet_NaN()),
                select(x == x, positive, x));  // NOLINT: NaN
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

}  // namespace heed::score
HEED_EXPORT_END
