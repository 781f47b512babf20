// Elementwise operations, dropout, embeddings, reductions, Adam and copies.
#include <gtest/gtest.h>

#include <cmath>

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

TEST(Elementwise, BroadcastsSuffixes) {
  on_every_isa([] {
    const Tensor a = random_tensor({3, 2, 21}, 1);
    for (const Shape& shape : {Shape{3, 2, 21}, Shape{2, 21}, Shape{21}, Shape{}}) {
      const Tensor b = random_tensor(shape, 2);
      const Array x = array(a), y = array(b);
      Array sum = x, difference = x, product = x;
      for (size_t i = 0; i < x.size(); ++i) {
        sum[i] += y[i % y.size()];
        difference[i] -= y[i % y.size()];
        product[i] *= y[i % y.size()];
      }
      expect_close(ops::add(a, b), sum, 1e-6);
      expect_close(ops::sub(a, b), difference, 1e-6);
      expect_close(ops::mul(a, b), product, 1e-6);
      const Tensor d = Tensor::full(shape, 1.0f);
      ops::add_reduced_into(d, a, 2.0f);
      Array reduced(y.size(), 1.0);
      for (size_t i = 0; i < x.size(); ++i) reduced[i % y.size()] += 2 * x[i];
      expect_close(d, reduced, 1e-5);
    }
    expect_same_bits(ops::add(a.transpose(0, 2), a.transpose(0, 2)), ops::scale(a, 2.0f).transpose(0, 2));
  });
  EXPECT_THROW((void)ops::add(Tensor::zeros({2, 3}), Tensor::zeros({2})), Error);
  EXPECT_THROW((void)ops::add(Tensor::zeros({3}), Tensor::zeros({2, 3})), Error);
}

TEST(Elementwise, Activations) {
  on_every_isa([] {
    const Tensor x = random_tensor({5, 41}, 1, 3.0f), d = random_tensor({5, 41}, 2);
    const std::pair<Activation, double (*)(double)> cases[] = {{Activation::relu, oracle::relu},
                                                               {Activation::gelu, oracle::gelu},
                                                               {Activation::gelu_tanh, oracle::gelu_tanh},
                                                               {Activation::silu, oracle::silu},
                                                               {Activation::tanh, oracle::tanh}};
    for (const auto& [activation, f] : cases) {
      SCOPED_TRACE(std::string(to_string(activation)));
      expect_close(ops::activate(x, activation), oracle::map(array(x), f), 1e-6);
      const Tensor saved = activation == Activation::relu ? ops::activate(x, activation) : x;
      expect_close(ops::activate_backward(d, saved, activation),
                   oracle::gradient([f = f](const Array& v) { return oracle::map(v, f); }, array(x), array(d)), 2e-6);
      const Tensor far = Tensor::from({-200.0f, 200.0f, -1e30f, 1e30f, NAN}, {5});
      const std::vector<float> y = floats(ops::activate(far, activation));
      const bool bounded = activation == Activation::tanh;
      EXPECT_EQ(y[0], bounded ? -1.0f : 0.0f);
      EXPECT_EQ(y[1], bounded ? 1.0f : 200.0f);
      EXPECT_EQ(y[2], bounded ? -1.0f : 0.0f);
      EXPECT_EQ(y[3], bounded ? 1.0f : 1e30f);
      EXPECT_TRUE(std::isnan(y[4]));
    }
  });
}

TEST(Elementwise, InPlace) {
  on_every_isa([] {
    const Tensor x = random_tensor({4, 6, 10}, 1), y = random_tensor({4, 6, 10}, 2), out = y.clone();
    ops::axpy_into(out, 0.5f, x);
    Array expected = array(y);
    const Array values = array(x);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += 0.5 * values[i];
    expect_close(out, expected, 1e-6);
    // Heads of one projection: (4, 6, 10) seen as (4, 2, 6, 5).
    const Tensor wide = Tensor::zeros({4, 6, 10});
    const Tensor heads = wide.reshape({4, 6, 2, 5}).transpose(1, 2), given = random_tensor({4, 2, 6, 5}, 3);
    ops::add_into(heads, given);
    ops::add_into(heads, given);
    expect_same_bits(heads, ops::scale(given, 2.0f));
    ops::scale_into(out, 0.0f);
    for (const float v : floats(out)) EXPECT_EQ(v, 0.0f);
  });
}

