// log-sum-exp against the plain formula.
#include "generate/rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "heed/error.h"

namespace heed::generate {
namespace {

TEST(Rows, LogSumExpIsAccurate) {
  std::mt19937 random(3);
  for (const size_t size : {1u, 2u, 7u, 8u, 9u, 127u, 128u, 129u, 1000u, 8000u}) {
    for (const float scale : {0.01f, 1.0f, 10.0f, 200.0f}) {
      std::normal_distribution<float> normal(0, scale);
      std::vector<float> x(size);
      for (float& v : x) v = normal(random);
      double top = -1e300, sum = 0;
      for (const float v : x) top = std::max(top, static_cast<double>(v));
      for (const float v : x) sum += std::exp(static_cast<double>(v) - top);
      const double want = top + std::log(sum);
      const Tensor row = Tensor::wrap(x.data(), {1, static_cast<int64_t>(size)});
      EXPECT_NEAR(static_cast<double>(finite_logsumexp(row, "test")[0]), want, 1e-6 + 2e-7 * std::abs(want))
          << size << " " << scale;
    }
  }
}

TEST(Rows, LogSumExpTakesMinusInfinityAndRefusesTheRest) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_NEAR(finite_logsumexp(Tensor::from({-inf, 0.5f, -inf}, {1, 3}), "test")[0], 0.5f, 1e-6f);
  for (const int64_t at : {0, 9}) {
    const Tensor x = Tensor::zeros({2, 10});
    x.data<float>()[10 + at] = std::nanf("");
    EXPECT_THROW((void)finite_logsumexp(x, "test"), Error);
    x.data<float>()[10 + at] = inf;
    EXPECT_THROW((void)finite_logsumexp(x, "test"), Error);
  }
  EXPECT_THROW((void)finite_logsumexp(Tensor::full({1, 10}, -inf), "test"), Error);
}

}  // namespace
}  // namespace heed::generate
