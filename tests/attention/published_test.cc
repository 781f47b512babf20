// Numbers that others published: the worked examples the project grew from, tiny-llm's cases, regression by pooling.

#include <filesystem>
#include <limits>

#include "attention/attention_case.h"
#include "base/data.h"
#include "base/message.h"
#include "heed/attention_variants.h"
#include "heed/io.h"

namespace heed {
namespace {

using testing::close;
using testing::to_doubles;

Tensor rows(std::initializer_list<float> values, int64_t count) {
  return Tensor::from(values, {1, 1, count, static_cast<int64_t>(values.size()) / count});
}

void expect_near(const std::vector<double>& found, std::initializer_list<double> expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t n = 0; n < found.size(); ++n) EXPECT_NEAR(found[n], expected.begin()[n], tolerance) << n;
}

TEST(AttentionPublished, FruitAndCar) {
  const Tensor q = rows({1.0f, 0.5f, -0.3f, 0.8f}, 1);
  const Tensor v = rows({1.2f, 0.3f, 0.5f, 0.9f, 1.0f, 0.4f, 0.6f, 0.8f, 0.2f, 0.9f, 1.1f, 0.1f}, 3);
  const Tensor k = rows({0.9f, 0.4f, -0.2f, 0.7f, 0.8f, 0.6f, -0.1f, 0.6f, -0.5f, 0.2f, 0.9f, -0.4f}, 3);
  const AttentionOptions weights{.want = {.weights = true}};
  const AttentionResult r = attention(q, k, v, weights);
  expect_near(to_doubles(r.weights), {0.4536, 0.4294, 0.1170}, 5e-5);
  expect_near(to_doubles(r.output), {0.9971, 0.4131, 0.6131, 0.7635}, 5e-5);
  const AttentionResult unscaled = attention(q, k, v, {.scale = 1.0f, .want = {.weights = true}});
  expect_near(to_doubles(unscaled.weights), {0.51, 0.46, 0.03}, 5e-3);
  // With the sign as printed in the note.
  const Tensor printed = rows({0.9f, 0.4f, -0.2f, 0.7f, 0.8f, 0.6f, -0.1f, -0.6f, -0.5f, 0.2f, 0.9f, -0.4f}, 3);
  expect_near(to_doubles(attention(q, printed, v).output), {0.9966, 0.4157, 0.6157, 0.7563}, 5e-5);
}

TEST(AttentionPublished, YourJourneyStartsWithOneStep) {
  const Tensor x = rows({0.43f, 0.15f, 0.89f, 0.55f, 0.87f, 0.66f, 0.57f, 0.85f, 0.64f, 0.22f, 0.58f, 0.33f, 0.77f,
                         0.25f, 0.10f, 0.05f, 0.80f, 0.55f},
                        6);
  const AttentionResult r = attention(x, x, x, {.scale = 1.0f, .want = {.weights = true}});
  expect_near(to_doubles(r.weights.slice(2, 1, 2)), {0.1385, 0.2379, 0.2333, 0.1240, 0.1082, 0.1581}, 5e-5);
  expect_near(to_doubles(r.output),
              {0.4421, 0.5931, 0.5790, 0.4419, 0.6515, 0.5683, 0.4431, 0.6496, 0.5671, 0.4304, 0.6298, 0.5510, 0.4671,
               0.5910, 0.5266, 0.4177, 0.6503, 0.5645},
              5e-5);
}

// Leading axes added or, but for the last two, taken together.
Tensor as_four_axes(const Tensor& x) {
  if (x.rank() > 4) return x.contiguous().reshape({-1, x.size(-3), x.size(-2), x.size(-1)});
  Shape shape;
  for (int axis = x.rank(); axis < 4; ++axis) shape.push_back(1);
  for (const int64_t extent : x.shape()) shape.push_back(extent);
  return x.contiguous().reshape(shape);
}

// out = softmax(scale q k^T + mask) v, in trials over any leading axes.
void check_trials(const std::filesystem::path& file, std::optional<float> scale, Causal causal) {
  const io::Tensors t = io::read_safetensors(file).tensors;
  const Tensor expected = t.at("expected_y");
  for (int64_t trial = 0; trial < expected.size(0); ++trial) {
    const auto one = [&](const char* name) { return as_four_axes(t.at(name).select(0, trial)); };
    AttentionOptions options{.scale = scale, .causal = causal};
    if (t.contains("mask")) options.bias = one("mask");
    const auto found = to_doubles(attention(one("q"), one("k"), one("v"), options).output);
    const auto wanted = to_doubles(expected.select(0, trial));
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t n = 0; n < found.size(); ++n) {
      EXPECT_NEAR(found[n], wanted[n], 1e-6 + 1e-5 * std::fabs(wanted[n]))
          << file << " trial " << trial << " [" << n << "]";
    }
  }
}

