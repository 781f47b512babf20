// Taps against the oracle's table of all weights: entropy, top keys, column sums, pooled maps, chosen rows.
#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/attention_case.h"
#include "base/message.h"
#include "heed/error.h"
#include "heed/memory.h"

namespace heed {
namespace {

using testing::close;
using testing::KeepSettings;
using testing::Random;
using testing::random_case;
using testing::RandomCase;
using testing::same_bits;
using testing::to_doubles;

// Every tap, in extents that fit the problem.
AttentionTaps random_taps(Random& random, const oracle::AttentionCase& c) {
  AttentionTaps taps;
  taps.entropy = taps.column_sums = true;
  taps.top_k = random.integer(0, std::min<int64_t>(c.S, 9));
  if (c.L > 0 && c.S > 0) {
    taps.map = {random.integer(1, c.L), random.integer(1, c.S), random.chance(0.5)};
    for (int64_t n = random.integer(0, 4); n > 0; --n) {
      const AttentionTaps::Row row{random.integer(0, c.H - 1), random.integer(0, c.L - 1)};
      const bool there = std::any_of(taps.rows.begin(), taps.rows.end(), [&](const AttentionTaps::Row& other) {
        return other.head == row.head && other.query == row.query;
      });
      if (!there) taps.rows.push_back(row);
    }
  }
  return taps;
}

// What the taps must be, from the weights (B, H, L, S) by their definitions.
struct Expected {
  const oracle::AttentionCase& c;
  const std::vector<double>& weights;
  [[nodiscard]] double w(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return weights[static_cast<size_t>(((b * c.H + h) * c.L + i) * c.S + j)];
  }
  [[nodiscard]] std::vector<double> entropy() const {
    std::vector<double> all;
    for (int64_t r = 0; r < c.B * c.H * c.L; ++r) {
      double sum = 0;
      for (int64_t j = 0; j < c.S; ++j) {
        const double x = weights[static_cast<size_t>(r * c.S + j)];
        if (x > 0) sum -= x * std::log(x);
      }
      all.push_back(sum);
    }
    return all;
  }
  [[nodiscard]] std::vector<double> column_sums() const {
    std::vector<double> all;
    for (int64_t b = 0; b < c.B; ++b) {
      for (int64_t h = 0; h < c.H; ++h) {
        for (int64_t j = 0; j < c.S; ++j) {
          double sum = 0;
          for (int64_t i = 0; i < c.L; ++i) sum += w(b, h, i, j);
          all.push_back(sum);
        }
      }
    }
    return all;
  }
  [[nodiscard]] std::vector<double> map(const AttentionTaps::Map& m) const {
    std::vector<double> sums(static_cast<size_t>(c.B * c.H * m.rows * m.columns)), counts(sums.size());
    // The cell that position n of `length` belongs to: the one that begins last at or before it.
    const auto cell_of = [](int64_t n, int64_t length, int64_t cells) {
      int64_t cell = std::min(cells - 1, (n + 1) * cells / length + 1);
      while (cell * length / cells > n) --cell;
      return cell;
    };
    for (int64_t b = 0; b < c.B; ++b) {
      for (int64_t h = 0; h < c.H; ++h) {
        for (int64_t i = 0; i < c.L; ++i) {
          for (int64_t j = 0; j < c.S; ++j) {
            const int64_t row = (b * c.H + h) * m.rows + cell_of(i, c.L, m.rows);
            const auto n = static_cast<size_t>(row * m.columns + cell_of(j, c.S, m.columns));
            sums[n] = m.largest ? std::max(sums[n], w(b, h, i, j)) : sums[n] + w(b, h, i, j);
            counts[n] += 1;
          }
        }
      }
    }
    for (size_t n = 0; n < sums.size() && !m.largest; ++n) sums[n] /= counts[n];
    return sums;
  }
};

// Each found weight is that of its key, and the n-th largest of the row.
void expect_top(const AttentionTapped& tapped, const Expected& expected, int64_t k, double tolerance,
                const std::string& text) {
  const oracle::AttentionCase& c = expected.c;
  const std::vector<double> keys = to_doubles(tapped.top_keys), found = to_doubles(tapped.top_weights);
  ASSERT_EQ(tapped.top_keys.shape(), (Shape{c.B, c.H, c.L, k})) << text;
  for (int64_t r = 0; r < c.B * c.H * c.L; ++r) {
    const auto begin = expected.weights.begin() + r * c.S;
    std::vector<double> row(begin, begin + c.S);
    std::vector<bool> seen(row.size());
    std::vector<double> descending = row;
    std::sort(descending.rbegin(), descending.rend());
    for (int64_t n = 0; n < k; ++n) {
      const auto at = static_cast<size_t>(r * k + n);
      ASSERT_NEAR(found[at], descending[static_cast<size_t>(n)], tolerance) << text << " row " << r << " place " << n;
      if (keys[at] < 0) {
        ASSERT_EQ(found[at], 0) << text;
        continue;
      }
      const auto j = static_cast<size_t>(keys[at]);
      ASSERT_FALSE(seen[j]) << text << " key " << j << " twice";
      seen[j] = true;
      ASSERT_NEAR(found[at], row[j], tolerance) << text << " key " << j;
      ASSERT_GT(found[at], 0) << text;
    }
  }
}

void expect_taps(const AttentionTapped& tapped, const AttentionTaps& taps, const Expected& expected, double tolerance,
                 const std::string& text) {
  const oracle::AttentionCase& c = expected.c;
  EXPECT_TRUE(close(to_doubles(tapped.entropy), expected.entropy(), tolerance, "entropy")) << text;
  EXPECT_TRUE(close(to_doubles(tapped.column_sums), expected.column_sums(), tolerance, "column_sums")) << text;
  if (taps.top_k > 0) expect_top(tapped, expected, taps.top_k, tolerance, text);
  EXPECT_EQ(tapped.top_keys.defined(), taps.top_k > 0);
  if (taps.map.rows > 0) {
    EXPECT_EQ(tapped.map.shape(), (Shape{c.B, c.H, taps.map.rows, taps.map.columns})) << text;
    EXPECT_TRUE(close(to_doubles(tapped.map), expected.map(taps.map), tolerance, "map")) << text;
  }
  EXPECT_EQ(tapped.rows.defined(), !taps.rows.empty());
  std::vector<double> rows;
  for (int64_t b = 0; b < c.B; ++b) {
    for (const AttentionTaps::Row& row : taps.rows) {
      for (int64_t j = 0; j < c.S; ++j) rows.push_back(expected.w(b, row.head, row.query, j));
    }
  }
  if (!taps.rows.empty()) {
    EXPECT_TRUE(close(to_doubles(tapped.rows), rows, tolerance, "rows")) << text;
  }
}

void expect_taps_like_oracle(uint64_t seed, int64_t extent) {
  RandomCase c = random_case(seed, extent);
  Random random(seed + 77);
  AttentionOptions& o = c.problem.options;
  o.want = {.taps = random_taps(random, c.oracle)};
  const std::vector<double> weights = oracle::attention(c.oracle).weights;
  const AttentionResult r = attention(c.problem.q, c.problem.k, c.problem.v, o);
  EXPECT_FALSE(r.logsumexp.defined());
  expect_taps(r.taps, o.want.taps, {c.oracle, weights}, 8e-6, c.text);
}

TEST(AttentionTaps, AgreeWithTheOracleOnRandomProblems) {
  for (uint64_t seed = 0; seed < 150; ++seed) expect_taps_like_oracle(seed, seed % 10 == 0 ? 700 : 130);
}

TEST(AttentionTaps, AgreeWithTheOracleOnEveryInstructionSet) {
  const KeepSettings keep;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    ASSERT_EQ(active_isa(), isa);
    for (uint64_t seed = 1000; seed < 1030; ++seed) expect_taps_like_oracle(seed, 60);
  }
}

TEST(AttentionTaps, OfTheReferenceAgreeWithTheOracle) {
  for (uint64_t seed = 3000; seed < 3030; ++seed) {
    RandomCase c = random_case(seed, 30);
    Random random(seed);
    AttentionOptions o = c.problem.options;
    o.want = {.taps = random_taps(random, c.oracle)};
    const std::vector<double> weights = oracle::attention(c.oracle).weights;
    const AttentionResult r = reference::attention(c.problem.q, c.problem.k, c.problem.v, o);
    EXPECT_FALSE(r.weights.defined());
    expect_taps(r.taps, o.want.taps, {c.oracle, weights}, 8e-6, c.text);
  }
}

void expect_same(const AttentionTapped& a, const AttentionTapped& b, const std::string& text) {
  EXPECT_TRUE(same_bits(a.entropy, b.entropy)) << text;
  EXPECT_TRUE(same_bits(a.top_keys, b.top_keys)) << text;
  EXPECT_TRUE(same_bits(a.top_weights, b.top_weights)) << text;
  EXPECT_TRUE(same_bits(a.column_sums, b.column_sums)) << text;
  EXPECT_TRUE(same_bits(a.map, b.map)) << text;
  EXPECT_TRUE(same_bits(a.rows, b.rows)) << text;
}

TEST(AttentionTaps, HaveTheSameBitsOnEveryInstructionSetWithAnyThreads) {
  const KeepSettings keep;
  for (uint64_t seed = 2000; seed < 2030; ++seed) {
    RandomCase c = random_case(seed, seed % 3 == 0 ? 300 : 70);
    Random random(seed);
    c.problem.options.want = {.taps = random_taps(random, c.oracle)};
    const auto run = [&] { return attention(c.problem.q, c.problem.k, c.problem.v, c.problem.options).taps; };
    set_isa(available_isas().back());
    set_num_threads(1);
    const AttentionTapped expected = run();
    for (const Isa isa : available_isas()) {
      set_isa(isa);
      for (const int threads : {1, 2, 3, 7}) {
        if (isa == Isa::portable && threads != 2) continue;  // slow there
        set_num_threads(threads);
        expect_same(run(), expected,
                    c.text + " on " + std::string(to_string(isa)) + " with " + std::to_string(threads) + " threads");
      }
    }
  }
}

TEST(AttentionTaps, OfASequenceAreTheSameAloneAndInABatch) {
  Random random(4);
  const Tensor q = random.tensor({3, 4, 70, 16}, 3), k = random.tensor({3, 2, 90, 16}),
               v = random.tensor({3, 2, 90, 16});
  AttentionOptions o{.causal = Causal::bottom_right()};
  o.want.taps = {.entropy = true, .top_k = 3, .column_sums = true, .map = {7, 9}, .rows = {{3, 69}, {0, 0}}};
  const AttentionTapped all = attention(q, k, v, o).taps;
  for (int64_t b = 0; b < 3; ++b) {
    const auto cut = [b](const Tensor& t) { return t.slice(0, b, b + 1); };
    const AttentionTapped one = attention(cut(q), cut(k), cut(v), o).taps;
    expect_same({cut(all.entropy),
                 cut(all.top_keys),
                 cut(all.top_weights),
                 cut(all.column_sums),
                 cut(all.map),
                 cut(all.rows),
                 {}},
                one, "sequence " + std::to_string(b));
  }
}

TEST(AttentionTaps, OfEqualWeightsTakeTheSmallerKeyFirst) {
  AttentionOptions o{.scale = 0.0f, .causal = Causal::top_left()};
  o.want.taps.top_k = 3;
  const Tensor x = Tensor::full({1, 1, 5, 4}, 1);
  const AttentionTapped tapped = attention(x, x, x, o).taps;
  const std::vector<double> keys = to_doubles(tapped.top_keys);
  EXPECT_EQ(keys, (std::vector<double>{0, -1, -1, 0, 1, -1, 0, 1, 2, 0, 1, 2, 0, 1, 2}));
}

// Scores of few different numbers: nearly all weights have equals.
TEST(AttentionTaps, OfTheTopAreTheRowsInOrderOfWeightThenOfKey) {
  const KeepSettings keep;
  Random random(8);
  const auto coarse = [&](const Shape& shape) {
    const Tensor x = random.tensor(shape);
    for (int64_t n = 0; n < x.numel(); ++n) x.data<float>()[n] = std::round(x.data<float>()[n]);
    return x;
  };
  const Tensor q = coarse({1, 2, 60, 2}), k = coarse({1, 2, 150, 2}), v = coarse({1, 2, 150, 2});
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    for (const int64_t top : {1, 3, 8, 16, 17, 150}) {
      AttentionOptions o{.causal = Causal::bottom_right()};
      o.want.taps.top_k = top;
      const AttentionResult r = attention(q, k, v, o);
      for (int64_t row = 0; row < 120; row += 7) {
        AttentionOptions chosen = o;
        chosen.want.taps = {.rows = {{row / 60, row % 60}}};
        const Tensor weights = attention(q, k, v, chosen).taps.rows;
        std::vector<int32_t> keys(150);
        for (int32_t j = 0; j < 150; ++j) keys[static_cast<size_t>(j)] = j;
        std::stable_sort(keys.begin(), keys.end(),
                         [&](int32_t a, int32_t b) { return weights.data<float>()[a] > weights.data<float>()[b]; });
        for (int64_t n = 0; n < top; ++n) {
          const int32_t key = keys[static_cast<size_t>(n)];
          const float weight = weights.data<float>()[key];
          ASSERT_EQ(r.taps.top_weights.data<float>()[row * top + n], weight) << row << ' ' << n << " of " << top;
          ASSERT_EQ(r.taps.top_keys.data<int32_t>()[row * top + n], weight > 0 ? key : -1) << row << ' ' << n;
        }
      }
    }
  }
}

