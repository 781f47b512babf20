// Initial weights: distribution, reproducibility, independence of the thread count.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "heed/cpu.h"
#include "heed/nn.h"

namespace heed::nn {
namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.nbytes())) == 0;
}

struct Moments {
  double mean = 0, deviation = 0, smallest = 1e9, largest = -1e9, fourth = 0;
};
Moments moments(const Tensor& t) {
  Moments m;
  const auto n = static_cast<double>(t.numel());
  for (int64_t i = 0; i < t.numel(); ++i) {
    const double x = t.data<float>()[i];
    m.mean += x / n;
    m.smallest = std::min(m.smallest, x);
    m.largest = std::max(m.largest, x);
  }
  for (int64_t i = 0; i < t.numel(); ++i) {
    const double x = t.data<float>()[i] - m.mean;
    m.deviation += x * x / n;
    m.fourth += x * x * x * x / n;
  }
  m.fourth /= m.deviation * m.deviation;
  m.deviation = std::sqrt(m.deviation);
  return m;
}

TEST(Initializer, NormalHasItsMoments) {
  const Moments m = moments(Initializer(3).normal({201, 999}, 0.5f));
  EXPECT_NEAR(m.mean, 0, 5 * 0.5 / std::sqrt(201 * 999.0));
  EXPECT_NEAR(m.deviation, 0.5, 0.005);
  EXPECT_NEAR(m.fourth, 3, 0.06);
  EXPECT_GT(m.largest, 4 * 0.5);
}

TEST(Initializer, XavierIsUniformWithinItsBound) {
  const Moments m = moments(Initializer(3).xavier_uniform(300, 500));
  const double bound = std::sqrt(6.0 / 800);
  EXPECT_LT(m.largest, bound);
  EXPECT_GE(m.smallest, -bound * (1 + 1e-6));
  EXPECT_GT(m.largest, 0.999 * bound);
  EXPECT_NEAR(m.deviation, bound / std::sqrt(3.0), 0.005 * bound);
  EXPECT_NEAR(m.fourth, 9.0 / 5, 0.02);
}

TEST(Initializer, DependsOnSeedAndOrderOnly) {
  Initializer a(5), b(5), c(6);
  const Tensor first = a.normal({100, 77}, 1), second = a.normal({100, 77}, 1);
  EXPECT_TRUE(same_bits(first, b.normal({100, 77}, 1)));
  EXPECT_FALSE(same_bits(first, second));
  EXPECT_FALSE(same_bits(first, c.normal({100, 77}, 1)));
  const int threads = num_threads();
  set_num_threads(3);
  const Tensor by_three = b.normal({100, 77}, 1);
  set_num_threads(threads);
  EXPECT_TRUE(same_bits(second, by_three));
}

}  // namespace
}  // namespace heed::nn
