// Matrix products of tensors and the linear layer, against double precision.
#include <gtest/gtest.h>

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

TEST(Matmul, PlainMatricesInAllOrientations) {
  on_every_isa([] {
    const Tensor a = random_tensor({7, 33}, 1), b = random_tensor({33, 20}, 2);
    const oracle::Array expected = oracle::matmul(array(a), array(b), 7, 33, 20);
    const Tensor at = ops::transpose(a, 0, 1), bt = ops::transpose(b, 0, 1);
    expect_close(ops::matmul(a, b), expected);
    expect_same_bits(ops::matmul(at, b, {.transpose_a = true}), ops::matmul(a, b));
    expect_same_bits(ops::matmul(a, bt, {.transpose_b = true}), ops::matmul(a, b));
    expect_same_bits(ops::matmul(at, bt, {.transpose_a = true, .transpose_b = true}), ops::matmul(a, b));
    expect_same_bits(ops::matmul(at.transpose(0, 1), bt.transpose(0, 1)), ops::matmul(a, b));  // views
  });
}

TEST(Matmul, BatchesEqualTheirMatrices) {
  on_every_isa([] {
    const Tensor a = random_tensor({2, 3, 5, 8}, 1), b = random_tensor({2, 3, 8, 4}, 2),
                 shared = random_tensor({8, 4}, 3);
    const Tensor c = ops::matmul(a, b), d = ops::matmul(a, shared);
    const Tensor across = ops::matmul(a.transpose(0, 1), b.transpose(0, 1));
    for (int64_t i = 0; i < 2; ++i) {
      for (int64_t j = 0; j < 3; ++j) {
        const Tensor one = a.select(0, i).select(0, j), other = b.select(0, i).select(0, j);
        expect_same_bits(c.select(0, i).select(0, j), ops::matmul(one, other));
        expect_same_bits(across.select(0, j).select(0, i), ops::matmul(one, other));
        expect_same_bits(d.select(0, i).select(0, j), ops::matmul(one, shared));
      }
    }
  });
}

TEST(Matmul, AccumulatesIntoViews) {
  on_every_isa([] {
    const Tensor a = random_tensor({6, 9}, 1), b = random_tensor({9, 10}, 2), start = random_tensor({6, 10}, 3);
    oracle::Array expected = oracle::matmul(array(a), array(b), 6, 9, 10);
    const oracle::Array before = array(start);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
    const Tensor out = start.clone();
    ops::matmul_into(out, a, b, {.accumulate = true});
    expect_close(out, expected);
    const Tensor turned = ops::transpose(start, 0, 1);
    ops::matmul_into(turned.transpose(0, 1), a, b, {.accumulate = true});
    expect_same_bits(turned.transpose(0, 1), out);
    const Tensor wide = Tensor::full({6, 14}, 7.0f);
    ops::copy_into(wide.slice(1, 2, 12), start);
    ops::matmul_into(wide.slice(1, 2, 12), a, b, {.accumulate = true});
    expect_same_bits(wide.slice(1, 2, 12), out);
    EXPECT_EQ(wide.at({3, 1}), 7.0);
    EXPECT_EQ(wide.at({3, 12}), 7.0);
  });
}

TEST(Matmul, SumsOverTheBatchAsOneChain) {
  on_every_isa([] {
    const Tensor a = random_tensor({4, 6, 5}, 1), b = random_tensor({4, 6, 7}, 2);
    const Tensor out = Tensor::zeros({5, 7}), flat = Tensor::zeros({5, 7}), strided = Tensor::zeros({5, 7});
    ops::matmul_into(out, a, b, {.transpose_a = true, .accumulate = true});
    ops::matmul_into(flat, a.reshape({24, 5}), b.reshape({24, 7}), {.transpose_a = true, .accumulate = true});
    expect_same_bits(out, flat);
    const Tensor padded = Tensor::zeros({4, 9, 5});
    ops::copy_into(padded.slice(1, 0, 6), a);
    ops::matmul_into(strided, padded.slice(1, 0, 6), b, {.transpose_a = true, .accumulate = true});
    expect_same_bits(strided, flat);
  });
}

TEST(Matmul, SaysWhatDoesNotFit) {
  EXPECT_THROW((void)ops::matmul(Tensor::zeros({2, 3}), Tensor::zeros({4, 5})), Error);
  EXPECT_THROW((void)ops::matmul(Tensor::zeros({3}), Tensor::zeros({3, 5})), Error);
  EXPECT_THROW((void)ops::matmul(Tensor::zeros({2, 4, 3}), Tensor::zeros({3, 3, 5})), Error);
  EXPECT_THROW((void)ops::matmul(Tensor::zeros({2, 3}, DType::f64), Tensor::zeros({3, 5})), Error);
  EXPECT_THROW((void)ops::linear(Tensor::zeros({2, 3}), Tensor::zeros({5, 4}), {}), Error);
  EXPECT_EQ(testing::message_of([] {
              (void)ops::matmul(Tensor::zeros({2, 3}), Tensor::zeros({4, 5}));
            }),
            "[matmul] as many columns of a as rows of b; found 3 and 4");
}

