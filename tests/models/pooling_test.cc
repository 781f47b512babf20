// The poolings of states, and their gradients, against plain loops and differences.
#include "models/pooling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace heed::models::test {
namespace {

constexpr int64_t kSequences = 4, kLongest = 5, kWidth = 3;
constexpr int32_t kLengths[kSequences] = {5, 3, 2, 0};

// One number of a pooling, in double precision. `column`: of the states (kLongest, kWidth) of one text.
double plain_pooling(TokenPooling pooling, const float* column, int64_t begin, int64_t end) {
  double sum = 0, weights = 0, largest = -INFINITY;
  for (int64_t l = begin; l < end; ++l) {
    const double x = static_cast<double>(column[l * kWidth]);
    const double weight = pooling == TokenPooling::weighted_mean ? static_cast<double>(l + 1) : 1;
    sum += weight * x;
    weights += weight;
    largest = std::max(largest, x);
  }
  if (begin >= end) return 0;
  switch (pooling) {
    case TokenPooling::first: return static_cast<double>(column[begin * kWidth]);
    case TokenPooling::last: return static_cast<double>(column[(end - 1) * kWidth]);
    case TokenPooling::largest: return largest;
    case TokenPooling::mean_by_root: return sum / std::sqrt(weights);
    default: return sum / weights;
  }
}

// The sum of all poolings, each times its factor: a number whose gradient is asked for.
double plain_sum(const std::vector<TokenPooling>& poolings, int64_t skipped, const Tensor& states,
                 const Tensor& factors) {
  double sum = 0;
  for (int64_t b = 0; b < kSequences; ++b) {
    for (int64_t p = 0; p < std::ssize(poolings); ++p) {
      for (int64_t e = 0; e < kWidth; ++e) {
        const float* const column = states.data<float>() + b * kLongest * kWidth + e;
        sum += static_cast<double>(factors.at({b, p * kWidth + e})) *
               plain_pooling(poolings[static_cast<size_t>(p)], column, skipped, kLengths[b]);
      }
    }
  }
  return sum;
}

Tensor random_numbers(const Shape& shape, std::mt19937& random) {
  const Tensor result = Tensor::empty(shape);
  std::uniform_real_distribution<float> number(-1, 1);
  for (int64_t i = 0; i < result.numel(); ++i) result.data<float>()[i] = number(random);
  return result;
}

TEST(Pooling, AndItsGradientsMatchPlainLoops) {
  const std::vector<std::vector<TokenPooling>> all = {{TokenPooling::first},
                                                      {TokenPooling::last},
                                                      {TokenPooling::largest},
                                                      {TokenPooling::mean},
                                                      {TokenPooling::mean_by_root},
                                                      {TokenPooling::weighted_mean},
                                                      {TokenPooling::largest, TokenPooling::weighted_mean}};
  std::mt19937 random(3);
  const Tensor lengths = Tensor::from(std::span<const int32_t>(kLengths), {kSequences});
  for (const auto& poolings : all) {
    for (const int64_t skipped : {0, 1, 2}) {
      SCOPED_TRACE("pooling " + std::to_string(static_cast<int>(poolings[0])) + ", skipped " + std::to_string(skipped));
      const Tensor states = random_numbers({kSequences, kLongest, kWidth}, random);
      const Tensor factors = random_numbers({kSequences, kWidth * std::ssize(poolings)}, random);
      const Value x(states.clone(), true);
      const Value all_numbers = sum(pooled_states(x, lengths, poolings, skipped) * Value(factors));
      EXPECT_NEAR(static_cast<double>(all_numbers.data().at({})), plain_sum(poolings, skipped, states, factors), 1e-5);
      all_numbers.backward();
      const Tensor gradient = x.grad();
      constexpr float kStep = 1.0f / 1024;  // in which no state overtakes another, with this seed
      for (int64_t i = 0; i < states.numel(); ++i) {
        float& number = states.data<float>()[i];
        const float before = number;
        const auto at = [&](float value) {
          number = value;
          return plain_sum(poolings, skipped, states, factors);
        };
        const float above = before + kStep, below = before - kStep;
        const double slope = (at(above) - at(below)) / static_cast<double>(above - below);
        number = before;
        EXPECT_NEAR(static_cast<double>(gradient.data<float>()[i]), slope, 1e-4) << "number " << i;
      }
    }
  }
}

}  // namespace
}  // namespace heed::models::test
