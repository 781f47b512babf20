// Beam search against exhaustive search, and its rules one by one, on decoders that are tables.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "generate/toy.h"
#include "heed/cpu.h"
#include "heed/error.h"

namespace heed::generate {
namespace {

using test::random_logits;
using test::ToyDecoder;

constexpr int32_t kBegin = 0, kEnd = 1;

struct Found {
  Ids ids;
  double sum = 0, score = 0;
  bool finished = false;
};

double score_of(double sum, int64_t length, const BeamOptions& o) {
  const double n = static_cast<double>(length);
  return sum / std::pow(o.gnmt ? (5 + n) / 6 : n, o.length_penalty.value_or(1)) + o.length_reward * n;
}

// Every hypothesis there is: ended ones of fewer than `limit` tokens, and all of `limit` tokens.
void enumerate(const ToyDecoder::Logits& logits, int64_t source, int64_t limit, const BeamOptions& o, const Ids& ids,
               double sum, std::vector<Found>& out) {
  const int64_t length = static_cast<int64_t>(ids.size());
  if (length == limit) {
    out.push_back({ids, sum, score_of(sum, length, o), false});
    return;
  }
  Ids read = {kBegin};
  read.insert(read.end(), ids.begin(), ids.end());
  const std::vector<double> p = test::log_softmax(logits(read, source));
  for (size_t v = 0; v < p.size(); ++v) {
    const int32_t id = static_cast<int32_t>(v);
    if (std::find(o.suppressed.begin(), o.suppressed.end(), id) != o.suppressed.end()) continue;
    if (length < static_cast<int64_t>(o.prefix.size()) && o.prefix[static_cast<size_t>(length)] != id) continue;
    if (id == kEnd) {
      if (length >= o.min_length) out.push_back({ids, sum + p[v], score_of(sum + p[v], length + 1, o), true});
      continue;
    }
    Ids longer = ids;
    longer.push_back(id);
    enumerate(logits, source, limit, o, longer, sum + p[v], out);
  }
}

std::vector<Found> exhaustive(const ToyDecoder::Logits& logits, int64_t source, int64_t limit, const BeamOptions& o) {
  std::vector<Found> all;
  enumerate(logits, source, limit, o, {}, 0, all);
  std::sort(all.begin(), all.end(), [](const Found& a, const Found& b) { return a.score > b.score; });
  return all;
}

std::vector<std::vector<Hypothesis>> run(const ToyDecoder::Logits& logits, int64_t vocabulary,
                                         const std::vector<int64_t>& limits, const BeamOptions& options) {
  ToyDecoder decoder(static_cast<int64_t>(limits.size()), options.beam, vocabulary, logits);
  return beam_search(decoder, static_cast<int64_t>(limits.size()), kBegin, kEnd, limits, options);
}

void expect_exhaustive(int64_t vocabulary, int64_t limit, BeamOptions options) {
  options.beam = static_cast<int64_t>(std::pow(vocabulary, limit));
  options.n_best = 7;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const auto logits = random_logits(vocabulary, seed);
    const auto got = run(logits, vocabulary, {limit, limit}, options);
    for (int64_t source = 0; source < 2; ++source) {
      const std::vector<Found> want = exhaustive(logits, source, limit, options);
      const auto& list = got[static_cast<size_t>(source)];
      ASSERT_EQ(list.size(), std::min<size_t>(7, want.size()));
      for (size_t k = 0; k < list.size(); ++k) {
        EXPECT_EQ(list[k].ids, want[k].ids) << "seed " << seed << ", hypothesis " << k;
        EXPECT_NEAR(list[k].score, want[k].score, 1e-5);
        EXPECT_EQ(list[k].finished, want[k].finished);
        EXPECT_EQ(list[k].log_probs.size(), list[k].ids.size() + (want[k].finished ? 1 : 0));
        double sum = 0;
        for (const float p : list[k].log_probs) sum += static_cast<double>(p);
        EXPECT_NEAR(sum, want[k].sum, 1e-5);
      }
    }
  }
}

TEST(Beam, EqualsExhaustiveSearch) { expect_exhaustive(4, 4, {}); }
TEST(Beam, EqualsExhaustiveSearchWithoutPenalty) { expect_exhaustive(4, 3, {.length_penalty = 0}); }
TEST(Beam, EqualsExhaustiveSearchWithGnmtPenalty) { expect_exhaustive(4, 4, {.length_penalty = 0.6, .gnmt = true}); }
TEST(Beam, EqualsExhaustiveSearchWithLengthReward) { expect_exhaustive(4, 4, {.length_reward = 0.3}); }
TEST(Beam, EqualsExhaustiveSearchWithRewardAlone) {
  expect_exhaustive(4, 4, {.length_penalty = 0, .length_reward = 0.8});
  expect_exhaustive(4, 4, {.length_penalty = 0, .length_reward = -0.8});
}
TEST(Beam, EqualsExhaustiveSearchWithPrefix) { expect_exhaustive(4, 4, {.prefix = {3, 2}}); }
TEST(Beam, EqualsExhaustiveSearchWithSuppressedIds) { expect_exhaustive(5, 3, {.suppressed = {0, 3}}); }
TEST(Beam, EqualsExhaustiveSearchWithMinimumLength) { expect_exhaustive(4, 4, {.min_length = 3}); }

TEST(Beam, OfOneIsGreedy) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto logits = random_logits(9, seed);
    const auto got = run(logits, 9, {12}, {.beam = 1});
    Ids read = {kBegin};
    bool ended = false;
    double sum = 0;
    while (read.size() <= 12 && !ended) {
      const auto p = test::log_softmax(logits(read, 0));
      const auto best = std::max_element(p.begin(), p.end());
      sum += *best;
      const int32_t id = static_cast<int32_t>(best - p.begin());
      ended = id == kEnd;
      if (!ended) read.push_back(id);
    }
    ASSERT_EQ(got[0].size(), 1u);
    EXPECT_EQ(got[0][0].ids, Ids(read.begin() + 1, read.end()));
    EXPECT_EQ(got[0][0].finished, ended);
    EXPECT_NEAR(got[0][0].score, sum / static_cast<double>(read.size() - 1 + (ended ? 1 : 0)), 1e-5);
  }
}

