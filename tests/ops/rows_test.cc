// Softmax, cross entropy and the norms, forward and backward, against double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "heed/error.h"
#include "ops/arrays.h"

namespace heed {
namespace {

using oracle::Array;
using testing::array;
using testing::expect_close;
using testing::expect_same_bits;
using testing::floats;
using testing::on_every_isa;
using testing::random_tensor;

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Softmax, ForwardAndBackward) {
  on_every_isa([] {
    for (const int64_t columns : {1, 3, 15, 16, 17, 50}) {
      const Tensor x = random_tensor({4, columns}, 1, 3.0f), d = random_tensor({4, columns}, 2);
      const auto width = static_cast<size_t>(columns);
      const Tensor y = ops::softmax(x), z = ops::log_softmax(x);
      expect_close(y, oracle::softmax(array(x), width), 1e-6);
      expect_close(z, oracle::log_softmax(array(x), width), 1e-6);
      expect_close(ops::softmax_backward(d, y),
                   oracle::gradient([&](const Array& v) { return oracle::softmax(v, width); }, array(x), array(d)));
      expect_close(ops::log_softmax_backward(d, z),
                   oracle::gradient([&](const Array& v) { return oracle::log_softmax(v, width); }, array(x), array(d)));
    }
  });
}

TEST(Softmax, LargeScoresDoNotOverflow) {
  on_every_isa([] {
    for (const float large : {1e4f, 3e38f}) {
      expect_close(ops::softmax(Tensor::from({large, large, -large}, {3})), {0.5, 0.5, 0.0}, 1e-7);
      expect_close(ops::softmax(Tensor::from({-large, -large}, {2})), {0.5, 0.5}, 1e-7);
    }
  });
}

TEST(Softmax, MaskedRowsAndNaN) {
  on_every_isa([] {
    const Tensor x = Tensor::full({4, 20}, -kInf);
    x.data<float>()[20] = 1.0f;      // row 1: one element
    x.data<float>()[40 + 17] = NAN;  // row 2
    x.data<float>()[60 + 3] = kInf;  // row 3
    const std::vector<float> y = floats(ops::softmax(x));
    for (size_t j = 0; j < 20; ++j) {
      EXPECT_EQ(y[j], 0.0f);
      EXPECT_EQ(y[20 + j], j == 0 ? 1.0f : 0.0f);
      EXPECT_TRUE(std::isnan(y[40 + j]));
      EXPECT_TRUE(std::isnan(y[60 + j]));
    }
  });
}

TEST(LogSumExp, IsTheLogarithmOfTheSumOfExponentials) {
  on_every_isa([] {
    for (const int64_t columns : {1, 3, 16, 17, 64, 147}) {
      const Tensor x = random_tensor({2, 3, columns}, 1, 5.0f), sums = ops::logsumexp(x);
      EXPECT_EQ(sums.shape(), (Shape{2, 3}));
      Array expected;
      for (size_t i = 0; i < 6; ++i) {
        long double sum = 0;
        for (size_t j = 0; j < static_cast<size_t>(columns); ++j)
          sum += std::exp(static_cast<long double>(floats(x)[i * static_cast<size_t>(columns) + j]));
        expected.push_back(static_cast<double>(std::log(sum)));
      }
      expect_close(sums, expected, 1e-6);
    }
    const Tensor edges = Tensor::full({4, 20}, -kInf);
    edges.data<float>()[20] = 1e30f;     // row 0: nothing above -inf; row 1: one element
    edges.data<float>()[40 + 17] = NAN;  // row 2
    edges.data<float>()[60 + 3] = kInf;  // row 3
    const std::vector<float> y = floats(ops::logsumexp(edges));
    EXPECT_EQ(y[0], -kInf);
    EXPECT_EQ(y[1], 1e30f);
    EXPECT_TRUE(std::isnan(y[2]) && std::isnan(y[3]));
  });
  EXPECT_THROW((void)ops::logsumexp(Tensor::zeros({})), Error);
  EXPECT_THROW((void)ops::logsumexp(Tensor::zeros({2, 0})), Error);
}

TEST(CrossEntropy, ForwardAndBackward) {
  on_every_isa([] {
    for (const int64_t columns : {2, 16, 37}) {
      for (const float smoothing : {0.0f, 0.1f}) {
        for (const bool sum : {true, false}) {
          const auto width = static_cast<size_t>(columns);
          const std::vector<int32_t> wanted = {0, -7, 1, static_cast<int32_t>(columns - 1), -7};
          const Tensor logits = random_tensor({5, columns}, 1, 2.0f), targets = testing::ids(wanted, {5});
          const CrossEntropyOptions options{.ignored_id = -7, .label_smoothing = smoothing, .sum = sum};
          const ops::CrossEntropyResult result = ops::cross_entropy(logits, targets, options);
          EXPECT_EQ(result.count, 3);
          const double loss = oracle::cross_entropy(array(logits), wanted, width, -7, static_cast<double>(smoothing));
          EXPECT_NEAR(result.sum, loss, 1e-5);
          EXPECT_NEAR(result.loss(options), sum ? loss : loss / 3, 1e-5);
          EXPECT_EQ(result.losses.at({1}), 0.0);
          const Array expected = oracle::gradient(
              [&](const Array& v) {
                return Array{oracle::cross_entropy(v, wanted, width, -7, static_cast<double>(smoothing)) /
                             (sum ? 1 : 3)};
              },
              array(logits), {0.5});
          const Tensor d = ops::cross_entropy_backward(logits, targets, result, 0.5f, options);
          expect_close(d, expected, 1e-6);
          const Tensor same = logits.clone();
          ops::cross_entropy_backward_into(same, same, targets, result, 0.5f, options);
          expect_same_bits(same, d);
        }
      }
    }
  });
}

TEST(CrossEntropy, Consistency) {
  on_every_isa([] {
    for (const int64_t columns : {2, 16, 37}) {
      for (const bool sum : {true, false}) {
        const auto width = static_cast<size_t>(columns);
        const std::vector<int32_t> wanted = {0, -7, 1, 0, -7, 1};
        const Tensor logits = random_tensor({6, columns}, 1, 2.0f), targets = testing::ids(wanted, {6});
        const CrossEntropyOptions options{.ignored_id = -7, .label_smoothing = 0.1f, .sum = sum, .consistency = 3.0f};
        const ops::CrossEntropyResult result = ops::cross_entropy(logits, targets, options);
        EXPECT_EQ(result.count, 4);
        EXPECT_EQ(result.divergences.at({1}), 0.0);
        EXPECT_EQ(result.divergences.at({4}), 0.0);
        const auto loss = [&](const Array& v) {
          return oracle::cross_entropy(v, wanted, width, -7, 0.1f) + oracle::divergence(v, wanted, width, -7, 3.0);
        };
        EXPECT_NEAR(result.sum, loss(array(logits)), 3e-5);
        const Array expected =
            oracle::gradient([&](const Array& v) { return Array{loss(v) / (sum ? 1 : 4)}; }, array(logits), {0.5});
        const Tensor d = ops::cross_entropy_backward(logits, targets, result, 0.5f, options);
        expect_close(d, expected, 3e-6);
        const Tensor same = logits.clone();
        ops::cross_entropy_backward_into(same, same, targets, result, 0.5f, options);
        expect_same_bits(same, d);
      }
    }
  });
}

TEST(CrossEntropy, ConsistencyOfEqualRowsAddsNothing) {
  on_every_isa([] {
    // The second column has no probability in either row, and 0 * infinity is nothing here.
    const Tensor logits = Tensor::from({2.0f, -INFINITY, 1.0f, 2.0f, -INFINITY, 1.0f}, {2, 3});
    const Tensor targets = testing::ids({2, 2}, {2});
    const ops::CrossEntropyResult apart = ops::cross_entropy(logits, targets);
    const ops::CrossEntropyResult pair = ops::cross_entropy(logits, targets, {.consistency = 5.0f});
    EXPECT_EQ(apart.sum, pair.sum);
    expect_same_bits(ops::cross_entropy_backward(logits, targets, apart, 1.0f),
                     ops::cross_entropy_backward(logits, targets, pair, 1.0f, {.consistency = 5.0f}));
  });
}

TEST(CrossEntropy, ConsistencyWantsPairs) {
  const auto refused = [](const Shape& shape, const std::vector<int32_t>& wanted, float consistency) {
    const Tensor targets = testing::ids(wanted, {static_cast<int64_t>(wanted.size())});
    EXPECT_THROW((void)ops::cross_entropy(Tensor::zeros(shape), targets, {.consistency = consistency}), Error);
  };
  refused({3, 4}, {0, 1, 0}, 1.0f);
  refused({2, 4}, {0, 1}, 1.0f);
  refused({2, 4}, {1, 1}, -1.0f);
  refused({2, 4}, {1, 1}, NAN);
  const Tensor logits = Tensor::zeros({2, 4}), targets = testing::ids({1, 1}, {2});
  EXPECT_THROW((void)ops::cross_entropy_backward(logits, targets, ops::cross_entropy(logits, targets), 1.0f,
                                                 {.consistency = 1.0f}),
               Error);
}

TEST(CrossEntropy, HugeLogitsAndNoTargets) {
  on_every_isa([] {
    const Tensor logits = Tensor::from({1e4f, 0.0f, -1e4f, 3e38f, 0.0f, 0.0f}, {2, 3});
    const ops::CrossEntropyResult r = ops::cross_entropy(logits, testing::ids({0, 0}, {2}));
    EXPECT_EQ(r.sum, 0.0);
    EXPECT_EQ(ops::cross_entropy(logits, testing::ids({1, 9}, {2}), {.ignored_id = 9}).sum, 1e4);
    const CrossEntropyOptions options{.ignored_id = 5};
    const ops::CrossEntropyResult none = ops::cross_entropy(logits, testing::ids({5, 5}, {2}), options);
    EXPECT_EQ(none.loss(options), 0.0);
    for (const float v : floats(ops::cross_entropy_backward(logits, testing::ids({5, 5}, {2}), none, 1.0f, options))) {
      EXPECT_EQ(v, 0.0f);
    }
  });
  EXPECT_THROW((void)ops::cross_entropy(Tensor::zeros({1, 3}), testing::ids({3}, {1})), Error);
  EXPECT_THROW((void)ops::cross_entropy(Tensor::zeros({1, 3}), testing::ids({-2}, {1})), Error);
  EXPECT_THROW((void)ops::cross_entropy(Tensor::zeros({2, 3}), testing::ids({0}, {1})), Error);
}

TEST(LayerNorm, ForwardAndBackward) {
  on_every_isa([] {
    for (const int64_t columns : {2, 9, 16, 33}) {
      for (const bool with_bias : {true, false}) {
        const Tensor x = random_tensor({3, columns}, 1), gain = random_tensor({columns}, 2),
                     d = random_tensor({3, columns}, 4);
        const Tensor bias = with_bias ? random_tensor({columns}, 3) : Tensor();
        const Array x0 = array(x), g0 = array(gain), b0 = with_bias ? array(bias) : Array();
        const ops::NormResult r = ops::layer_norm(x, gain, bias, 1e-3f);
        expect_close(r.output, oracle::layer_norm(x0, g0, b0, 1e-3));
        const Tensor d_gain = Tensor::full({columns}, 1.0f), d_bias = Tensor::full({columns}, 1.0f);
        const Tensor d_x = ops::layer_norm_backward(d, r, gain, d_gain, with_bias ? d_bias : Tensor());
        expect_close(
            d_x, oracle::gradient([&](const Array& v) { return oracle::layer_norm(v, g0, b0, 1e-3); }, x0, array(d)));
        Array expected =
            oracle::gradient([&](const Array& v) { return oracle::layer_norm(x0, v, b0, 1e-3); }, g0, array(d));
        for (double& value : expected) value += 1;
        expect_close(d_gain, expected);
        if (!with_bias) continue;
        expected = oracle::gradient([&](const Array& v) { return oracle::layer_norm(x0, g0, v, 1e-3); }, b0, array(d));
        for (double& value : expected) value += 1;
        expect_close(d_bias, expected);
      }
    }
  });
}

TEST(LayerNorm, AFarMeanCostsNoAccuracy) {
  on_every_isa([] {
    const Tensor x = random_tensor({2, 100}, 1);
    const Tensor moved = ops::add(x, Tensor::full({2, 100}, 4096.0f));
    expect_close(ops::layer_norm(moved, Tensor::full({100}, 1.0f), {}).output,
                 oracle::layer_norm(array(moved), Array(100, 1.0), {}, 1e-5), 1e-3);
  });
}

TEST(RmsNorm, ForwardAndBackward) {
  on_every_isa([] {
    for (const int64_t columns : {1, 7, 32, 50}) {
      const Tensor x = random_tensor({3, columns}, 1), gain = random_tensor({columns}, 2),
                   d = random_tensor({3, columns}, 4);
      const Array x0 = array(x), g0 = array(gain);
      const ops::NormResult r = ops::rms_norm(x, gain, 1e-2f);
      expect_close(r.output, oracle::rms_norm(x0, g0, 1e-2));
      const Tensor d_gain = Tensor::zeros({columns});
      expect_close(ops::rms_norm_backward(d, r, gain, d_gain),
                   oracle::gradient([&](const Array& v) { return oracle::rms_norm(v, g0, 1e-2); }, x0, array(d)));
      expect_close(d_gain,
                   oracle::gradient([&](const Array& v) { return oracle::rms_norm(x0, v, 1e-2); }, g0, array(d)));
    }
  });
}

TEST(DropoutAddLayerNorm, IsItsThreeParts) {
  on_every_isa([] {
    for (const float rate : {0.0f, 0.3f}) {
      for (const int64_t columns : {16, 50, 64}) {
        const Tensor x = random_tensor({5, columns}, 1), residual = random_tensor({5, columns}, 2),
                     d = random_tensor({5, columns}, 3);
        const Tensor gain = random_tensor({columns}, 4), bias = random_tensor({columns}, 5);
        const ops::Dropout dropout{rate, 99};
        const ops::NormResult fused = ops::dropout_add_layer_norm(x, residual, dropout, gain, bias);
        const Tensor sum = ops::dropout_add(x, residual, dropout);
        const ops::NormResult plain = ops::layer_norm(sum, gain, bias);
        expect_same_bits(fused.input, sum);
        expect_same_bits(fused.output, plain.output);
        const Tensor g1 = Tensor::zeros({columns}), b1 = Tensor::zeros({columns}), g2 = Tensor::zeros({columns}),
                     b2 = Tensor::zeros({columns});
        const ops::DropoutAddGradients g = ops::dropout_add_layer_norm_backward(d, fused, dropout, gain, g1, b1);
        const Tensor d_sum = ops::layer_norm_backward(d, plain, gain, g2, b2);
        expect_same_bits(g.residual, d_sum);
        expect_same_bits(g.x, ops::dropout_backward(d_sum, dropout));
        expect_same_bits(g1, g2);
        expect_same_bits(b1, b2);
      }
    }
  });
}

TEST(Rows, SameBitsEverywhere) {
  testing::expect_same_bits_everywhere([] {
    const Tensor x = random_tensor({150, 77}, 1, 4.0f), d = random_tensor({150, 77}, 2), gain = random_tensor({77}, 3);
    std::vector<int32_t> wanted(150);
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = static_cast<int32_t>(i % 77);
    const Tensor targets = testing::ids(wanted, {150});
    const ops::Dropout dropout{0.1f, 5};
    const Tensor y = ops::softmax(x), z = ops::log_softmax(x);
    const ops::NormResult norm = ops::dropout_add_layer_norm(x, d, dropout, gain, gain), rms = ops::rms_norm(x, gain);
    const CrossEntropyOptions options{.label_smoothing = 0.1f};
    const ops::CrossEntropyResult loss = ops::cross_entropy(x, targets, options);
    const Tensor d_gain = Tensor::zeros({77}), d_bias = Tensor::zeros({77});
    const ops::DropoutAddGradients g = ops::dropout_add_layer_norm_backward(d, norm, dropout, gain, d_gain, d_bias);
    std::vector<float> all;
    for (const Tensor& tensor :
         {y, z, ops::softmax_backward(d, y), ops::log_softmax_backward(d, z), norm.output, norm.mean, norm.rstd,
          rms.output, ops::rms_norm_backward(d, rms, gain, d_gain), g.x, g.residual, d_gain, d_bias, loss.losses,
          loss.logsumexp, ops::cross_entropy_backward(x, targets, loss, 1.0f, options)}) {
      const std::vector<float> values = floats(tensor);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  });
}

TEST(Rows, ARowHasTheSameBitsAloneAndInABatch) {
  const Tensor x = random_tensor({9, 45}, 1), gain = random_tensor({45}, 2);
  for (const int64_t i : {0, 4, 8}) {
    expect_same_bits(ops::softmax(x.slice(0, i, i + 1)), ops::softmax(x).slice(0, i, i + 1));
    expect_same_bits(ops::layer_norm(x.slice(0, i, i + 1), gain, gain).output,
                     ops::layer_norm(x, gain, gain).output.slice(0, i, i + 1));
  }
}

}  // namespace
}  // namespace heed
