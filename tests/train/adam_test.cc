// Adam against the formula in double precision, and Adam that ranks share against Adam of one process.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "base/philox.h"
#include "heed/distributed.h"
#include "heed/error.h"
#include "heed/train.h"
#include "train/sharded_adam.h"

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

// Matrices, gains and a bias; large enough that ranks own parts of one parameter.
NamedParameters some_parameters() {
  NamedParameters parameters;
  for (const auto& [name, shape] : {std::pair{"a", Shape{130, 150}},
                                    {"gain", Shape{150}},
                                    {"b", Shape{90, 121}},
                                    {"bias", Shape{121}},
                                    {"c", Shape{7, 9}}}) {
    const Tensor data = Tensor::empty(shape);
    for (int64_t i = 0; i < data.numel(); ++i)
      data.data<float>()[i] = static_cast<float>(number(20 + parameters.size(), static_cast<uint64_t>(i)));
    parameters.emplace_back(name, Value(data, true));
  }
  return parameters;
}

Tensor some_gradient(const Shape& shape, size_t parameter, int step) {
  const Tensor gradient = Tensor::empty(shape);
  const uint64_t stream = 100 * static_cast<uint64_t>(step) + parameter;
  for (int64_t i = 0; i < gradient.numel(); ++i)
    gradient.data<float>()[i] = static_cast<float>(number(stream, static_cast<uint64_t>(i)));
  return gradient;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.nbytes())) == 0;
}

TEST(ShardedAdam, HasTheBitsOfAdam) {
  constexpr int kSteps = 5;
  const AdamOptions options{.beta1 = 0.8f, .beta2 = 0.95f, .epsilon = 1e-6f, .weight_decay = 0.1f};
  const NamedParameters expected = some_parameters();
  Adam adam(expected, options);
  for (int t = 1; t <= kSteps; ++t) {
    for (size_t i = 0; i < expected.size(); ++i)
      expected[i].second.set_grad(some_gradient(expected[i].second.shape(), i, t));
    adam.step(1e-2f, 0.5f);
  }
  const auto state = adam.state();
  for (const int count : {1, 2, 3}) {
    distributed::run_in_process(count, [&](distributed::Communicator& ranks) {
      const NamedParameters parameters = some_parameters();
      const FlatParameters flat(parameters);
      const Parts parts(flat, ranks.size());
      ShardedAdam sharded(ranks, flat, parts, options);
      for (int t = 1; t <= kSteps; ++t) {
        const OwnNumbers gradient{.numbers = Tensor::zeros({flat.size()}), .whole_row = true};
        for (size_t i = 0; i < parameters.size(); ++i)
          flat.view(gradient.numbers, i).copy_from(some_gradient(parameters[i].second.shape(), i, t));
        sharded.step(gradient, 1e-2f, 0.5f);
      }
      EXPECT_EQ(sharded.steps(), kSteps);
      for (size_t i = 0; i < parameters.size(); ++i)
        EXPECT_TRUE(same_bits(flat.view(flat.weights(), i), expected[i].second.data())) << parameters[i].first;
      ShardedAdam restored(ranks, flat, parts, options);
      restored.restore(state, kSteps);
      EXPECT_EQ(restored.steps(), kSteps);
      for (const ShardedAdam* const each : {&sharded, &restored}) {
        const auto gathered = each->gather_state();
        ASSERT_EQ(gathered.size(), ranks.rank() == 0 ? state.size() : 0);
        const std::map<std::string, Tensor> found(gathered.begin(), gathered.end());
        if (ranks.rank() != 0) continue;
        for (const auto& [name, moment] : state) EXPECT_TRUE(same_bits(found.at(name), moment)) << name;
      }
    });
  }
}

}  // namespace
}  // namespace heed::train