TEST(Beam, WiderIsNoWorseOnAverage) {
  double narrow = 0, wide = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    narrow += run(random_logits(12, seed), 12, {8}, {.beam = 1})[0][0].score;
    wide += run(random_logits(12, seed), 12, {8}, {.beam = 8})[0][0].score;
  }
  EXPECT_GT(wide, narrow);
}

TEST(Beam, TiesGoToTheLowerRowThenTheLowerId) {
  const auto flat = [](const Ids&, int64_t) { return std::vector<float>{0, -50, 0, 0, 0}; };
  const auto got = run(flat, 5, {2}, {.beam = 3, .n_best = 3});
  // Row 0 holds token 0, row 1 token 2, row 2 token 3; all extensions are equal, so row 0 gives all three.
  EXPECT_EQ(got[0][0].ids, (Ids{0, 0}));
  EXPECT_EQ(got[0][1].ids, (Ids{0, 2}));
  EXPECT_EQ(got[0][2].ids, (Ids{0, 3}));
}

TEST(Beam, LengthPenaltyChoosesBetweenShortAndLong) {
  // Ending at once costs log 0.5; three tokens cost log 0.5 once and almost nothing after.
  const auto logits = [](const Ids& read, int64_t) {
    std::vector<float> x = {-30, -30, -30};
    if (read.size() == 1)
      x[1] = x[2] = 0;
    else if (read.size() < 4)
      x[2] = 0;
    else
      x[1] = 0;
    if (read.size() == 1) x[2] = -0.1f;
    return x;
  };
  EXPECT_EQ(run(logits, 3, {9}, {.beam = 2, .length_penalty = 0})[0][0].ids, Ids{});
  EXPECT_EQ(run(logits, 3, {9}, {.beam = 2, .length_penalty = 1})[0][0].ids, (Ids{2, 2, 2}));
  const auto gnmt = run(logits, 3, {9}, {.beam = 2, .length_penalty = 1, .gnmt = true})[0][0];
  EXPECT_EQ(gnmt.ids, (Ids{2, 2, 2}));
  double sum = 0;
  for (const float p : gnmt.log_probs) sum += static_cast<double>(p);
  EXPECT_NEAR(gnmt.score, sum / ((5.0 + 4) / 6), 1e-6);
  const auto rewarded = run(logits, 3, {9}, {.beam = 2, .length_penalty = 0, .length_reward = 0.5})[0][0];
  EXPECT_EQ(rewarded.ids, (Ids{2, 2, 2}));
  EXPECT_NEAR(rewarded.score, sum + 0.5 * 4, 1e-5);
}

