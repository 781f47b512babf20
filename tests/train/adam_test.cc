// Adam against the formula in double precision.
#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"
#include "heed/error.h"
#include "heed/train.h"

namespace heed::train {
namespace {

double number(uint64_t stream, uint64_t i) { return 2.0 * uniform_double(philox(9, stream, i)[0], 0) - 1.0; }

// Kingma and Ba 2015, algorithm 1; decay as Loshchilov and Hutter 2019, algorithm 2.
struct Oracle {
  double weight, first = 0, second = 0;
  void step(double gradient, double rate, double beta1, double beta2, double epsilon, double decay, int t) {
    weight -= rate * decay * weight;
    first = beta1 * first + (1 - beta1) * gradient;
    second = beta2 * second + (1 - beta2) * gradient * gradient;
    weight -= rate * (first / (1 - std::pow(beta1, t))) / (std::sqrt(second / (1 - std::pow(beta2, t))) + epsilon);
  }
};

TEST(Adam, MatchesTheFormula) {
  constexpr int64_t kRows = 7, kColumns = 9;
  const Value matrix(Tensor::empty({kRows, kColumns}), true), gain(Tensor::empty({kColumns}), true);
  std::vector<Oracle> expected;
  const auto fill = [&](const Value& value, uint64_t stream) {
    for (int64_t i = 0; i < value.data().numel(); ++i) {
      value.data().data<float>()[i] = static_cast<float>(number(stream, static_cast<uint64_t>(i)));
      expected.push_back({.weight = static_cast<double>(value.data().data<float>()[i])});
    }
  };
  fill(matrix, 1);
  fill(gain, 2);
  const AdamOptions options{.beta1 = 0.9f, .beta2 = 0.98f, .epsilon = 1e-6f, .weight_decay = 0.1f};
  Adam adam({{"matrix", matrix}, {"gain", gain}}, options);
  for (int t = 1; t <= 20; ++t) {
    double squares = 0;
    size_t place = 0;
    for (const Value& value : {matrix, gain}) {
      Tensor gradient = Tensor::empty(value.shape());
      const double decay = value.shape().rank() >= 2 ? 0.1f : 0.0f;  // gains are not decayed
      for (int64_t i = 0; i < gradient.numel(); ++i, ++place) {
        const auto g = static_cast<float>(number(static_cast<uint64_t>(10 + t), place));
        gradient.data<float>()[i] = g;
        squares += static_cast<double>(g) * static_cast<double>(g);
        expected[place].step(0.5 * static_cast<double>(g), static_cast<double>(1e-2f), static_cast<double>(0.9f),
                             static_cast<double>(0.98f), static_cast<double>(1e-6f), decay, t);
      }
      value.set_grad(gradient);
    }
    EXPECT_NEAR(adam.gradient_norm(), std::sqrt(squares), 1e-12);
    adam.step(1e-2f, 0.5f);
  }
  EXPECT_EQ(adam.steps(), 20);
  size_t place = 0;
  for (const Value& value : {matrix, gain}) {
    for (int64_t i = 0; i < value.data().numel(); ++i, ++place) {
      EXPECT_NEAR(static_cast<double>(value.data().data<float>()[i]), expected[place].weight, 2e-6);
      EXPECT_EQ(value.grad().data<float>()[i], 0.0f);
    }
  }
}

TEST(Adam, LeavesAParameterWithoutGradientAlone) {
  const Value used(Tensor::full({2}, 1.0f), true), unused(Tensor::full({2, 2}, 1.0f), true);
  Adam adam({{"used", used}, {"unused", unused}}, {.weight_decay = 0.5f});
  used.set_grad(Tensor::full({2}, 1.0f));
  adam.step(0.1f);
  EXPECT_LT(used.data().at({0}), 1.0);
  EXPECT_EQ(unused.data().at({0, 0}), 1.0);
}

TEST(Adam, ContinuesFromItsState) {
  const auto run = [](bool interrupted) {
    const Value w(Tensor::full({5}, 0.3f), true);
    auto adam = std::make_unique<Adam>(std::vector<std::pair<std::string, Value>>{{"w", w}}, AdamOptions{});
    for (int t = 0; t < 6; ++t) {
      if (interrupted && t == 3) {
        std::vector<std::pair<std::string, Tensor>> saved;
        for (const auto& [name, tensor] : adam->state()) saved.emplace_back(name, tensor.clone());
        const int64_t steps = adam->steps();
        adam = std::make_unique<Adam>(std::vector<std::pair<std::string, Value>>{{"w", w}}, AdamOptions{});
        adam->restore(saved, steps);
      }
      w.set_grad(Tensor::full({5}, 0.1f * static_cast<float>(t + 1)));
      adam->step(0.01f);
    }
    return w.data().at({4});
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(Adam, RefusesTheStateOfAnotherModel) {
  const Value w(Tensor::full({5}, 0.3f), true);
  Adam adam({{"w", w}}, {});
  EXPECT_THROW(adam.restore({}, 1), Error);
  EXPECT_THROW(adam.restore({{"first.w", Tensor::zeros({4})}, {"second.w", Tensor::zeros({5})}}, 1), Error);
}

}  // namespace
}  // namespace heed::train
