// bf16 and f16: every pattern and every rounding boundary against an exact definition.
#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>

namespace heed {
namespace {

// The value of an IEEE pattern with the given field widths, from its definition.
double decode(uint32_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint32_t fraction = bits & ((1u << fraction_bits) - 1);
  const uint32_t exponent = (bits >> fraction_bits) & ((1u << exponent_bits) - 1);
  const double sign = (bits >> (exponent_bits + fraction_bits)) != 0 ? -1.0 : 1.0;
  if (exponent == (1u << exponent_bits) - 1) return fraction != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp((1u << fraction_bits) + fraction, static_cast<int>(exponent) - bias - fraction_bits);
}

template <float (*widen)(uint16_t), uint16_t (*narrow)(float)>
void check_all(int exponent_bits, int fraction_bits) {
  const uint32_t infinity = ((1u << exponent_bits) - 1) << fraction_bits;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto pattern = static_cast<uint16_t>(bits);
    const double expected = decode(bits, exponent_bits, fraction_bits);
    const float value = widen(pattern);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(widen(narrow(value)))) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), expected) << bits;
    ASSERT_EQ(narrow(value), pattern) << bits;
    // Halfway to the next pattern away from zero: to the even one; a hair to either side: to the nearer one.
    if ((bits & 0x7FFFu) + 1 < infinity) {
      const double next = decode(bits + 1, exponent_bits, fraction_bits);
      const float middle = static_cast<float>((expected + next) / 2);
      const auto even = static_cast<uint16_t>((bits & 1u) != 0 ? bits + 1 : bits);
      ASSERT_EQ(narrow(middle), even) << bits;
      ASSERT_EQ(narrow(std::nextafter(middle, static_cast<float>(expected))), pattern) << bits;
      ASSERT_EQ(narrow(std::nextafter(middle, static_cast<float>(next))), static_cast<uint16_t>(bits + 1)) << bits;
    }
  }
}

TEST(Half, Bf16IsExactAndRoundsToNearestEven) { check_all<bf16_to_f32, f32_to_bf16>(8, 7); }
TEST(Half, F16IsExactAndRoundsToNearestEven) { check_all<f16_to_f32, f32_to_f16>(5, 10); }

TEST(Half, OverflowBecomesInfinity) {
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7C00);  // halfway between 65504 and 65536
  EXPECT_EQ(f32_to_f16(65519.0f), 0x7BFF);
  EXPECT_EQ(f32_to_f16(-1e30f), 0xFC00);
  EXPECT_EQ(f32_to_bf16(3.4028235e38f), 0x7F80);
}

}  // namespace
}  // namespace heed