TEST(Beam, SearchesOnWhileARewardMayMakeALongHypothesisTheBest) {
  // Two hypotheses of one token have 0.3 each. What goes on has 0.2, and ends for certain behind six tokens.
  const auto logits = [](const Ids& read, int64_t) {
    const auto log_of = [](double p) { return static_cast<float>(std::log(p)); };
    if (read.size() == 1) return std::vector<float>{-30, -30, log_of(0.5), log_of(0.499)};
    if (read.size() == 2) return std::vector<float>{-30, log_of(0.6), log_of(0.4), -30};
    return read.size() < 7 ? std::vector<float>{-30, -30, 0, -30} : std::vector<float>{-30, 0, -30, -30};
  };
  const BeamOptions best{.beam = 2, .length_penalty = 0, .length_reward = 0.2};
  EXPECT_EQ(run(logits, 4, {9}, best)[0][0].ids, Ids{2});
  BeamOptions possible = best;
  possible.stop_when = StopWhen::possible;
  EXPECT_EQ(run(logits, 4, {9}, possible)[0][0].ids, (Ids{2, 2, 2, 2, 2, 2}));
  possible.length_reward = -0.2;
  EXPECT_EQ(run(logits, 4, {9}, possible)[0][0].ids, Ids{2});
}

TEST(Beam, LimitsAreEachSourcesOwnAndFinishedSourcesLeave) {
  const auto endless = [](const Ids&, int64_t) { return std::vector<float>{-9, -20, 1, 0}; };
  ToyDecoder decoder(3, 2, 4, endless);
  const std::vector<int64_t> limits = {2, 7, 4};
  const auto got = beam_search(decoder, 3, kBegin, kEnd, limits, {.beam = 2});
  for (size_t s = 0; s < 3; ++s) {
    EXPECT_EQ(got[s][0].ids.size(), static_cast<size_t>(limits[s]));
    EXPECT_FALSE(got[s][0].finished);
  }
  EXPECT_EQ(decoder.steps, 7);
  EXPECT_EQ(decoder.most_rows, 6);
  EXPECT_EQ(decoder.last_rows, 2);
}

TEST(Beam, SourcesDoNotInfluenceEachOther) {
  const auto logits = random_logits(11, 5);
  const auto together = run(logits, 11, {9, 9, 9, 9}, {.beam = 3, .n_best = 3});
  for (int64_t s = 0; s < 4; ++s) {
    const auto alone =
        run([&](const Ids& read, int64_t) { return logits(read, s); }, 11, {9}, {.beam = 3, .n_best = 3});
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_EQ(alone[0][k].ids, together[static_cast<size_t>(s)][k].ids);
      EXPECT_EQ(alone[0][k].score, together[static_cast<size_t>(s)][k].score);
    }
  }
}

TEST(Beam, SameForAnyNumberOfThreads) {
  const auto logits = random_logits(300, 7, 4);
  const int before = num_threads();
  set_num_threads(1);
  const auto one = run(logits, 300, std::vector<int64_t>(9, 10), {.beam = 5, .n_best = 5});
  for (const int threads : {2, 3, 7}) {
    set_num_threads(threads);
    const auto many = run(logits, 300, std::vector<int64_t>(9, 10), {.beam = 5, .n_best = 5});
    for (size_t s = 0; s < 9; ++s)
      for (size_t k = 0; k < 5; ++k) {
        EXPECT_EQ(one[s][k].ids, many[s][k].ids);
        EXPECT_EQ(one[s][k].log_probs, many[s][k].log_probs);
      }
  }
  set_num_threads(before);
}

