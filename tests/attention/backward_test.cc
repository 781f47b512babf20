// The fused backward pass against the double-precision oracle, and the reference against finite differences.
#include "attention/attention_case.h"

namespace heed {
namespace {

using testing::close;
using testing::KeepSettings;
using testing::random_case;
using testing::RandomCase;
using testing::reduce_bias;
using testing::to_doubles;

void expect_gradients(const RandomCase& c, const AttentionGradients& g, const oracle::AttentionAnswer& expected,
                      double tolerance) {
  EXPECT_TRUE(close(to_doubles(g.query), expected.d_q, tolerance, "d_query")) << c.text;
  EXPECT_TRUE(close(to_doubles(g.key), expected.d_k, tolerance, "d_key")) << c.text;
  EXPECT_TRUE(close(to_doubles(g.value), expected.d_v, tolerance, "d_value")) << c.text;
  if (c.problem.options.bias.defined()) {
    const Shape scores{c.oracle.B, c.oracle.H, c.oracle.L, c.oracle.S};
    EXPECT_EQ(g.bias.shape(), c.problem.options.bias.shape()) << c.text;
    EXPECT_TRUE(close(to_doubles(g.bias), reduce_bias(expected.d_bias, scores, c.problem.options.bias.shape()),
                      tolerance, "d_bias"))
        << c.text;
  }
  if (c.problem.options.sinks.defined()) {
    EXPECT_TRUE(close(to_doubles(g.sinks), expected.d_sink, tolerance, "d_sinks")) << c.text;
  }
}

void expect_gradients_like_oracle(const RandomCase& c) {
  const testing::Problem& p = c.problem;
  const AttentionResult r = attention(p.q, p.k, p.v, p.options);
  const AttentionGradients g =
      attention_backward(p.d_out, p.q, p.k, p.v, r, p.options, {.bias = p.options.bias.defined()});
  expect_gradients(c, g, oracle::attention(c.oracle), 8e-6);
}

TEST(TileGradients, AgreesWithTheOracleOnRandomProblems) {
  for (uint64_t seed = 0; seed < 250; ++seed) expect_gradients_like_oracle(random_case(seed, 150));
}

TEST(TileGradients, AgreesWithTheOracleOnEveryInstructionSet) {
  const KeepSettings keep;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    ASSERT_EQ(active_isa(), isa);
    for (uint64_t seed = 1000; seed < 1040; ++seed) expect_gradients_like_oracle(random_case(seed, 40));
  }
}

// Heads wider than what the products keep in registers at once.
TEST(TileGradients, AgreesWithTheOracleForWideHeads) {
  for (const int64_t size : {112, 128, 150, 256}) {
    testing::Random random(static_cast<uint64_t>(size));
    RandomCase c;
    c.text = "D " + std::to_string(size);
    c.problem.q = random.tensor({1, 2, 55, size}), c.problem.k = random.tensor({1, 1, 90, size});
    c.problem.v = random.tensor({1, 1, 90, size + 16}), c.problem.d_out = random.tensor({1, 2, 55, size + 16});
    c.problem.options.causal = Causal::bottom_right();
    c.problem.options.want.logsumexp = true;
    c.oracle = testing::oracle_case(c.problem, oracle::AttentionCase::Causal::bottom_right, 0);
    expect_gradients_like_oracle(c);
  }
}

TEST(TileGradients, AgreesWithTheOracleOverManyBlocks) {
  for (uint64_t seed = 2000; seed < 2005; ++seed) expect_gradients_like_oracle(random_case(seed, 1300));
}

TEST(TileGradients, AgreesWithTheReference) {
  for (uint64_t seed = 3000; seed < 3060; ++seed) {
    const RandomCase c = random_case(seed, 90);
    const testing::Problem& p = c.problem;
    const AttentionResult r = attention(p.q, p.k, p.v, p.options);
    const bool bias = p.options.bias.defined();
    const AttentionGradients fused = attention_backward(p.d_out, p.q, p.k, p.v, r, p.options, {.bias = bias});
    const AttentionGradients plain = reference::attention_backward(p.d_out, p.q, p.k, p.v, p.options);
    EXPECT_TRUE(close(to_doubles(fused.query), to_doubles(plain.query), 1e-5, "d_query")) << c.text;
    EXPECT_TRUE(close(to_doubles(fused.key), to_doubles(plain.key), 1e-5, "d_key")) << c.text;
    EXPECT_TRUE(close(to_doubles(fused.value), to_doubles(plain.value), 1e-5, "d_value")) << c.text;
    if (!bias) continue;
    EXPECT_TRUE(close(to_doubles(fused.bias), to_doubles(plain.bias), 1e-5, "d_bias")) << c.text;
  }
}

// Integer data again: with scale 0 and one key block the weights are 1 / keys, and dV is a sum of integers over a power
// of two.
TEST(TileGradients, SumsIntegersExactly) {
  const int64_t queries = 150, keys = 128, size = 20;
  Tensor d_out = Tensor::empty({1, 1, queries, size});
  for (int64_t n = 0; n < d_out.numel(); ++n) d_out.data<float>()[n] = static_cast<float>(n % 31 - 15);
  const Tensor q = Tensor::full({1, 1, queries, 3}, 1), k = Tensor::full({1, 1, keys, 3}, 1);
  const Tensor v = Tensor::zeros({1, 1, keys, size});
  const AttentionOptions options{.scale = 0.0f, .want = {.logsumexp = true}};
  const auto g = attention_backward(d_out, q, k, v, attention(q, k, v, options), options);
  for (int64_t d = 0; d < size; ++d) {
    double sum = 0;
    for (int64_t i = 0; i < queries; ++i) sum += d_out.at({0, 0, i, d});
    for (int64_t j = 0; j < keys; ++j) ASSERT_NEAR(g.value.at({0, 0, j, d}), sum / 128, std::fabs(sum) / 128 * 1e-5);
  }
}

Tensor as_f64(const Tensor& tensor) { return tensor.defined() ? tensor.to(DType::f64).clone() : tensor; }

// Central differences of sum(output * d_out) with respect to one tensor, in f64.
TEST(AttentionReference, GradientsAreFiniteDifferences) {
  int checked = 0;
  for (uint64_t seed = 5000; seed < 5040; ++seed) {
    const RandomCase c = random_case(seed, 7);
    if (c.oracle.L == 0 || c.oracle.S == 0 || c.oracle.D > 17) continue;
    Tensor q = as_f64(c.problem.q), k = as_f64(c.problem.k), v = as_f64(c.problem.v), d_out = as_f64(c.problem.d_out);
    AttentionOptions options = c.problem.options;
    options.bias = as_f64(options.bias);
    options.sinks = as_f64(options.sinks);
    const auto loss = [&] {
      const auto out = to_doubles(reference::attention(q, k, v, options).output), up = to_doubles(d_out);
      double sum = 0;
      for (size_t n = 0; n < out.size(); ++n) sum += out[n] * up[n];
      return sum;
    };
    const AttentionGradients g = reference::attention_backward(d_out, q, k, v, options);
    const auto check = [&](Tensor& x, const Tensor& gradient, const char* what) {
      const auto found = to_doubles(gradient);
      for (int64_t n = 0; n < x.numel(); n += 1 + x.numel() / 12) {
        double& element = x.data<double>()[n];
        const double before = element, step = 1e-5;
        if (!std::isfinite(before)) continue;
        element = before + step;
        const double above = loss();
        element = before - step;
        const double below = loss();
        element = before;
        EXPECT_NEAR(found[static_cast<size_t>(n)], (above - below) / (2 * step), 2e-8)
            << what << "[" << n << "] " << c.text;
        ++checked;
      }
    };
    check(q, g.query, "d_query");
    check(k, g.key, "d_key");
    check(v, g.value, "d_value");
    if (options.bias.defined()) check(options.bias, g.bias, "d_bias");
    if (options.sinks.defined()) check(options.sinks, g.sinks, "d_sinks");
  }
  EXPECT_GT(checked, 500);
}

TEST(AttentionReference, AgreesWithTheOracleInDouble) {
  for (uint64_t seed = 6000; seed < 6080; ++seed) {
    const RandomCase c = random_case(seed, 30);
    AttentionOptions options = c.problem.options;
    options.bias = as_f64(options.bias);
    const Tensor q = as_f64(c.problem.q), k = as_f64(c.problem.k), v = as_f64(c.problem.v);
    oracle::AttentionCase exact = c.oracle;
    if (!options.scale) exact.scale = 1 / std::sqrt(static_cast<double>(exact.D));
    const oracle::AttentionAnswer expected = oracle::attention(exact);
    const AttentionResult r = reference::attention(q, k, v, options);
    EXPECT_TRUE(close(to_doubles(r.output), expected.out, 1e-13, "output")) << c.text;
    EXPECT_TRUE(close(to_doubles(r.logsumexp), expected.lse, 1e-13, "logsumexp")) << c.text;
    EXPECT_TRUE(close(to_doubles(r.weights), expected.weights, 1e-13, "weights")) << c.text;
    const AttentionGradients g = reference::attention_backward(as_f64(c.problem.d_out), q, k, v, options);
    expect_gradients(c, g, expected, 1e-12);
  }
}

}  // namespace
}  // namespace heed