// From the forward pass, and from passes of their own: in decoding, and where tiles span the heads of a group.
TEST(AttentionTaps, HaveTheSameBitsTogetherAndApart) {
  const KeepSettings keep;
  Random random(9);
  for (const int threads : {1, 3, 16}) {
    set_num_threads(threads);
    for (const bool largest : {false, true}) {
      const Tensor q = random.tensor({2, 4, 20, 24}, 3), k = random.tensor({2, 2, 600, 24}),
                   v = random.tensor({2, 2, 600, 24});
      const auto each = [](const Tensor& x) {  // every query head its own, as in a call without groups
        const Tensor wide = Tensor::empty({2, 4, 600, 24});
        for (int64_t h = 0; h < 4; ++h) wide.slice(1, h, h + 1).copy_from(x.slice(1, h / 2, h / 2 + 1));
        return wide;
      };
      AttentionOptions o{.causal = Causal::offset(400), .dropout = {.rate = 0.1f, .seed = 3}};
      o.want.taps = {.entropy = true, .top_k = 5, .column_sums = true, .map = {6, 13, largest}, .rows = {{3, 19}}};
      const AttentionTapped spanning = attention(q, k, v, o).taps;
      expect_same(spanning, attention(q, each(k), each(v), o).taps, "heads of a group");

      AttentionOptions few{.causal = Causal::offset(400)}, many = few;
      few.want.taps = {.entropy = true, .top_k = 5, .rows = {{3, 1}}};
      many.want.taps = few.want.taps;
      const AttentionTapped tiles = attention(q, k, v, many).taps;
      const AttentionTapped rows = attention(q.slice(2, 0, 2), k, v, few).taps;
      EXPECT_TRUE(same_bits(rows.entropy, tiles.entropy.slice(2, 0, 2)));
      EXPECT_TRUE(same_bits(rows.top_keys, tiles.top_keys.slice(2, 0, 2)));
      EXPECT_TRUE(same_bits(rows.top_weights, tiles.top_weights.slice(2, 0, 2)));
      EXPECT_TRUE(same_bits(rows.rows, tiles.rows));
    }
  }
}

