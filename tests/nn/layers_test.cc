// Linear, embedding, norm, feed-forward and positions against the formulas in double.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "heed/error.h"
#include "heed/nn.h"
#include "oracle/gradient_check.h"

namespace heed::nn {
namespace {

using oracle::sample;

TEST(Linear, IsTheFormula) {
  Initializer init(1);
  const Linear layer(5, 3, true, init);
  layer.bias.set_data(sample({3}, 2));
  const Tensor x = sample({2, 4, 5}, 3);
  const Tensor y = layer(Value(x)).data();
  ASSERT_EQ(y.shape(), (Shape{2, 4, 3}));
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t l = 0; l < 4; ++l) {
      for (int64_t o = 0; o < 3; ++o) {
        double sum = layer.bias.data().at({o});
        for (int64_t k = 0; k < 5; ++k) sum += x.at({b, l, k}) * layer.weight.data().at({o, k});
        EXPECT_NEAR(y.at({b, l, o}), sum, 1e-6);
      }
    }
  }
  const Linear plain(5, 3, false, init);
  EXPECT_FALSE(plain.bias.defined());
  EXPECT_EQ(plain.parameter_count(), 15);
}

TEST(Embedding, ScalesAndKeepsThePaddingZero) {
  Initializer init(1);
  const Embedding layer(7, 16, 2, true, init);
  for (int64_t e = 0; e < 16; ++e) EXPECT_EQ(layer.weight.data().at({2, e}), 0);
  const std::vector<int32_t> ids = {6, 2, 0, 2, 5, 1};
  const Value y = layer(Tensor::from(std::span<const int32_t>(ids), {2, 3}));
  for (int64_t i = 0; i < 6; ++i) {
    for (int64_t e = 0; e < 16; ++e) {
      EXPECT_EQ(y.data().at({i / 3, i % 3, e}), 4 * layer.weight.data().at({ids[static_cast<size_t>(i)], e}));
    }
  }
  sum(y * y).backward();
  double used = 0;
  for (int64_t e = 0; e < 16; ++e) {
    EXPECT_EQ(layer.weight.grad().at({2, e}), 0) << "the padding is not trained";
    EXPECT_EQ(layer.weight.grad().at({3, e}), 0) << "nor what does not occur";
    used += std::abs(layer.weight.grad().at({6, e}));
  }
  EXPECT_GT(used, 0);
  EXPECT_THROW((void)layer(Tensor::from(std::span<const int32_t>(std::vector<int32_t>{7}), {1, 1})), Error);
}

TEST(Norm, IsTheFormulaOfItsKind) {
  for (const NormKind kind : {NormKind::layer_norm, NormKind::rms_norm}) {
    const Norm norm(kind, 12, 1e-3f, true);
    norm.gain.set_data(sample({12}, 4));
    if (kind == NormKind::layer_norm) norm.bias.set_data(sample({12}, 5));
    EXPECT_EQ(norm.bias.defined(), kind == NormKind::layer_norm);
    const Tensor x = sample({3, 2, 12}, 6), residual = sample({3, 2, 12}, 7);
    const Tensor y = norm(Value(x)).data(), of_sum = norm.of_sum(Value(x), Value(residual), 0.5f).data();
    for (int64_t row = 0; row < 6; ++row) {
      for (const bool with_residual : {false, true}) {
        const auto in = [&](int64_t e) {
          return x.at({row / 2, row % 2, e}) + (with_residual ? residual.at({row / 2, row % 2, e}) : 0);
        };
        double mean = 0, square = 0;
        for (int64_t e = 0; e < 12 && kind == NormKind::layer_norm; ++e) mean += in(e) / 12;
        for (int64_t e = 0; e < 12; ++e) square += (in(e)-mean) * (in(e)-mean) / 12;
        for (int64_t e = 0; e < 12; ++e) {
          double expected = (in(e)-mean) / std::sqrt(square + 1e-3) * norm.gain.data().at({e});
          if (norm.bias.defined()) expected += norm.bias.data().at({e});
          EXPECT_NEAR((with_residual ? of_sum : y).at({row / 2, row % 2, e}), expected, 2e-6);
        }
      }
    }
  }
}

TEST(FeedForward, IsTwoLayersWithAnActivationBetween) {
  Initializer init(9);
  const FeedForward layer({.width = 4, .inner = 6, .dropout = 0.3f}, init);
  std::map<std::string, Tensor> p;
  for (const auto& [name, value] : layer.named_parameters()) {
    if (name.ends_with("bias")) value.set_data(sample(value.shape(), 8));
    p[name] = value.data();
  }
  ASSERT_EQ(p.size(), 4u);
  const Tensor x = sample({1, 3, 4}, 10), y = layer(Value(x)).data();
  for (int64_t l = 0; l < 3; ++l) {
    for (int64_t o = 0; o < 4; ++o) {
      double sum = p["outer.bias"].at({o});
      for (int64_t f = 0; f < 6; ++f) {
        double inner = p["inner.bias"].at({f});
        for (int64_t k = 0; k < 4; ++k) inner += x.at({0, l, k}) * p["inner.weight"].at({f, k});
        sum += std::max(inner, 0.0) * p["outer.weight"].at({o, f});
      }
      EXPECT_NEAR(y.at({0, l, o}), sum, 1e-6);
    }
  }
}

TEST(Positions, AreThePapersFormula) {
  const Tensor table = sinusoidal_positions(60, 8, PositionLayout::interleaved);
  for (int64_t pos = 0; pos < 60; ++pos) {
    for (int64_t i = 0; i < 4; ++i) {
      const double angle = static_cast<double>(pos) / std::pow(10000.0, 2.0 * static_cast<double>(i) / 8);
      EXPECT_NEAR(table.at({pos, 2 * i}), std::sin(angle), 1e-6);
      EXPECT_NEAR(table.at({pos, 2 * i + 1}), std::cos(angle), 1e-6);
    }
  }
  // PE(1, 0) = sin 1, PE(1, 1) = cos 1.
  EXPECT_FLOAT_EQ(static_cast<float>(table.at({1, 0})), 0.84147098f);
  EXPECT_FLOAT_EQ(static_cast<float>(table.at({1, 1})), 0.54030231f);
}

TEST(Positions, HaveAHalvesLayoutThatReachesTheLongestWave) {
  const Tensor table = sinusoidal_positions(5, 32, PositionLayout::halves, 1);
  for (int64_t l = 0; l < 5; ++l) {
    for (int64_t i = 0; i < 16; ++i) {
      const double angle = static_cast<double>(l + 1) * std::exp(-std::log(10000.0) / 15 * static_cast<double>(i));
      EXPECT_NEAR(table.at({l, i}), std::sin(angle), 1e-6);
      EXPECT_NEAR(table.at({l, 16 + i}), std::cos(angle), 1e-6);
    }
  }
  EXPECT_THROW((void)sinusoidal_positions(3, 7, PositionLayout::halves), Error);
}

}  // namespace
}  // namespace heed::nn
