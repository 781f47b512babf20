// The sampling distribution against numbers worked out by hand, and the choice from it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/philox.h"
#include "heed/error.h"
#include "heed/generate.h"

namespace heed::generate {
namespace {

std::vector<float> logs(std::initializer_list<double> p) {
  std::vector<float> x;
  for (const double v : p) x.push_back(static_cast<float>(std::log(v)));
  return x;
}

void expect_distribution(const std::vector<double>& got, std::initializer_list<double> want) {
  ASSERT_EQ(got.size(), want.size());
  size_t i = 0;
  for (const double w : want) {
    EXPECT_NEAR(got[i], w, 1e-6) << "id " << i;
    if (w == 0) {
      EXPECT_EQ(got[i], 0.0);
    }
    ++i;
  }
}

TEST(Sampling, PlainIsTheSoftmax) {
  expect_distribution(sampling_distribution(logs({0.1, 0.4, 0.3, 0.2}), {}), {0.1, 0.4, 0.3, 0.2});
}

TEST(Sampling, Temperature) {
  // Squares of 1 2 3 4 (temperature 1/2): 1 4 9 16 of 30. Square roots of 1 4 9 16 (temperature 2): 1 2 3 4 of 10.
  expect_distribution(sampling_distribution(logs({0.1, 0.2, 0.3, 0.4}), {.temperature = 0.5}),
                      {1.0 / 30, 4.0 / 30, 9.0 / 30, 16.0 / 30});
  expect_distribution(sampling_distribution(logs({1, 4, 9, 16}), {.temperature = 2}), {0.1, 0.2, 0.3, 0.4});
  expect_distribution(sampling_distribution(logs({0.4, 0.1, 0.4, 0.1}), {.temperature = 0}), {1, 0, 0, 0});
}

TEST(Sampling, TopK) {
  expect_distribution(sampling_distribution(logs({0.1, 0.4, 0.3, 0.2}), {.top_k = 2}), {0, 4.0 / 7, 3.0 / 7, 0});
  expect_distribution(sampling_distribution(logs({0.25, 0.25, 0.25, 0.25}), {.top_k = 2}), {0.5, 0.5, 0, 0});
  expect_distribution(sampling_distribution(logs({0.5, 0.5}), {.top_k = 9}), {0.5, 0.5});
}

TEST(Sampling, TopP) {
  expect_distribution(sampling_distribution(logs({0.1, 0.4, 0.3, 0.2}), {.top_p = 0.65}), {0, 4.0 / 7, 3.0 / 7, 0});
  expect_distribution(sampling_distribution(logs({0.1, 0.4, 0.3, 0.2}), {.top_p = 0.75}),
                      {0, 4.0 / 9, 3.0 / 9, 2.0 / 9});
  expect_distribution(sampling_distribution(logs({0.1, 0.4, 0.3, 0.2}), {.top_p = 1e-9}), {0, 1, 0, 0});
  // After top-k the probabilities are renormalised: 4/9 + 3/9 reach 0.75, so the third is not needed.
  expect_distribution(sampling_distribution(logs({0.1, 0.4, 0.3, 0.2}), {.top_k = 3, .top_p = 0.75}),
                      {0, 4.0 / 7, 3.0 / 7, 0});
}

TEST(Sampling, MinP) {
  expect_distribution(sampling_distribution(logs({0.1, 0.4, 0.3, 0.2}), {.min_p = 0.6}), {0, 4.0 / 7, 3.0 / 7, 0});
  expect_distribution(sampling_distribution(logs({0.1, 0.4, 0.3, 0.2}), {.min_p = 1}), {0, 1, 0, 0});
}

TEST(Sampling, MinusInfinityIsNeverChosen) {
  std::vector<float> x = logs({0.1, 0.4, 0.3, 0.2});
  x[1] = -std::numeric_limits<float>::infinity();
  expect_distribution(sampling_distribution(x, {}), {1.0 / 6, 0, 3.0 / 6, 2.0 / 6});
}

TEST(Sampling, RefusesWhatCannotBeMeant) {
  const std::vector<float> x = logs({0.5, 0.5});
  EXPECT_THROW((void)sampling_distribution(x, {.temperature = -1}), Error);
  EXPECT_THROW((void)sampling_distribution(x, {.temperature = std::nan("")}), Error);
  EXPECT_THROW((void)sampling_distribution(x, {.top_k = -1}), Error);
  EXPECT_THROW((void)sampling_distribution(x, {.top_p = 0}), Error);
  EXPECT_THROW((void)sampling_distribution(x, {.top_p = 1.5}), Error);
  EXPECT_THROW((void)sampling_distribution(x, {.min_p = 2}), Error);
  EXPECT_THROW((void)sampling_distribution({}, {}), Error);
  EXPECT_THROW((void)sampling_distribution(std::vector<float>{0, std::nanf("")}, {}), Error);
}

TEST(Sampling, SampleWalksTheCumulativeSum) {
  const std::vector<double> p = {0, 0.25, 0, 0.5, 0.25};
  EXPECT_EQ(sample(p, 0.0), 1);
  EXPECT_EQ(sample(p, 0.2499), 1);
  EXPECT_EQ(sample(p, 0.25), 3);
  EXPECT_EQ(sample(p, 0.7499), 3);
  EXPECT_EQ(sample(p, 0.75), 4);
  EXPECT_EQ(sample(p, 0.99999), 4);
  EXPECT_EQ(sample(std::vector<double>{0.5, 0.49, 0}, 0.995), 1);  // rounding never reaches an excluded id
  EXPECT_THROW((void)sample(std::vector<double>{0, 0}, 0.5), Error);
}

TEST(Sampling, FrequenciesAreTheProbabilities) {
  const std::vector<double> p = {0.05, 0.15, 0.3, 0.5};
  constexpr int kDraws = 40000;
  int counts[4] = {};
  for (uint64_t n = 0; n < kDraws; ++n) {
    const auto words = philox(11, 0, n);
    ++counts[sample(p, uniform_double(words[0], words[1]))];
  }
  double chi = 0;
  for (size_t i = 0; i < 4; ++i) chi += std::pow(counts[i] - kDraws * p[i], 2) / (kDraws * p[i]);
  EXPECT_LT(chi, 16.3);  // 3 degrees of freedom, 0.1 %
}

}  // namespace
}  // namespace heed::generate
