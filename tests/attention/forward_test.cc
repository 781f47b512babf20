// The fused forward pass against the double-precision oracle.
#include "attention/attention_case.h"

namespace heed {
namespace {

using testing::close;
using testing::KeepSettings;
using testing::Problem;
using testing::random_case;
using testing::RandomCase;
using testing::to_doubles;

void expect_outputs_like_oracle(const RandomCase& c) {
  const oracle::AttentionAnswer expected = oracle::attention(c.oracle);
  const AttentionResult r = attention(c.problem.q, c.problem.k, c.problem.v, c.problem.options);
  EXPECT_TRUE(close(to_doubles(r.output), expected.out, 4e-6, "output")) << c.text;
  EXPECT_TRUE(close(to_doubles(r.logsumexp), expected.lse, 2e-6, "logsumexp")) << c.text;
  EXPECT_TRUE(close(to_doubles(r.weights), expected.weights, 4e-6, "weights")) << c.text;
}

TEST(TileOutputs, AgreesWithTheOracleOnRandomProblems) {
  for (uint64_t seed = 0; seed < 250; ++seed) expect_outputs_like_oracle(random_case(seed, 150));
}

TEST(TileOutputs, AgreesWithTheOracleOnEveryInstructionSet) {
  const KeepSettings keep;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    ASSERT_EQ(active_isa(), isa);
    for (uint64_t seed = 1000; seed < 1040; ++seed) expect_outputs_like_oracle(random_case(seed, 40));
  }
}

TEST(TileOutputs, MergesChunksOfKeys) {
  for (uint64_t seed = 2000; seed < 2006; ++seed) expect_outputs_like_oracle(random_case(seed, 1300));
}

// The error against f64 is no larger than that of the plain formula in f32, up to a rounding of the result.
TEST(TileOutputs, ErrsNoMoreThanThePlainFormula) {
  testing::Random random(7);
  for (const int64_t size : {16, 64, 128}) {
    Problem p{random.tensor({1, 1, 90, size}, 2),
              random.tensor({1, 1, 600, size}, 2),
              random.tensor({1, 1, 600, size}),
              {},
              {}};
    const auto expected = oracle::attention(oracle_case(p, oracle::AttentionCase::Causal::none, 0)).out;
    const auto error = [&](const Tensor& output) {
      const auto found = to_doubles(output);
      double worst = 0, sum = 0;
      for (size_t n = 0; n < found.size(); ++n) {
        worst = std::max(worst, std::fabs(found[n] - expected[n]));
        sum += std::fabs(found[n] - expected[n]);
      }
      return std::pair{worst, sum / static_cast<double>(found.size())};
    };
    const auto [plain_worst, plain_mean] = error(reference::attention(p.q, p.k, p.v, p.options).output);
    const auto [worst, mean] = error(attention(p.q, p.k, p.v, p.options).output);
    EXPECT_LE(worst, plain_worst + 6e-8) << "D = " << size;
    EXPECT_LE(mean, plain_mean + 1e-9) << "D = " << size;
  }
}

TEST(TileOutputs, OutputIsLaidOutHeadsLast) {
  testing::Random random(3);
  const auto r = attention(random.tensor({2, 3, 5, 4}), random.tensor({2, 3, 7, 4}), random.tensor({2, 3, 7, 6}));
  EXPECT_EQ(r.output.shape(), (Shape{2, 3, 5, 6}));
  EXPECT_TRUE(r.output.transpose(1, 2).is_contiguous());
  EXPECT_FALSE(r.logsumexp.defined());
  EXPECT_FALSE(r.weights.defined());
}

TEST(TileOutputs, WritesItsOutputWhereItIsWanted) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const RandomCase c = random_case(seed, 100);
    AttentionOptions options = c.problem.options;
    const Tensor expected = attention(c.problem.q, c.problem.k, c.problem.v, options).output;
    const auto [b, h, l, dv] = std::array{expected.size(0), expected.size(1), expected.size(2), expected.size(3)};
    const Tensor memory = Tensor::full({h, b, l + 1, dv + 3}, 7);  // heads outermost, room around every row
    options.want.output = memory.transpose(0, 1).slice(2, 0, l).slice(3, 0, dv);
    const Tensor found = attention(c.problem.q, c.problem.k, c.problem.v, options).output;
    EXPECT_EQ(found.raw(), memory.raw());
    EXPECT_TRUE(testing::same_bits(found.contiguous(), expected.contiguous())) << c.text;
    for (int64_t n = 0; n < memory.numel(); ++n) {
      const bool inside = n % (dv + 3) < dv && n / (dv + 3) % (l + 1) < l;
      if (inside) continue;
      ASSERT_EQ(memory.data<float>()[n], 7) << c.text;
    }
    const auto plain = reference::attention(c.problem.q, c.problem.k, c.problem.v, options).output;
    EXPECT_EQ(plain.raw(), memory.raw());
    EXPECT_TRUE(close(to_doubles(plain), to_doubles(expected), 4e-6, "output")) << c.text;
  }
}

// Integers whose sums are exact: index errors cannot hide in a tolerance. With scale 0 all weights are 1 / keys.
TEST(TileOutputs, AveragesIntegersExactly) {
  for (const int64_t keys : {1, 2, 64, 512, 1024}) {
    Tensor v = Tensor::empty({1, 1, keys, 20});
    for (int64_t n = 0; n < v.numel(); ++n) v.data<float>()[n] = static_cast<float>(n % 977);
    const Tensor q = Tensor::full({1, 1, 50, 3}, 1), k = Tensor::full({1, 1, keys, 3}, 1);
    const auto r = attention(q, k, v, {.scale = 0.0f});
    for (int64_t d = 0; d < 20; ++d) {
      double sum = 0;
      for (int64_t j = 0; j < keys; ++j) sum += v.at({0, 0, j, d});
      for (int64_t i = 0; i < 50; ++i)
        ASSERT_EQ(r.output.at({0, 0, i, d}), static_cast<double>(static_cast<float>(sum / static_cast<double>(keys))));
    }
  }
}

TEST(TileOutputs, DropoutKeepsTheShareItShould) {
  for (const float rate : {0.1f, 0.5f, 0.9f}) {
    int64_t kept = 0, total = 0;
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t h = 0; h < 4; ++h) {
        for (int64_t i = 0; i < 100; ++i) {
          for (int64_t j = 0; j < 250; ++j, ++total) kept += attention_dropout_keeps({rate, 42}, b, h, i, j);
        }
      }
    }
    const double n = static_cast<double>(total), p = 1 - static_cast<double>(rate);
    EXPECT_NEAR(static_cast<double>(kept), n * p, 5 * std::sqrt(n * p * (1 - p)));
  }
}

TEST(TileOutputs, DropoutDependsOnEveryPartOfItsKey) {
  const auto differ = [](auto a, auto b) {
    int count = 0;
    for (int64_t j = 0; j < 400; ++j) count += a(j) != b(j);
    return count;
  };
  const auto keeps = [](uint64_t seed, int64_t b, int64_t h, int64_t i) {
    return [=](int64_t j) { return attention_dropout_keeps({0.5f, seed}, b, h, i, j); };
  };
  const auto base = keeps(1, 0, 0, 0);
  for (const auto& other : {keeps(2, 0, 0, 0), keeps(1 + (uint64_t{1} << 63), 0, 0, 0), keeps(1, 1, 0, 0),
                            keeps(1, 0, 1, 0), keeps(1, 0, 0, 1)}) {
    EXPECT_GT(differ(base, other), 130);
    EXPECT_LT(differ(base, other), 270);
  }
}

}  // namespace
}  // namespace heed