TEST(AttentionPublished, TinyLlmCases) {
  const auto folder = test::test_data("tiny_llm");
  for (const char* batch : {"b0", "b1", "b2"}) {
    const std::string b = batch;
    check_trials(folder / ("simple_attention_" + b + "_f32.safetensors"), {}, Causal::none());
    check_trials(folder / ("simple_attention_scale_mask_" + b + "_f32.safetensors"), 0.5f, Causal::none());
  }
}

TEST(AttentionPublished, TinyLlmGroupedHeads) {
  const auto folder = test::test_data("tiny_llm");
  for (const char* batch : {"b0", "b1", "b2"}) {
    for (const bool given : {false, true}) {
      const std::string start = "gqa_" + std::string(batch) + (given ? "_scale0.8_" : "_scaledef_");
      const std::optional<float> scale = given ? std::optional<float>(0.8f) : std::nullopt;
      check_trials(folder / (start + "causal_f32.safetensors"), scale, Causal::bottom_right());
      check_trials(folder / (start + "mask_f32.safetensors"), scale, Causal::none());
    }
  }
}

// Pooling with a Gaussian is softmax attention with scores -|q - k|^2 / 2; the others by hand.
TEST(AttentionPooling, KernelsAreThoseOfTheBook) {
  const Tensor q = Tensor::from({0.0f, 1.0f, 9.0f}, {3, 1}), k = Tensor::from({0.0f, 0.5f, 2.0f}, {3, 1});
  const Tensor v = Tensor::from({1.0f, 2.0f, 4.0f}, {3, 1});
  const auto g = [](double u) { return std::exp(-u * u / 2); };
  const PoolingResult gaussian = attention_pooling(q, k, v, alpha::gaussian(1));
  const double sum = g(0) + g(0.5) + g(2);
  expect_near(to_doubles(gaussian.weights.slice(0, 0, 1)), {g(0) / sum, g(0.5) / sum, g(2) / sum}, 1e-7);
  expect_near(to_doubles(gaussian.output.slice(0, 0, 1)), {(g(0) + 2 * g(0.5) + 4 * g(2)) / sum}, 1e-6);

  const PoolingResult boxcar = attention_pooling(q, k, v, alpha::boxcar(1));  // |q - k| < 1: strictly
  expect_near(to_doubles(boxcar.weights), {0.5, 0.5, 0, 0, 1, 0, 0, 0, 0}, 1e-7);
  expect_near(to_doubles(boxcar.output), {1.5, 2, 0}, 1e-6);  // nothing near 9: zero

  const PoolingResult tent = attention_pooling(q, k, v, alpha::epanechnikov(1));
  expect_near(to_doubles(tent.weights), {2.0 / 3, 1.0 / 3, 0, 0, 1, 0, 0, 0, 0}, 1e-7);
  const PoolingResult wide = attention_pooling(q, k, v, alpha::epanechnikov(2));
  expect_near(to_doubles(wide.weights.slice(0, 1, 2)), {0.5 / 1.75, 0.75 / 1.75, 0.5 / 1.75}, 1e-7);
}