// Rows that wait until it is known whether they matter: less is computed, and nothing is different.
TEST(Beam, WithoutTheRowsThatDoNotMatterItIsTheSame) {
  const std::vector<int64_t> limits(40, 12);
  const std::vector<BeamOptions> cases = {
      {.beam = 5, .n_best = 5},
      {.beam = 2, .n_best = 2, .one_row = true},
      {.beam = 5, .length_penalty = 0, .stop_when = StopWhen::possible},
      {.beam = 5, .n_best = 5, .length_reward = 30, .stop_when = StopWhen::possible},
      {.beam = 4, .n_best = 4, .min_length = 4, .prefix = {3, 5}},
      {.beam = 5, .prefix = {7}, .forced_free = true, .no_repeat_ngram = 2},
      {.beam = 12, .n_best = 12, .last_id = kEnd}};
  int64_t computed = 0, all = 0;
  for (const float scale : {6.0f, 30.0f}) {
    for (size_t c = 0; c < cases.size(); ++c) {
      const BeamOptions& options = cases[c];
      // The end is among the likeliest tokens: an extension that ends keeps no place from the others.
      const auto logits = [plain = random_logits(30, 90 + c, scale), scale](const Ids& read, int64_t source) {
        std::vector<float> x = plain(read, source);
        x[kEnd] = std::fabs(x[kEnd]) + scale / 2;
        return x;
      };
      const auto search = [&](ToyDecoder& decoder) {
        return beam_search(decoder, std::ssize(limits), kBegin, kEnd, limits, options);
      };
      const int64_t rows = options.one_row ? 1 : options.beam;
      ToyDecoder whole(std::ssize(limits), rows, 30, logits), parts(std::ssize(limits), rows, 30, logits);
      parts.by_parts = true;
      parts.rows_of_part = 1 + static_cast<int64_t>(c % 5);
      const auto expected = search(whole), got = search(parts);
      computed += parts.row_steps;
      all += whole.row_steps;
      for (size_t s = 0; s < limits.size(); ++s) {
        ASSERT_EQ(got[s].size(), expected[s].size());
        for (size_t k = 0; k < got[s].size(); ++k) {
          EXPECT_EQ(got[s][k].ids, expected[s][k].ids) << "case " << c << ", source " << s;
          EXPECT_EQ(got[s][k].score, expected[s][k].score);
          EXPECT_EQ(got[s][k].log_probs, expected[s][k].log_probs);
        }
      }
    }
  }
  EXPECT_LT(computed, all * 97 / 100);
}

TEST(Beam, WhoIsToldOfEachStepIsToldOfAllRows) {
  const auto logits = random_logits(30, 90, 6);
  const std::vector<int64_t> limits(40, 12);
  ToyDecoder decoder(40, 5, 30, logits);
  decoder.by_parts = true;
  std::vector<size_t> told(13);
  const auto note = [&](const BeamStep& step) { ++told.at(static_cast<size_t>(step.length)); };
  (void)beam_search(decoder, 40, kBegin, kEnd, limits, {.beam = 5, .on_step = note});
  EXPECT_EQ(told[0], 40u);
  EXPECT_EQ(decoder.row_steps, 5 * static_cast<int64_t>(std::accumulate(told.begin(), told.end(), size_t{0})));
}

TEST(Beam, LogitsThatComeInPartsChangeNothing) {
  const auto logits = random_logits(30, 90, 6);
  const std::vector<int64_t> limits = {9, 12, 1, 7};
  for (const bool one_row : {false, true}) {
    const BeamOptions options{.beam = 5, .n_best = 5, .no_repeat_ngram = 2, .renormalised = true, .one_row = one_row};
    const auto search = [&](int64_t rows_of_part) {
      ToyDecoder decoder(4, one_row ? 1 : 5, 30, logits);
      decoder.rows_of_part = rows_of_part;
      return beam_search(decoder, 4, kBegin, kEnd, limits, options);
    };
    const auto expected = search(0);
    for (const int64_t rows_of_part : {1, 3, 19}) {
      const auto got = search(rows_of_part);
      for (size_t s = 0; s < limits.size(); ++s) {
        ASSERT_EQ(got[s].size(), expected[s].size());
        for (size_t k = 0; k < got[s].size(); ++k) {
          EXPECT_EQ(got[s][k].ids, expected[s][k].ids);
          EXPECT_EQ(got[s][k].score, expected[s][k].score);
        }
      }
    }
  }
}

TEST(Beam, ABeamWiderThanTheVocabularyWorks) {
  const auto got = run(random_logits(3, 2), 3, {5}, {.beam = 50, .n_best = 50});
  EXPECT_EQ(got[0].size(), 50u);  // of the 1+2+4+8+16 ended and 32 others
  EXPECT_TRUE(
      std::is_sorted(got[0].begin(), got[0].end(), [](const auto& a, const auto& b) { return a.score > b.score; }));
}

