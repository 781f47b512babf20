// Self-attention of sequences without padding, by distance and with rotary positions: what each sequence has alone, and
// gradients against differences.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "heed/nn.h"

namespace heed::nn::test {
namespace {

constexpr int64_t kWidth = 12, kHeads = 3, kReach = 4;

MultiHeadAttentionOptions options_with(bool rotary, int64_t window) {
  MultiHeadAttentionOptions options{.width = kWidth, .heads = kHeads, .window = window};
  if (rotary) options.rotary = ops::rotary_tables(32, kWidth / kHeads);
  return options;
}

Value numbers(Initializer& init, const Shape& shape) { return Value(init.normal(shape, 1.0f), true); }

Tensor ints(std::vector<int32_t> values, const Shape& shape) {
  return Tensor::from(std::span<const int32_t>(values), shape);
}

double weighted_sum(const Tensor& x) {
  double sum = 0;
  const Tensor flat = x.contiguous();
  for (int64_t i = 0; i < flat.numel(); ++i)
    sum += std::sin(0.7 * static_cast<double>(i)) * static_cast<double>(flat.data<float>()[i]);
  return sum;
}

// The gradient of weighted_sum().
Value with_weights(const Value& x) {
  const Tensor weights = Tensor::empty(x.shape());
  for (int64_t i = 0; i < weights.numel(); ++i)
    weights.data<float>()[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i)));
  return sum(x * Value(weights));
}

TEST(Places, SequencesWithoutPaddingHaveTheBitsThatTheyHaveAlone) {
  for (const bool rotary : {false, true}) {
    for (const int64_t window : {int64_t{-1}, int64_t{1}}) {
      Initializer init(3);
      const MultiHeadAttention layer(options_with(rotary, window), init);
      const Value bias = numbers(init, {kHeads, 2 * kReach + 1});
      const Value x = numbers(init, {1, 9, kWidth});
      const NoGradScope no_grad;
      const Places places{.starts = ints({0, 5, 5, 9}, {4}),
                          .positions = ints({0, 1, 2, 3, 4, 0, 1, 2, 3}, {1, 9}),
                          .distance_bias = bias};
      const Tensor together = layer.self(x, {}, places).data().contiguous();
      for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 5}, {5, 9}}) {
        const Tensor alone = layer.self(slice(x, 1, begin, end), {}, {.distance_bias = bias}).data().contiguous();
        const Tensor part = together.slice(1, begin, end).contiguous();
        EXPECT_EQ(std::memcmp(alone.raw(), part.raw(), static_cast<size_t>(part.nbytes())), 0) << rotary << window;
      }
    }
  }
}

TEST(Places, GradientsAreThoseOfDifferences) {
  for (const bool sequences : {false, true}) {
    Initializer init(4);
    const MultiHeadAttention layer(options_with(true, 3), init);
    const Value bias = numbers(init, {kHeads, 2 * kReach + 1}), x = numbers(init, {1, 7, kWidth});
    const auto places = [&](const Value& table) {
      Places result{.distance_bias = table};
      if (sequences) result.starts = ints({0, 4, 7}, {3}), result.positions = ints({0, 1, 2, 3, 0, 1, 2}, {1, 7});
      return result;
    };
    with_weights(layer.self(x, {}, places(bias))).backward();
    for (const Value* const input : {&bias, &x}) {
      const Tensor gradient = input->grad().contiguous();
      double largest = 0;
      for (int64_t i = 0; i < gradient.numel(); ++i) {
        const auto at = [&](float step) {
          const NoGradScope no_grad;
          const Tensor moved = input->data().clone();
          moved.data<float>()[i] += step;
          const Value other(moved);
          return weighted_sum(layer.self(input == &x ? other : x, {}, places(input == &bias ? other : bias)).data());
        };
        const double difference = (at(0.01f) - at(-0.01f)) / 0.02;
        EXPECT_NEAR(static_cast<double>(gradient.data<float>()[i]), difference, 5e-3) << sequences << " element " << i;
        largest = std::max(largest, std::abs(difference));
      }
      EXPECT_GT(largest, 0.05);
    }
  }
}

TEST(Places, ACacheTurnsByThePositionsThatTheRowsHave) {
  Initializer init(5);
  const MultiHeadAttention layer(options_with(true, -1), init);
  const Value bias = numbers(init, {kHeads, 2 * kReach + 1}), x = numbers(init, {2, 6, kWidth});
  const NoGradScope no_grad;
  const Tensor whole = layer.self(x, {.causal = Causal::top_left()}, {.distance_bias = bias}).data().contiguous();
  KeyValueCache cache = layer.start(2);
  for (int64_t t = 0; t < 6; ++t) {
    const Tensor step = layer.self(slice(x, 1, t, t + 1), cache, bias).data().contiguous();
    const Tensor expected = whole.slice(1, t, t + 1).contiguous();
    for (int64_t i = 0; i < step.numel(); ++i) EXPECT_NEAR(step.data<float>()[i], expected.data<float>()[i], 1e-5f);
  }
}

}  // namespace
}  // namespace heed::nn::test
