// The plain formula of the guide (examples/formula.h) beside the operator, over random shapes.
#include "../../examples/formula.h"

#include <gtest/gtest.h>

#include <random>

#include "heed/attention.h"

namespace heed {
namespace {

Tensor random_rows(std::mt19937& random, int64_t rows, int64_t width, float step) {
  const Tensor x = Tensor::empty({1, 1, rows, width});
  for (int64_t n = 0; n < x.numel(); ++n) x.data<float>()[n] = step * static_cast<float>(random() % 17) - 8 * step;
  return x;
}

formula::Matrix rows_of(const Tensor& x) {
  formula::Matrix rows(static_cast<size_t>(x.size(2)));
  for (int64_t i = 0; i < x.size(2); ++i) {
    for (int64_t d = 0; d < x.size(3); ++d) rows[static_cast<size_t>(i)].push_back(x.at({0, 0, i, d}));
  }
  return rows;
}

// L, S, D and Dv at random; the numbers are multiples of `step` up to 8 * step.
void expect_same(uint32_t seed, int64_t head_size, float step) {
  std::mt19937 random(seed);
  const auto size = [&](int64_t most) { return 1 + static_cast<int64_t>(random() % static_cast<uint32_t>(most)); };
  const int64_t d = head_size > 0 ? head_size : size(80);
  const Tensor q = random_rows(random, size(70), d, step);
  const Tensor k = random_rows(random, size(600), d, step);
  const Tensor v = random_rows(random, k.size(2), size(80), 0.125f);  // from -1 to 1
  const formula::Matrix expected = formula::attention(rows_of(q), rows_of(k), rows_of(v));
  const formula::Matrix found = rows_of(attention(q, k, v).output);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(found[i].size(), expected[i].size());
    for (size_t n = 0; n < expected[i].size(); ++n) {
      ASSERT_NEAR(found[i][n], expected[i][n], 4e-6)
          << "seed " << seed << ", row " << i << " of " << q.size(2) << ", " << k.size(2) << " keys, D " << d;
    }
  }
}

TEST(AttentionFormula, IsWhatTheOperatorComputes) {
  for (uint32_t seed = 0; seed < 60; ++seed) expect_same(seed, 0, 0.125f);
}

// Scores beyond 1e4, whose exp overflows even in double precision. They are whole numbers, so f32 holds them exactly.
TEST(AttentionFormula, HoldsForLargeScores) {
  for (uint32_t seed = 0; seed < 20; ++seed) expect_same(seed, 16, 16.0f);
}

}  // namespace
}  // namespace heed