TEST(Dropout, DropsTheStatedShareAndIsAFunctionOfSeedAndIndex) {
  on_every_isa([] {
    const int64_t count = active_isa() == Isa::portable ? 20'000 : 200'001;
    const ops::Dropout dropout{0.25f, 0x123456789ABCDEF0u};
    const Tensor ones = Tensor::full({count}, 1.0f), y = ops::dropout(ones, dropout);
    int64_t kept = 0;
    const float* const values = y.data<float>();
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(values[i] != 0.0f, ops::dropout_keeps(dropout, i)) << i;
      ASSERT_TRUE(values[i] == 0.0f || values[i] == 1.0f / 0.75f);
      kept += values[i] != 0.0f;
    }
    EXPECT_NEAR(static_cast<double>(kept) / static_cast<double>(count), 0.75,
                4 * std::sqrt(0.1875 / static_cast<double>(count)));
    expect_same_bits(ops::dropout(Tensor::full({1000}, 1.0f), dropout), y.slice(0, 0, 1000));
    const Tensor other = ops::dropout(ones, {0.25f, 7});
    int64_t equal = 0;
    for (int64_t i = 0; i < count; ++i) equal += (other.data<float>()[i] != 0) == (values[i] != 0);
    EXPECT_NEAR(static_cast<double>(equal) / static_cast<double>(count), 0.625, 0.02);
    expect_same_bits(ops::dropout_add(ones, ones, dropout), ops::add(y, ones));
    EXPECT_EQ(ops::dropout(ones, {}).raw(), ones.raw());
    const Tensor infinite = ops::dropout(Tensor::full({1000}, INFINITY), dropout);
    for (const float v : floats(infinite)) EXPECT_FALSE(std::isnan(v));
  });
  EXPECT_THROW((void)ops::dropout(Tensor::zeros({2}), {1.0f, 0}), Error);
  EXPECT_THROW((void)ops::dropout(Tensor::zeros({2}), {-0.1f, 0}), Error);
}

TEST(Embedding, ForwardAndBackward) {
  on_every_isa([] {
    const Tensor weight = random_tensor({7, 19}, 1), d = random_tensor({2, 3, 19}, 2);
    const std::vector<int32_t> id = {3, 0, 6, 3, 2, 3};
    const Tensor ids = testing::ids(id, {2, 3});
    const EmbeddingOptions options{.padding_id = 2, .scale = 1.5f};
    const Tensor y = ops::embedding(ids, weight, options);
    const Tensor d_weight = Tensor::full({7, 19}, 1.0f);
    ops::embedding_backward_into(d_weight, d, ids, options);
    Array expected, gradient(7 * 19, 1.0);
    const Array w = array(weight), g = array(d);
    for (size_t i = 0; i < id.size(); ++i) {
      for (size_t j = 0; j < 19; ++j) {
        const size_t at = static_cast<size_t>(id[i]) * 19 + j;
        expected.push_back(id[i] == 2 ? 0.0 : 1.5 * w[at]);
        if (id[i] != 2) gradient[at] += 1.5 * g[i * 19 + j];
      }
    }
    expect_close(y, expected, 1e-6);
    expect_close(d_weight, gradient, 1e-6);
  });
  EXPECT_THROW((void)ops::embedding(testing::ids({7}, {1}), Tensor::zeros({7, 2})), Error);
  EXPECT_THROW((void)ops::embedding(testing::ids({-1}, {1}), Tensor::zeros({7, 2})), Error);
}

TEST(Reductions, InDouble) {
  on_every_isa([] {
    const int64_t count = active_isa() == Isa::portable ? 33'333 : 100'003;
    const Tensor x = random_tensor({count}, 1), y = random_tensor({5, 7}, 2);
    double sum = 0, squares = 0;
    for (const double v : array(x)) sum += v, squares += v * v;
    EXPECT_NEAR(ops::sum(x), sum, 1e-9);
    EXPECT_NEAR(ops::mean(x), sum / static_cast<double>(count), 1e-12);
    for (const double v : array(y)) squares += v * v;
    const Tensor both[] = {x, y.transpose(0, 1)};
    EXPECT_NEAR(ops::norm(both), std::sqrt(squares), 1e-9);
  });
}

TEST(Adam, FollowsThePaper) {
  on_every_isa([] {
    const Tensor parameter = random_tensor({37}, 1), first = Tensor::zeros({37}), second = Tensor::zeros({37});
    Array p = array(parameter), m(37, 0.0), v(37, 0.0);
    for (int64_t step = 1; step <= 5; ++step) {
      const Tensor gradient = random_tensor({37}, static_cast<uint64_t>(step) + 10);
      const Array g = array(gradient);
      for (size_t i = 0; i < p.size(); ++i) {
        const double scaled = 0.5 * g[i];
        m[i] = 0.9 * m[i] + 0.1 * scaled;
        v[i] = 0.98 * v[i] + 0.02 * scaled * scaled;
        const double m_hat = m[i] / (1 - std::pow(0.9, step)), v_hat = v[i] / (1 - std::pow(0.98, step));
        p[i] -= 0.01 * 0.1 * p[i];
        p[i] -= 0.01 * m_hat / (std::sqrt(v_hat) + 1e-9);
      }
      ops::adam_step(parameter, gradient, first, second,
                     {.learning_rate = 0.01f, .weight_decay = 0.1f, .gradient_scale = 0.5f, .step = step});
      for (const float value : floats(gradient)) EXPECT_EQ(value, 0.0f);
    }
    expect_close(parameter, p, 2e-6);
    expect_close(first, m, 1e-6);
    expect_close(second, v, 1e-6);
  });
}

