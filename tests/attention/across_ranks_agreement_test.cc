// Attention across ranks: score functions, and the arguments of redistribute(), are compared between ranks before
// anything is sent.
#include "attention/across_ranks_case.h"

namespace heed::distributed {
namespace {

using testing::messages_of_ranks;
using testing::part_of;
using testing::plain_problem;
using testing::Problem;

// What three ranks say of attention() with another score function on rank 1.
std::vector<std::string> with_scores(const Score& all, const Score& other) {
  const Problem p = plain_problem(2, 4, 2, 90, 120, 8);
  const AttentionLayouts layouts{.queries = SequenceLayout::contiguous(90, 3),
                                 .keys = SequenceLayout::contiguous(120, 3)};
  return messages_of_ranks(3, [&](Communicator& own) {
    Problem part = part_of(p, layouts, own.rank());
    part.options.score = own.rank() == 1 ? other : all;
    (void)attention(own, part.q, part.k, part.v, part.options, layouts);
  });
}

// Adds to the score of keys at most `reach` positions before the query.
struct Near {
  float reach, bonus;
  template <class Number>
  HEED_INLINE Number operator()(const Number& score, const auto& at) const {
    const Number distance(at.distance());
    return select(distance < Number(reach), score + Number(bonus), score);
  }
};
// score + factor * table[h]
struct OfHead {
  Tensor table;
  float factor;
  HEED_INLINE auto entry(const auto& at) const { return at.head(); }
  template <class Number>
  HEED_INLINE Number operator()(const Number& score, const Number& w, const auto&) const {
    return score + w * Number(factor);
  }
};
// Another element of the table.
struct OfNextHead : OfHead {
  HEED_INLINE auto entry(const auto& at) const { return at.head() + 1; }
};

TEST(AcrossRanksScores, AreComparedByWhatTheyReturn) {
  for (const std::string& message : with_scores(score::Softcap{20}, score::Softcap{30})) {
    EXPECT_CONTAINS(message, "[distributed::attention] the same result of the score function on all ranks; found ");
    EXPECT_CONTAINS(message,
                    "-2.9777 with slope 0.977833 for a score of -3 (sequence 0, head 0, query 0, key 31) on rank 0");
    EXPECT_CONTAINS(message, "-2.99004 with slope 0.990066 for a score of -3");
  }
  for (const auto& [all, other] : {std::pair<Score, Score>{score::Gaussian{1}, score::Gaussian{2}},
                                   {score::Boxcar{1}, score::Boxcar{2}},
                                   {score::Epanechnikov{3}, score::Epanechnikov{4}},
                                   {score::Softcap{50}, score::Gaussian{1}},
                                   {Near{4, 1}, Near{6, 1}},
                                   {Near{4, 1}, Near{4, 1.5f}}}) {
    for (const std::string& message : with_scores(all, other)) {
      EXPECT_CONTAINS(message, "the same result of the score function on all ranks");
    }
    for (const std::string& message : with_scores(other, other)) EXPECT_EQ(message, "");
  }
}

TEST(AcrossRanksScores, WithATableAreComparedByWhatTheyDoWithIt) {
  testing::Random random(3);
  const Tensor table = random.tensor({4}), another = random.tensor({4});
  for (const std::string& message : with_scores(OfHead{table, 1}, OfHead{table, 2})) {
    EXPECT_CONTAINS(message,
                    "the same result of the score function on all ranks; found -3 with slope 1, and slope 1 for");
  }
  for (const std::string& message : with_scores(OfHead{table, 1}, OfNextHead{{table, 1}})) {
    EXPECT_CONTAINS(message, "and slope 1 for table element 1,");
  }
  for (const std::string& message : with_scores(OfHead{table, 1}, OfHead{another, 1})) {
    EXPECT_CONTAINS(message, "the same score function on all ranks; found one with a table");
  }
  for (const std::string& message : with_scores(OfHead{table, 1}, OfHead{table.clone(), 1})) EXPECT_EQ(message, "");
}

// What three ranks say of redistribute() with something else on rank 1.
struct Move {
  Tensor rows = Tensor::zeros({2, 3, 10, 5});
  SequenceLayout from = SequenceLayout::contiguous(30, 3), to = SequenceLayout::zig_zag(30, 3);
};
void expect_refused(const std::string& text, const std::function<void(Move&)>& change) {
  const auto messages = messages_of_ranks(3, [&](Communicator& own) {
    Move move;
    if (own.rank() == 1) change(move);
    (void)redistribute(own, move.rows, move.from, move.to);
  });
  for (const std::string& message : messages) EXPECT_CONTAINS(message, text);
}

TEST(Redistribute, IsRefusedByAllRanks) {
  expect_refused("[redistribute] the same batch size on all ranks; found 2 on rank 0 (thread) and 1 on rank 1 (thread)",
                 [](Move& m) { m.rows = m.rows.slice(0, 0, 1); });
  expect_refused("the same number of heads on all ranks; found 3", [](Move& m) { m.rows = m.rows.slice(1, 0, 2); });
  expect_refused("the same number of columns on all ranks", [](Move& m) { m.rows = m.rows.slice(3, 0, 2); });
  expect_refused("the same dtype on all ranks; found f32", [](Move& m) { m.rows = m.rows.to(DType::bf16); });
  expect_refused("the same layout before on all ranks; found [0 to 10] [10 to 20] [20 to 30] on rank 0",
                 [](Move& m) { std::swap(m.from.runs[0], m.from.runs[2]); });
  expect_refused("the same layout after on all ranks", [](Move& m) { m.to = m.from; });
  expect_refused("a tensor (B, H, L, D) with 10 rows; found (2, 3, 9, 5)",
                 [](Move& m) { m.rows = m.rows.slice(2, 0, 9); });
  expect_refused("found an undefined one", [](Move& m) { m.rows = Tensor(); });
  expect_refused("layouts for 3 ranks; found one for 2", [](Move& m) { m.to = SequenceLayout::contiguous(30, 2); });
  expect_refused("layouts of one length; found 30 and 33", [](Move& m) { m.to = SequenceLayout::contiguous(33, 3); });
  expect_refused("every position belongs to one rank", [](Move& m) { m.to.runs[0] = {{0, 3}}; });
}

}  // namespace
}  // namespace heed::distributed
