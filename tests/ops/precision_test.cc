// Matrix products in bf16 against f32 products of operands that were rounded before.
#include <gtest/gtest.h>

#include <thread>

#include "heed/error.h"
#include "ops/arrays.h"

namespace heed {
namespace {

using ops::MatmulPrecisionScope;
using ops::Precision;
using testing::array;
using testing::expect_close;
using testing::expect_same_bits;
using testing::on_every_isa;
using testing::random_tensor;

// What the operands become where the instruction set multiplies bf16, and themselves elsewhere.
Tensor rounded(const Tensor& x) { return multiplies_bf16() ? x.to(DType::bf16).to(DType::f32) : x; }

template <class F>
auto in_bf16(F&& f) {
  const MatmulPrecisionScope scope(Precision::bf16);
  return f();
}

// Equal within the rounding of sums; to the bit where bf16 is f32.
void expect_equal(const Tensor& found, const Tensor& expected) {
  if (multiplies_bf16()) {
    expect_close(found, array(expected), 1e-5);
  } else {
    expect_same_bits(found, expected);
  }
}

TEST(MatmulPrecision, RoundsTheOperandsOfEveryProduct) {
  on_every_isa([] {
    struct Size {
      int64_t batch, m, n, k;
    };
    // One matrix, batches that share a matrix, and batches that threads share.
    for (const Size s : {Size{1, 5, 33, 7}, Size{1, 70, 20, 130}, Size{3, 40, 50, 60}, Size{16, 40, 50, 61}}) {
      const Tensor a = random_tensor({s.batch, s.m, s.k}, 1), b = random_tensor({s.batch, s.k, s.n}, 2),
                   shared = random_tensor({s.k, s.n}, 3);
      const Tensor exact = ops::matmul(a, b);
      expect_equal(in_bf16([&] { return ops::matmul(a, b); }), ops::matmul(rounded(a), rounded(b)));
      expect_equal(in_bf16([&] { return ops::matmul(a, shared); }), ops::matmul(rounded(a), rounded(shared)));
      expect_same_bits(ops::matmul(a, b), exact);  // the scope is closed
    }
  });
}

TEST(MatmulPrecision, RoundsInLinearLayersAndTheirGradients) {
  on_every_isa([] {
    const Tensor x = random_tensor({40, 24}, 1), weight = random_tensor({30, 24}, 2), bias = random_tensor({30}, 3),
                 d = random_tensor({40, 30}, 4);
    const auto y = in_bf16([&] { return ops::linear(x, weight, bias).output; });
    expect_equal(y, ops::linear(rounded(x), rounded(weight), bias).output);

    const Tensor d_weight = Tensor::zeros({30, 24}), d_bias = Tensor::zeros({30}), expected = Tensor::zeros({30, 24});
    const auto d_x =
        in_bf16([&] { return ops::linear_backward(d, x, weight, {.d_weight = d_weight, .d_bias = d_bias}); });
    expect_equal(d_x, ops::linear_backward(rounded(d), rounded(x), rounded(weight), {.d_weight = expected}));
    expect_equal(d_weight, expected);
    const Tensor sums = Tensor::zeros({30});  // no product
    ops::add_reduced_into(sums, d);
    expect_same_bits(d_bias, sums);
  });
}

TEST(MatmulPrecision, RoundsInTheCrossEntropyOfALinearLayer) {
  on_every_isa([] {
    const Tensor x = random_tensor({50, 24}, 1), weight = random_tensor({70, 24}, 2),
                 targets = Tensor::zeros({50}, DType::i32);
    const auto loss = [&](const Tensor& states, const Tensor& table) {
      return ops::linear_cross_entropy(states, table, {}, targets,
                                       {.loss = {}, .want_input = true, .want_weight = true});
    };
    const auto found = in_bf16([&] { return loss(x, weight); });
    EXPECT_NEAR(found.loss, loss(rounded(x), rounded(weight)).loss, 1e-6);
    // The same as its two halves, which round what the loss hands back.
    const auto logits = in_bf16([&] { return ops::linear(x, weight, {}).output; });
    const Tensor d = ops::cross_entropy_backward(logits, targets, ops::cross_entropy(logits, targets), 1.0f);
    const Tensor d_weight = Tensor::zeros({70, 24});
    expect_same_bits(found.d_x, in_bf16([&] { return ops::linear_backward(d, x, weight, {.d_weight = d_weight}); }));
    expect_same_bits(found.d_weight, d_weight);
  });
}

TEST(MatmulPrecision, SameBitsForAnyNumberOfThreadsAndRows) {
  const testing::SettingsScope settings;
  const MatmulPrecisionScope scope(Precision::bf16);
  const Tensor x = random_tensor({50, 64}, 1), weight = random_tensor({100, 64}, 2), bias = random_tensor({100}, 3);
  const auto run = [&](const Tensor& rows) {
    return ops::linear(rows, weight, bias, {.activation = Activation::silu}).output;
  };
  const Tensor all = run(x);
  for (const int threads : {1, 3, 7}) {
    set_num_threads(threads);
    expect_same_bits(run(x), all);
    for (const int64_t i : {0, 7, 49}) expect_same_bits(run(x.slice(0, i, i + 1)), all.slice(0, i, i + 1));
  }
}

TEST(MatmulPrecision, IsOfAThreadAndEndsWithItsScope) {
  EXPECT_EQ(MatmulPrecisionScope::current(), Precision::f32);
  {
    const MatmulPrecisionScope outer(Precision::bf16);
    {
      const MatmulPrecisionScope inner(Precision::f32);
      EXPECT_EQ(MatmulPrecisionScope::current(), Precision::f32);
    }
    EXPECT_EQ(MatmulPrecisionScope::current(), Precision::bf16);
    std::thread([] { EXPECT_EQ(MatmulPrecisionScope::current(), Precision::f32); }).join();
  }
  EXPECT_EQ(MatmulPrecisionScope::current(), Precision::f32);
}

TEST(MatmulPrecision, HasNames) {
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    EXPECT_EQ(ops::parse_precision(ops::to_string(precision)), precision);
  }
  EXPECT_THROW(static_cast<void>(ops::parse_precision("f16")), Error);
}

}  // namespace
}  // namespace heed