TEST(Beam, RefusesWhatCannotBeMeant) {
  const auto logits = random_logits(4, 1);
  EXPECT_THROW(run(logits, 4, {3}, {.beam = 0}), Error);
  ToyDecoder decoder(1, 1, 4, logits);
  for (const int64_t beam : {int64_t{10001}, int64_t{1} << 62})
    EXPECT_THROW((void)beam_search(decoder, 1, kBegin, kEnd, std::vector<int64_t>{3}, {.beam = beam}), Error);
  EXPECT_THROW(run(logits, 4, {3}, {.beam = 2, .n_best = 3}), Error);
  EXPECT_THROW(run(logits, 4, {3}, {.length_penalty = std::nan("")}), Error);
  EXPECT_THROW(run(logits, 4, {3}, {.length_reward = std::nan("")}), Error);
  EXPECT_THROW(run(logits, 4, {3}, {.suppressed = {4}}), Error);
  EXPECT_THROW(run(logits, 4, {3}, {.prefix = {-1}}), Error);
  for (const double penalty : {0.0, -1.0, HUGE_VAL, std::nan("")})
    EXPECT_THROW(run(logits, 4, {3}, {.repetition_penalty = penalty}), Error);
  for (const std::vector<Ids>& sequences : std::vector<std::vector<Ids>>{{{}}, {{1, 4}}, {{-1, 2}}})
    EXPECT_THROW(run(logits, 4, {3}, {.suppressed_sequences = sequences}), Error);
  const auto nan = [](const Ids&, int64_t) { return std::vector<float>{0, 0, std::nanf(""), 0}; };
  EXPECT_THROW(run(nan, 4, {3}, {.beam = 2}), Error);
}

TEST(Beam, SomeTokensDoNotComeFirst) {
  const auto logits = random_logits(6, 3);
  const Hypothesis usual = run(logits, 6, {4}, {.beam = 1})[0][0];
  ASSERT_FALSE(usual.ids.empty());
  const int32_t first = usual.ids[0];
  for (const Ids& prefix : {Ids(), Ids{first}}) {  // behind what is forced
    Ids read = {kBegin};
    read.insert(read.end(), prefix.begin(), prefix.end());
    std::vector<double> p = test::log_softmax(logits(read, 0));
    p[static_cast<size_t>(kEnd)] = p[static_cast<size_t>(first)] = -1e9;
    const auto best = static_cast<int32_t>(std::max_element(p.begin(), p.end()) - p.begin());
    const Hypothesis found =
        run(logits, 6, {4}, {.beam = 1, .prefix = prefix, .suppressed_first = {kEnd, first}})[0][0];
    ASSERT_GT(found.ids.size(), prefix.size());
    EXPECT_EQ(found.ids[prefix.size()], best);
  }
  EXPECT_THROW(run(logits, 6, {4}, {.suppressed_first = {6}}), Error);
}

// The same as if the decoder itself gave blocked tokens no probability.
TEST(Beam, RenormalisedProbabilitiesAreThoseOfTheTokensThatAreLeft) {
  for (const float scale : {2.0f, 30.0f}) {  // with the larger one, blocked tokens often have nearly all of it
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      const auto logits = random_logits(6, seed, scale);
      const auto without = [&](const Ids& read, int64_t source) {
        std::vector<float> x = logits(read, source);
        x[3] = x[4] = -1e4f;
        return x;
      };
      const auto found = run(logits, 6, {5}, {.beam = 3, .suppressed = {3, 4}, .renormalised = true});
      const auto expected = run(without, 6, {5}, {.beam = 3, .suppressed = {3, 4}});
      EXPECT_EQ(found[0][0].ids, expected[0][0].ids);
      EXPECT_NEAR(found[0][0].score, expected[0][0].score, 1e-5);
    }
  }
}

TEST(Beam, EverythingSuppressedGivesAnEmptyHypothesis) {
  const auto got = run(random_logits(3, 1), 3, {4}, {.beam = 2, .suppressed = {0, 1, 2}});
  ASSERT_EQ(got[0].size(), 1u);
  EXPECT_TRUE(got[0][0].ids.empty());
  EXPECT_FALSE(got[0][0].finished);
}

// Asked before each step; what is not done by then has no hypotheses, what is done keeps its own.
TEST(Beam, StopsWhenAsked) {
  const auto logits = random_logits(6, 4);
  BeamOptions options{.beam = 3};
  const auto whole = run(logits, 6, {2, 9}, options);
  int asked = 0;
  options.stop = [&] { return asked++ == 2; };
  const auto cut = run(logits, 6, {2, 9}, options);
  EXPECT_EQ(asked, 3);
  ASSERT_FALSE(cut[0].empty()) << "two steps were enough";
  EXPECT_EQ(cut[0][0].ids, whole[0][0].ids);
  EXPECT_FALSE(whole[1].empty());
  EXPECT_TRUE(cut[1].empty());
  options.stop = [] { return false; };
  EXPECT_EQ(run(logits, 6, {2, 9}, options)[1][0].ids, whole[1][0].ids);
}

}  // namespace
}  // namespace heed::generate