TEST(AttentionTaps, ShowANaNWhereItIsAttendedTo) {
  Random random(5);
  const Tensor q = random.tensor({1, 1, 60, 8}), k = random.tensor({1, 1, 60, 8}), v = random.tensor({1, 1, 60, 8});
  q.data<float>()[50 * 8 + 3] = std::numeric_limits<float>::quiet_NaN();
  for (const bool largest : {false, true}) {
    AttentionOptions o{.causal = Causal::top_left()};
    o.want.taps = {.entropy = true, .top_k = 2, .column_sums = true, .map = {60, 1, largest}, .rows = {{0, 50}}};
    const AttentionTapped tapped = attention(q, k, v, o).taps;
    const std::vector<double> entropy = to_doubles(tapped.entropy), map = to_doubles(tapped.map),
                              sums = to_doubles(tapped.column_sums), row = to_doubles(tapped.rows);
    for (size_t i = 0; i < 60; ++i) {
      EXPECT_EQ(std::isnan(entropy[i]), i == 50) << i;
      EXPECT_EQ(std::isnan(map[i]), i == 50) << i;
      EXPECT_EQ(std::isnan(sums[i]), i <= 50) << i;
      EXPECT_EQ(std::isnan(row[i]), i <= 50) << i;
    }
    EXPECT_EQ(to_doubles(tapped.top_keys)[100], -1);
  }
}