TEST(Copies, AnyStrides) {
  on_every_isa([] {
    const Tensor x = random_tensor({3, 37, 20, 5}, 1);
    const std::pair<int, int> swaps[] = {{0, 1}, {1, 2}, {2, 3}, {0, 3}, {1, 3}};
    for (const auto& [a, b] : swaps) {
      const Tensor view = x.transpose(a, b), copy = ops::transpose(x, a, b);
      ASSERT_TRUE(copy.is_contiguous());
      ASSERT_EQ(copy.shape(), view.shape());
      for (int64_t i = 0; i < view.size(0); i += 2) {
        for (int64_t j = 0; j < view.size(1); j += 3) {
          for (int64_t k = 0; k < view.size(2); ++k) {
            for (int64_t l = 0; l < view.size(3); ++l) ASSERT_EQ(copy.at({i, j, k, l}), view.at({i, j, k, l}));
          }
        }
      }
      const Tensor into = Tensor::zeros(x.shape());
      ops::copy_into(into.transpose(a, b), copy);  // and back
      expect_same_bits(into, x);
    }
    expect_same_bits(ops::contiguous(x.select(1, 3).expand({2, 3, 20, 5})).select(0, 1), x.select(1, 3));
    const std::vector<float> values = floats(x);
    const Tensor reversed =
        Tensor::wrap(const_cast<float*>(values.data() + values.size() - 1), {x.numel()}, {-1}, DType::f32);
    EXPECT_EQ(ops::contiguous(reversed).at({0}), static_cast<double>(values.back()));
  });
}

TEST(Copies, ConcatAndSplit) {
  on_every_isa([] {
    const Tensor x = random_tensor({4, 9, 6}, 1);
    for (const int axis : {0, 1, 2, -1, -2}) {
      const int64_t extent = x.size(axis);
      const int64_t sizes[] = {1, 0, 2, extent - 3};
      const std::vector<Tensor> parts = ops::split(x, axis, sizes);
      ASSERT_EQ(parts.size(), 4u);
      expect_same_bits(ops::concat(parts, axis), x);
    }
  });
  const int64_t wrong[] = {1, 2};
  EXPECT_THROW((void)ops::split(Tensor::zeros({4}), 0, wrong), Error);
  const Tensor parts[] = {Tensor::zeros({2, 3}), Tensor::zeros({2, 4})};
  EXPECT_THROW((void)ops::concat(parts, 0), Error);
  EXPECT_EQ(ops::concat(parts, 1).shape(), (Shape{2, 7}));
}

TEST(Elementwise, SameBitsEverywhere) {
  testing::expect_same_bits_everywhere([] {
    const Tensor x = random_tensor({300, 67}, 1), y = random_tensor({67}, 2);
    std::vector<int32_t> id(300);
    for (size_t i = 0; i < id.size(); ++i) id[i] = static_cast<int32_t>(i * i % 11);
    const Tensor table = random_tensor({11, 67}, 3), reduced = Tensor::zeros({67}), gradient = x.clone(),
                 first = Tensor::zeros(x.shape()), second = Tensor::zeros(x.shape()), parameter = x.clone();
    ops::embedding_backward_into(table, x, testing::ids(id, {300}));
    ops::add_reduced_into(reduced, x);
    ops::adam_step(parameter, gradient, first, second, {.step = 3});
    const Tensor both[] = {x, y};
    const double numbers[] = {ops::sum(x), ops::norm(both)};
    std::vector<float> all(4);
    std::memcpy(all.data(), numbers, sizeof numbers);
    for (const Tensor& tensor :
         {ops::add(x, y), ops::mul(x, y), ops::activate(x, Activation::gelu_tanh), ops::activate(x, Activation::silu),
          ops::activate_backward(x, x, Activation::gelu), ops::dropout_add(x, x, {0.2f, 3}), table, reduced, parameter,
          first, second, ops::transpose(x, 0, 1)}) {
      const std::vector<float> values = floats(tensor);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  });
}

}  // namespace
}  // namespace heed
