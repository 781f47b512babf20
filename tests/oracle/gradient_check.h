// Checks backward() against finite differences, for any function of values.
//
// The function's output is projected on random numbers R, in double: loss = sum(output * R). Each input element x is
// moved by multiples of h, exactly (inputs from sample() have 10 binary digits), and the four-point stencil
//   (8 (f(x+h) - f(x-h)) - (f(x+2h) - f(x-2h))) / 12h
// is compared with the gradient. What may differ, and no more:
//   the stencil's own error: about 1/15 of its difference from the stencil at 2h, and a kink in between shows there
//   too; the rounding of f32 outputs, `roundings` units of sum |output * R| divided by h, and as many units of the
//   gradient.
// At least nine elements of ten must have been held to 1 % of the largest gradient: a check that tolerates anything
// fails.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "heed/autograd.h"

namespace heed::oracle {

using Function = std::function<Value(const std::vector<Value>&)>;

// Multiples of 2^-10 in [-1, 1], none nearer to 0 than `gap`.
[[nodiscard]] inline Tensor sample(const Shape& shape, uint32_t seed, double gap = 0) {
  std::mt19937 random(seed);
  Tensor tensor = Tensor::empty(shape);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    const double value = static_cast<double>(random() % 2049) / 1024.0 - 1.0;
    const double moved = std::abs(value) < gap ? std::copysign(gap + std::abs(value), value) : value;
    tensor.data<float>()[i] = static_cast<float>(std::round(moved * 1024) / 1024);
  }
  return tensor;
}

struct Projection {
  double sum = 0;
  double magnitude = 0;  // the sum of the absolute values
};

[[nodiscard]] inline Projection project(const Tensor& output, const Tensor& projector) {
  const Tensor dense = output.contiguous();
  Projection result;
  for (int64_t i = 0; i < dense.numel(); ++i) {
    const double term = static_cast<double>(dense.data<float>()[i]) * projector.data<float>()[i];
    result.sum += term;
    result.magnitude += std::abs(term);
  }
  return result;
}

struct GradientCheckOptions {
  double h = 1.0 / 32;
  double roundings = 16;  // of f32 between an input and the projected output, in units of 2^-24
};

// Compares the gradient of every element of every input.
inline void expect_gradients(const std::string& name, const Function& function, const std::vector<Tensor>& inputs,
                             const GradientCheckOptions& options = {}) {
  std::vector<Value> leaves;
  for (const Tensor& input : inputs) leaves.emplace_back(input.clone(), true);
  const Value output = function(leaves);
  const Tensor projector = sample(output.shape(), 4711, 0.25);
  sum(output * Value(projector)).backward();

  const NoGradScope plain;
  const double noise = options.roundings * 0x1p-24 * project(output.data(), projector).magnitude / options.h;
  for (size_t n = 0; n < inputs.size(); ++n) {
    const Tensor& gradient = leaves[n].grad();
    ASSERT_TRUE(gradient.defined()) << name << ": no gradient for input " << n;
    ASSERT_EQ(gradient.shape(), inputs[n].shape()) << name << ", input " << n;
    double largest = 0;
    for (int64_t i = 0; i < gradient.numel(); ++i)
      largest = std::max(largest, std::abs(double{gradient.data<float>()[i]}));

    float* x = leaves[n].data().data<float>();
    int64_t loose = 0;
    for (int64_t i = 0; i < gradient.numel(); ++i) {
      const float centre = x[i];
      const auto loss_at = [&](double steps) {
        x[i] = static_cast<float>(centre + steps * options.h);
        const double loss = project(function(leaves).data(), projector).sum;
        x[i] = centre;
        return loss;
      };
      const double far = loss_at(4) - loss_at(-4), middle = loss_at(2) - loss_at(-2), near = loss_at(1) - loss_at(-1);
      const double numeric = (8 * near - middle) / (12 * options.h);
      const double coarse = (8 * middle - far) / (24 * options.h);
      const double tolerance = std::abs(numeric - coarse) / 4 + noise + options.roundings * 0x1p-24 * largest;
      loose += tolerance > 0.01 * largest;
      ASSERT_NEAR(gradient.data<float>()[i], numeric, tolerance) << name << ", input " << n << ", element " << i;
    }
    EXPECT_LE(10 * loose, gradient.numel()) << name << ", input " << n << ": a check too loose to mean anything";
  }
}

}  // namespace heed::oracle
