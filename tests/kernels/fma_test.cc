// The multiply-add that stands in for a fused instruction on the portable path has the same bits as the real one.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/simd/simd-inl.h"

namespace heed {
namespace {

uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }

TEST(Fma, EqualsTheFusedInstructionOnRandomBits) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000000; ++i) {
    const auto a = std::bit_cast<float>(static_cast<uint32_t>(random()));
    const auto b = std::bit_cast<float>(static_cast<uint32_t>(random()));
    const auto c = std::bit_cast<float>(static_cast<uint32_t>(random()));
    const float expected = std::fma(a, b, c), found = fma_in_double(a, b, c);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(found)) << a << ' ' << b << ' ' << c;
    } else {
      ASSERT_EQ(bits_of(found), bits_of(expected)) << a << ' ' << b << ' ' << c;
    }
  }
}

TEST(Fma, EqualsTheFusedInstructionWhereRoundingIsHard) {
  // Near-cancellation and halfway cases: the product has 48 bits and c sits close to minus its rounding.
  std::mt19937 random(2);
  std::uniform_real_distribution<float> unit(1.0f, 2.0f);
  for (int i = 0; i < 2000000; ++i) {
    const float a = unit(random), b = unit(random);
    const int exponent = static_cast<int>(random() % 60) - 50;
    float c = std::ldexp(unit(random), exponent) * ((random() & 1) != 0 ? 1.0f : -1.0f);
    if (i % 3 == 0) c = -static_cast<float>(static_cast<double>(a) * b);
    const float scale = i % 5 == 0 ? 0x1p-140f : 1.0f;  // subnormal results too
    ASSERT_EQ(bits_of(fma_in_double(a * scale, b, c * scale)), bits_of(std::fma(a * scale, b, c * scale)))
        << a << ' ' << b << ' ' << c;
  }
}

}  // namespace
}  // namespace heed
