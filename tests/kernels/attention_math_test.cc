// The weights of attention, e^x of scores less the largest one: in f32, and to the digits that bf16 keeps.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_math_test.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/settings.h"
#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

template <class Weigh>
void each_vector(std::vector<float>& values, const Weigh& weigh) {
  for (size_t i = 0; i + static_cast<size_t>(kLanes) <= values.size(); i += static_cast<size_t>(kLanes)) {
    FV x[1] = {hn::LoadU(kF, values.data() + i)};
    weigh(x);
    hn::StoreU(x[0], kF, values.data() + i);
  }
}

void Weights(std::vector<float>& values) {
  each_vector(values, [](FV(&x)[1]) HWY_ATTR { weights_of(x); });
}
void RoughWeights(std::vector<float>& values) {
  each_vector(values, [](FV(&x)[1]) HWY_ATTR { rough_weights_of(x); });
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {
namespace {

HWY_EXPORT(Weights);
HWY_EXPORT(RoughWeights);

using Values = std::vector<float>;

void weights(Values& v) { HWY_DYNAMIC_DISPATCH(Weights)(v); }
void rough_weights(Values& v) { HWY_DYNAMIC_DISPATCH(RoughWeights)(v); }

// All of [-75, 88], evenly and by bit patterns, and what is special.
Values inputs() {
  Values values = {0.0f, -0.0f, -INFINITY, NAN,   -75.5f, -1e30f, -88.0f, -200.0f,
                   1.0f, -1.0f, 10.0f,     80.0f, -74.9f, -0.5f,  0.5f,   -1e-40f};
  std::mt19937 engine(1);
  for (int n = 0; n < 20'000; ++n) values.push_back(-75.0f + 163.0f * static_cast<float>(n) / 20'000.0f);
  while (values.size() < 60'000) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(engine()));
    if (value >= -75.0f && value <= 88.0f) values.push_back(value);
  }
  return values;
}

void expect_within(double most, void (*function)(Values&)) {
  const Values x = inputs();
  testing::on_every_isa([&] {
    Values found = x;
    function(found);
    for (size_t n = 0; n < x.size(); ++n) {
      if (std::isnan(x[n])) {
        EXPECT_TRUE(std::isnan(found[n]));
      } else if (x[n] < -75.0f) {
        EXPECT_EQ(found[n], 0.0f) << "at " << x[n];
      } else {
        const double exact = std::exp(static_cast<double>(x[n]));
        ASSERT_LE(std::fabs(static_cast<double>(found[n]) - exact), most * exact) << "at " << x[n];
      }
    }
    EXPECT_EQ(found[0], 1.0f);
    EXPECT_EQ(found[1], 1.0f);
  });
  testing::expect_same_bits_everywhere([&] {
    Values found = x;
    function(found);
    return found;
  });
}

TEST(AttentionWeights, AreThoseOfTheExponential) { expect_within(1.2 * 0x1p-23, weights); }

TEST(AttentionWeights, AreRoughWhereBf16RoundsThem) { expect_within(4e-6, rough_weights); }

}  // namespace
}  // namespace heed
#endif