TEST(AttentionPooling, DotProductIsAttention) {
  testing::Random random(4);
  const Tensor q = random.tensor({5, 7}), k = random.tensor({9, 7}), v = random.tensor({9, 3});
  const Tensor pooled = attention_pooling(q, k, v, alpha::dot_product(0.6f)).output;
  const Tensor plain =
      attention(q.reshape({1, 1, 5, 7}), k.reshape({1, 1, 9, 7}), v.reshape({1, 1, 9, 3}), {.scale = 0.6f}).output;
  EXPECT_TRUE(close(to_doubles(pooled), to_doubles(plain), 1e-6, "output"));
}

TEST(AttentionPooling, NoRowOverflowsOrVanishes) {
  const Tensor q = Tensor::from({30.0f}, {1, 1}), k = Tensor::from({30.0f, 29.0f}, {2, 1}),
               v = Tensor::from({5.0f, 7.0f}, {2, 1});
  for (const float scale : {1.0f, 30.0f, -30.0f}) {
    const double expected = scale > 0 ? 5 : 7;
    EXPECT_NEAR(attention_pooling(q, k, v, alpha::dot_product(scale)).output.at({0, 0}), expected, 1e-6) << scale;
  }
  const Tensor far = Tensor::from({31.0f}, {1, 1});
  EXPECT_NEAR(attention_pooling(far, k, v, alpha::gaussian(0.02f)).output.at({0, 0}), 5, 1e-6);
  const float point[] = {1}, other[] = {3};
  EXPECT_NEAR(alpha::gaussian(2)(point, other), std::exp(-0.5), 1e-15);
  EXPECT_FALSE(alpha::boxcar(2).is_log());
}

TEST(AttentionPooling, RefusesVectorsThatDoNotFit) {
  const Tensor q = Tensor::zeros({1, 3}), k = Tensor::zeros({2, 1}), v = Tensor::zeros({2, 1});
  for (const alpha::Kernel& kernel :
       {alpha::gaussian(1), alpha::boxcar(1), alpha::epanechnikov(1), alpha::dot_product(1)}) {
    EXPECT_NE(testing::message_of([&] {
                (void)attention_pooling(q, k, v, kernel);
              }).find("a query and a key of one size; found 3 and 1"),
              std::string::npos);
  }
  EXPECT_EQ(testing::message_of([&] {
              (void)attention_pooling(q, k, v, [](auto, auto) { return std::numeric_limits<double>::infinity(); });
            }),
            "[attention_pooling] a kernel whose sum over the keys is finite; found an infinity for query 0");
}

TEST(AttentionPooling, AdditiveAndOwnFunctions) {
  testing::Random random(5);
  const Tensor q = random.tensor({2, 3}), k = random.tensor({4, 3}), v = random.tensor({4, 2});
  const Tensor wq = random.tensor({6, 3}), wk = random.tensor({6, 3}), w = random.tensor({6});
  const auto alpha = [&](int64_t i, int64_t j) {
    double score = 0;
    for (int64_t e = 0; e < 6; ++e) {
      double x = 0;
      for (int64_t d = 0; d < 3; ++d) x += wq.at({e, d}) * q.at({i, d}) + wk.at({e, d}) * k.at({j, d});
      score += w.at({e}) * std::tanh(x);
    }
    return std::exp(score);
  };
  const Tensor weights = attention_pooling(q, k, v, alpha::additive(wq, wk, w)).weights;
  for (int64_t i = 0; i < 2; ++i) {
    const double sum = alpha(i, 0) + alpha(i, 1) + alpha(i, 2) + alpha(i, 3);
    for (int64_t j = 0; j < 4; ++j) EXPECT_NEAR(weights.at({i, j}), alpha(i, j) / sum, 1e-7);
  }
  const PoolingResult mean = attention_pooling(q, k, v, [](auto, auto) { return 2.0; });
  expect_near(to_doubles(mean.weights.slice(0, 0, 1)), {0.25, 0.25, 0.25, 0.25}, 1e-7);
}

}  // namespace
}  // namespace heed
