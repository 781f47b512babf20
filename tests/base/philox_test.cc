// Philox against the known answers of its authors (Random123 kat_vectors), and its helpers.
#include "base/philox.h"

#include <gtest/gtest.h>

#include <cmath>

namespace heed {
namespace {

TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox(0, 0, 0), (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ull, ~0ull, ~0ull), (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  // counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0
  EXPECT_EQ(philox(0x299f31d0a4093822ull, 0x0370734413198a2eull, 0x85a308d3243f6a88ull),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformsLieInTheHalfOpenInterval) {
  EXPECT_EQ(uniform_float(0), 0.0f);
  EXPECT_LT(uniform_float(~0u), 1.0f);
  EXPECT_EQ(uniform_double(0, 0), 0.0);
  EXPECT_LT(uniform_double(~0u, ~0u), 1.0);
  double sum = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) sum += uniform_float(philox(7, 1, static_cast<uint64_t>(i))[0]);
  EXPECT_NEAR(sum / kCount, 0.5, 5 * 0.2887 / std::sqrt(kCount));
}

TEST(Philox, DropoutThresholdKeepsTheRightShare) {
  EXPECT_EQ(dropout_threshold(0.0f), 0u);
  EXPECT_EQ(dropout_threshold(0.5f), 0x80000000u);
}

}  // namespace
}  // namespace heed