TEST(AttentionTaps, NeedMemoryLinearInTheLength) {
  const int64_t length = 3000;  // all weights: 36 MB
  const Tensor x = Random(6).tensor({1, 1, length, 8});
  AttentionOptions o;
  o.want.taps = {.entropy = true, .top_k = 4, .column_sums = true, .map = {30, 30}, .rows = {{0, 7}}};
  reset_peak_memory();
  const int64_t before = memory_stats().bytes_in_use;
  const AttentionTapped tapped = attention(x, x, x, o).taps;
  EXPECT_LT(memory_stats().peak_bytes - before, 4'000'000);
}

TEST(AttentionTaps, RefuseWhatDoesNotFit) {
  const Tensor q = Tensor::zeros({1, 2, 5, 4}), k = Tensor::zeros({1, 1, 7, 4});
  const auto message = [&](const AttentionTaps& taps) {
    return testing::message_of([&] { (void)attention(q, k, k, {.want = {.taps = taps}}); });
  };
  EXPECT_EQ(message({.top_k = 8}), "[attention] taps.top_k from 0 to S = 7; found 8");
  EXPECT_EQ(message({.top_k = -1}), "[attention] taps.top_k from 0 to S = 7; found -1");
  EXPECT_EQ(message({.map = {6, 7}}), "[attention] a taps.map of 0 x 0, or from 1 x 1 to L x S = 5 x 7; found 6 x 7");
  EXPECT_EQ(message({.map = {0, 7}}), "[attention] a taps.map of 0 x 0, or from 1 x 1 to L x S = 5 x 7; found 0 x 7");
  EXPECT_EQ(message({.rows = {{2, 0}}}),
            "[attention] taps.rows with a head below H = 2 and a query below L = 5; found (2, 0)");
  EXPECT_EQ(message({.rows = {{1, 4}, {0, 4}, {1, 4}}}), "[attention] no pair of taps.rows twice; found (1, 4) twice");
}

}  // namespace
}  // namespace heed
