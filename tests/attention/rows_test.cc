// Rows of one head, computed alone, against the call of all rows and heads.
#include "attention/attention_case.h"
#include "attention/forward/forward.h"
#include "base/message.h"
#include "heed/error.h"

namespace heed {
namespace {

using testing::close;
using testing::KeepSettings;
using testing::Random;
using testing::random_case;
using testing::RandomCase;
using testing::same_bits;
using testing::to_doubles;

// A function of the absolute positions, beside the distance.
struct ByPosition {
  Tensor table;  // (H, 2)
  HEED_INLINE auto entry(const auto& at) const {
    using Int = decltype(at.head());
    return at.head() * Int(2) + min(max(at.ahead(), Int(0)), Int(1));
  }
  template <class Number>
  HEED_INLINE Number operator()(const Number& score, const Number& entry, const auto& at) const {
    return score + entry * Number(to_real(at.query())) * 0.01f - Number(to_real(at.key())) * 0.005f;
  }
};

void expect_rows_of_the_whole(uint64_t seed, int64_t extent) {
  RandomCase c = random_case(seed, extent);
  Random random(seed + 5);
  auto& [q, k, v, d_out, options] = c.problem;
  const int64_t heads = q.size(1), queries = q.size(2), keys = k.size(2);
  if (queries == 0 || keys == 0) return;
  if (seed % 3 == 0) options.score = score::RelativePosition{random.tensor({heads, 9}, 3), 4};
  if (seed % 3 == 1) options.score = ByPosition{random.tensor({heads, 2}, 2)};
  options.want = {.logsumexp = true, .weights = true, .scores = true};
  const AttentionResult whole = attention(q, k, v, options);

  const int64_t head = random.integer(0, heads - 1), begin = random.integer(0, queries - 1);
  const int64_t end = random.integer(begin + 1, random.chance(0.4) ? std::min(queries, begin + 4) : queries);
  const auto cut = [&](const Tensor& all) { return all.slice(1, head, head + 1).slice(2, begin, end); };
  const AttentionResult rows = attention_of_rows(q, k, v, options, head, begin, end);
  const std::string text =
      c.text + " head " + std::to_string(head) + " rows " + std::to_string(begin) + " to " + std::to_string(end);
  EXPECT_TRUE(same_bits(rows.output, cut(whole.output))) << text;
  EXPECT_TRUE(same_bits(rows.logsumexp, cut(whole.logsumexp))) << text;
  EXPECT_TRUE(same_bits(rows.weights, cut(whole.weights))) << text;
  EXPECT_TRUE(same_bits(rows.scores, cut(whole.scores))) << text;

  options.want = {.taps = {.entropy = true, .column_sums = true, .map = {.rows = 1, .columns = 1}}};
  const AttentionTapped taps = attention_of_rows(q, k, v, options, head, begin, end).taps;
  options.want.taps.map = {};
  EXPECT_TRUE(same_bits(taps.entropy, cut(attention(q, k, v, options).taps.entropy))) << text;
  const std::vector<double> weights = to_doubles(rows.weights);
  for (int64_t b = 0; b < q.size(0); ++b) {
    double total = 0;
    std::vector<double> sums(static_cast<size_t>(keys));
    for (int64_t n = 0; n < (end - begin) * keys; ++n) {
      const double weight = weights[static_cast<size_t>(b * (end - begin) * keys + n)];
      sums[static_cast<size_t>(n % keys)] += weight;
      total += weight;
    }
    EXPECT_TRUE(close(to_doubles(taps.column_sums.select(0, b)), sums, 8e-6, "column_sums")) << text;
    EXPECT_NEAR(taps.map.at({b, 0, 0, 0}), total / static_cast<double>((end - begin) * keys), 8e-6) << text;
  }
}

TEST(AttentionOfRows, AreThoseOfTheWholeCall) {
  for (uint64_t seed = 0; seed < 120; ++seed) expect_rows_of_the_whole(seed, seed % 10 == 0 ? 700 : 90);
}

TEST(AttentionOfRows, AreThoseOfTheWholeCallOnEveryInstructionSet) {
  const KeepSettings keep;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    ASSERT_EQ(active_isa(), isa);
    for (uint64_t seed = 500; seed < 515; ++seed) expect_rows_of_the_whole(seed, 60);
  }
}

TEST(AttentionOfRows, RefuseRowsAndHeadsThatAreNotThere) {
  const Tensor x = Tensor::zeros({1, 2, 5, 4});
  const auto message = [&](int64_t head, int64_t begin, int64_t end, const AttentionOptions& options = {}) {
    return testing::message_of([&] { (void)attention_of_rows(x, x, x, options, head, begin, end); });
  };
  EXPECT_EQ(message(2, 0, 5), "[attention_of_rows] a head below 2; found 2");
  EXPECT_EQ(message(0, 3, 6), "[attention_of_rows] rows from 0 to 5; found [3, 6)");
  EXPECT_EQ(message(0, 3, 2), "[attention_of_rows] rows from 0 to 5; found [3, 2)");
  EXPECT_EQ(message(0, 0, 1, {.want = {.output = x}}), "[attention_of_rows] no want.output; found one");
}

}  // namespace
}  // namespace heed