TEST(Matmul, EmptyTensorsAreFine) {
  EXPECT_EQ(ops::matmul(Tensor::zeros({0, 3}), Tensor::zeros({3, 5})).shape(), (Shape{0, 5}));
  EXPECT_EQ(ops::matmul(Tensor::zeros({2, 0}), Tensor::zeros({0, 5})).at({1, 4}), 0.0);
  EXPECT_EQ(ops::linear(Tensor::zeros({0, 3}), Tensor::zeros({5, 3}), {}).output.shape(), (Shape{0, 5}));
}

double (*function_of(Activation activation))(double) {
  switch (activation) {
    case Activation::relu: return oracle::relu;
    case Activation::gelu: return oracle::gelu;
    case Activation::gelu_tanh: return oracle::gelu_tanh;
    case Activation::silu: return oracle::silu;
    case Activation::tanh: return oracle::tanh;
    case Activation::none: break;
  }
  return [](double x) { return x; };
}

TEST(Linear, ForwardAndBackwardWithEveryActivation) {
  on_every_isa([] {
    for (const Activation activation :
         {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
      SCOPED_TRACE(std::string(to_string(activation)));
      for (const bool with_bias : {true, false}) {
        constexpr size_t kRows = 6, kIn = 5, kOut = 7;
        const Tensor x = random_tensor({2, 3, kIn}, 1), weight = random_tensor({kOut, kIn}, 2),
                     d = random_tensor({2, 3, kOut}, 3);
        const Tensor bias = with_bias ? random_tensor({kOut}, 4) : Tensor();
        const auto text = [&](const oracle::Array& input, const oracle::Array& w, const oracle::Array& b) {
          oracle::Array y = oracle::matmul(input, oracle::transpose(w, kOut, kIn), kRows, kIn, kOut);
          for (size_t i = 0; i < y.size() && !b.empty(); ++i) y[i] += b[i % kOut];
          return oracle::map(y, function_of(activation));
        };
        const oracle::Array w0 = array(weight), x0 = array(x), b0 = with_bias ? array(bias) : oracle::Array();
        const ops::LinearResult result = ops::linear(x, weight, bias, {.activation = activation});
        ASSERT_EQ(result.output.shape(), (Shape{2, 3, kOut}));
        expect_close(result.output, text(x0, w0, b0));
        EXPECT_EQ(result.saved.defined(), activation != Activation::none);
        EXPECT_FALSE(ops::linear(x, weight, bias, {.activation = activation, .save = false}).saved.defined());

        const Tensor d_weight = Tensor::full({kOut, kIn}, 1.0f), d_bias = Tensor::full({kOut}, 2.0f);
        const Tensor d_x = ops::linear_backward(d, x, weight,
                                                {.activation = activation,
                                                 .saved = result.saved,
                                                 .d_weight = d_weight,
                                                 .d_bias = with_bias ? d_bias : Tensor()});
        expect_close(d_x, oracle::gradient([&](const oracle::Array& v) { return text(v, w0, b0); }, x0, array(d)));
        oracle::Array expected =
            oracle::gradient([&](const oracle::Array& v) { return text(x0, v, b0); }, w0, array(d));
        for (double& value : expected) value += 1.0;
        expect_close(d_weight, expected);
        if (!with_bias) continue;
        expected = oracle::gradient([&](const oracle::Array& v) { return text(x0, w0, v); }, b0, array(d));
        for (double& value : expected) value += 2.0;
        expect_close(d_bias, expected);
        EXPECT_FALSE(
            ops::linear_backward(d, x, weight, {.activation = activation, .saved = result.saved, .want_input = false})
                .defined());
      }
    }
  });
}

TEST(Linear, SameBitsEverywhere) {
  testing::expect_same_bits_everywhere([] {
    const Tensor x = random_tensor({130, 40}, 1), weight = random_tensor({33, 40}, 2), bias = random_tensor({33}, 3);
    const auto [y, saved] = ops::linear(x, weight, bias, {.activation = Activation::gelu});
    const Tensor d_weight = Tensor::zeros({33, 40}), d_bias = Tensor::zeros({33});
    const Tensor d_x = ops::linear_backward(
        y, x, weight, {.activation = Activation::gelu, .saved = saved, .d_weight = d_weight, .d_bias = d_bias});
    std::vector<float> all;
    for (const Tensor& tensor : {y, d_x, d_weight, d_bias}) {
      const std::vector<float> values = testing::floats(tensor);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  });
}

TEST(Linear, ARowHasTheSameBitsAloneAndInABatch) {
  const Tensor x = random_tensor({50, 64}, 1), weight = random_tensor({100, 64}, 2), bias = random_tensor({100}, 3);
  const Tensor all = ops::linear(x, weight, bias, {.activation = Activation::silu}).output;
  for (const int64_t i : {0, 7, 49}) {
    expect_same_bits(ops::linear(x.slice(0, i, i + 1), weight, bias, {.activation = Activation::silu}).output,
                     all.slice(0, i, i + 1));
  }
}

}  // namespace
}  // namespace heed
