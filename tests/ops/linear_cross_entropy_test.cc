// The cross entropy of a linear layer, some rows at a time, against its two halves (to the bit) and double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "base/message.h"
#include "heed/error.h"
#include "ops/arrays.h"

namespace heed {
namespace {

using testing::array;
using testing::expect_close;
using testing::expect_same_bits;
using testing::on_every_isa;
using testing::random_tensor;

struct Inputs {
  Tensor x, weight, bias, targets;
};

Inputs inputs(int64_t rows, int64_t columns, int64_t width, bool ignoring) {
  std::vector<int32_t> wanted(static_cast<size_t>(rows));
  for (size_t i = 0; i < wanted.size(); ++i) {
    wanted[i] = ignoring && i % 3 == 0 ? -1 : static_cast<int32_t>(i * 7919 % static_cast<size_t>(columns));
  }
  return {random_tensor({rows, width}, 1), random_tensor({columns, width}, 2), random_tensor({columns}, 3),
          testing::ids(wanted, {rows})};
}

constexpr ops::LinearCrossEntropyOptions everything(const CrossEntropyOptions& loss) {
  return {.loss = loss, .want_input = true, .want_weight = true, .want_bias = true};
}

// The function against linear and cross_entropy one after the other.
void expect_same_as_its_halves(const Inputs& in, const CrossEntropyOptions& options) {
  const ops::LinearCrossEntropyResult r =
      ops::linear_cross_entropy(in.x, in.weight, in.bias, in.targets, everything(options));
  const Tensor logits = ops::linear(in.x, in.weight, in.bias).output;
  const ops::CrossEntropyResult forward = ops::cross_entropy(logits, in.targets, options);
  EXPECT_EQ(r.loss, forward.loss(options));
  const Tensor d_logits = ops::cross_entropy_backward(logits, in.targets, forward, 1.0f, options);
  const Tensor d_weight = Tensor::zeros(in.weight.shape()), d_bias = Tensor::zeros(in.bias.shape());
  const Tensor d_x =
      ops::linear_backward(d_logits, in.x, in.weight, {.d_weight = d_weight, .d_bias = d_bias, .want_input = true});
  expect_same_bits(r.d_x, d_x);
  expect_close(r.d_weight, array(d_weight));
  expect_close(r.d_bias, array(d_bias));
}

TEST(LinearCrossEntropy, HasTheBitsOfItsTwoHalves) {
  struct Size {
    int64_t rows, columns, width;
  };
  for (const Size size : {Size{1, 3, 2}, Size{70, 65, 24}, Size{450, 30000, 8}}) {
    for (const bool ignoring : {false, true}) {
      for (const bool sum : {false, true}) {
        expect_same_as_its_halves(inputs(size.rows, size.columns, size.width, ignoring),
                                  {.label_smoothing = 0.1f, .sum = sum});
      }
    }
  }
}

TEST(LinearCrossEntropy, PairsOfRowsStayTogether) {
  for (const int64_t half : {1, 35, 225}) {
    Inputs in = inputs(2 * half, half < 100 ? 65 : 30000, 8, half > 1);
    std::copy_n(in.targets.data<int32_t>(), half, in.targets.data<int32_t>() + half);
    for (const bool sum : {false, true}) {
      expect_same_as_its_halves(in, {.label_smoothing = 0.1f, .sum = sum, .consistency = 2.0f});
    }
  }
}

TEST(LinearCrossEntropy, GradientsAgainstDoublePrecision) {
  on_every_isa([] {
    const Inputs in = inputs(7, 9, 5, true);
    const std::vector<int32_t> wanted(in.targets.data<int32_t>(), in.targets.data<int32_t>() + 7);
    const CrossEntropyOptions options{.label_smoothing = 0.2f};
    const auto loss = [&](const oracle::Array& x, const oracle::Array& w, const oracle::Array& b) {
      oracle::Array logits(63);
      for (size_t i = 0; i < 7; ++i) {
        for (size_t v = 0; v < 9; ++v) {
          logits[i * 9 + v] = b[v];
          for (size_t e = 0; e < 5; ++e) logits[i * 9 + v] += x[i * 5 + e] * w[v * 5 + e];
        }
      }
      return oracle::Array{oracle::cross_entropy(logits, wanted, 9, -1, 0.2f) / 4};  // rows 0, 3 and 6 are ignored
    };
    const oracle::Array x = array(in.x), w = array(in.weight), b = array(in.bias);
    const ops::LinearCrossEntropyResult r =
        ops::linear_cross_entropy(in.x, in.weight, in.bias, in.targets, everything(options));
    EXPECT_NEAR(r.loss, loss(x, w, b)[0], 1e-6);
    expect_close(r.d_x, oracle::gradient([&](const oracle::Array& v) { return loss(v, w, b); }, x, {1.0}), 1e-6);
    expect_close(r.d_weight, oracle::gradient([&](const oracle::Array& v) { return loss(x, v, b); }, w, {1.0}), 1e-6);
    expect_close(r.d_bias, oracle::gradient([&](const oracle::Array& v) { return loss(x, w, v); }, b, {1.0}), 1e-6);
  });
}

TEST(LinearCrossEntropy, SameBitsEverywhere) {
  testing::expect_same_bits_everywhere([] {
    const Inputs in = inputs(400, 30000, 4, true);
    const ops::LinearCrossEntropyResult r =
        ops::linear_cross_entropy(in.x, in.weight, in.bias, in.targets, everything({.label_smoothing = 0.1f}));
    std::vector<float> all = {static_cast<float>(r.loss)};
    for (const Tensor& tensor : {r.d_x, r.d_weight, r.d_bias}) {
      const std::vector<float> values = testing::floats(tensor);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  });
}

TEST(LinearCrossEntropy, NoTargetAtAll) {
  const Inputs in = inputs(4, 5, 3, false);
  const Tensor none = testing::ids({9, 9, 9, 9}, {4});
  const ops::LinearCrossEntropyResult r =
      ops::linear_cross_entropy(in.x, in.weight, {}, none, everything({.ignored_id = 9}));
  EXPECT_EQ(r.loss, 0.0);
  for (const Tensor& gradient : {r.d_x, r.d_weight, r.d_bias}) {
    for (const float v : testing::floats(gradient)) EXPECT_EQ(v, 0.0f);
  }
  const ops::LinearCrossEntropyResult plain = ops::linear_cross_entropy(in.x, in.weight, in.bias, in.targets);
  EXPECT_GT(plain.loss, 0.0);
  EXPECT_FALSE(plain.d_x.defined() || plain.d_weight.defined() || plain.d_bias.defined());
}

TEST(LinearCrossEntropy, WrongArguments) {
  const Inputs in = inputs(4, 5, 3, false);
  const auto refused = [](const std::function<void()>& call) {
    return testing::message_of(call).starts_with("[linear_cross_entropy]");
  };
  using ops::linear_cross_entropy;
  EXPECT_TRUE(refused([&] { (void)linear_cross_entropy(in.x, Tensor::zeros({5, 4}), {}, in.targets); }));
  EXPECT_TRUE(refused([&] { (void)linear_cross_entropy(in.x, Tensor::zeros({5, 3, 1}), {}, in.targets); }));
  EXPECT_TRUE(refused([&] { (void)linear_cross_entropy(in.x, in.weight, Tensor::zeros({4}), in.targets); }));
  EXPECT_TRUE(refused([&] { (void)linear_cross_entropy(in.x, in.weight, {}, testing::ids({0, 1, 2}, {3})); }));
  EXPECT_TRUE(refused([&] { (void)linear_cross_entropy(in.x, in.weight, {}, testing::ids({0, 1, 2, 5}, {4})); }));
  EXPECT_TRUE(refused([&] { (void)linear_cross_entropy(in.x, in.weight, {}, Tensor::zeros({4})); }));
  EXPECT_TRUE(refused(
      [&] { (void)linear_cross_entropy(in.x, in.weight, {}, in.targets, {.loss = {.label_smoothing = 1.0f}}); }));
}

}  // namespace
}  // namespace heed
