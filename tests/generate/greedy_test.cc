// Greedy search without scores: the tokens of a beam of 1 with scores.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "generate/toy.h"
#include "heed/cpu.h"
#include "heed/error.h"
#include "heed/ops.h"

namespace heed::generate {
namespace {

using test::random_logits;
using test::ToyDecoder;

constexpr int32_t kFirst = 0, kLast = 1;

// Counts the steps that need no logits.
class CountingDecoder : public ToyDecoder {
 public:
  using ToyDecoder::ToyDecoder;
  std::vector<int32_t> step_greedy(const Tensor& tokens, std::span<const uint8_t> excluded) override {
    ++greedy_steps;
    return ToyDecoder::step_greedy(tokens, excluded);
  }
  int64_t greedy_steps = 0;
};

std::vector<std::vector<Hypothesis>> search(const ToyDecoder::Logits& logits, const std::vector<int64_t>& limits,
                                            const BeamOptions& options, int64_t* greedy_steps = nullptr) {
  CountingDecoder decoder(std::ssize(limits), 1, 12, logits);
  auto found = beam_search(decoder, std::ssize(limits), kFirst, kLast, limits, options);
  if (greedy_steps != nullptr) *greedy_steps = decoder.greedy_steps;
  return found;
}

void expect_same_tokens(const std::vector<std::vector<Hypothesis>>& found,
                        const std::vector<std::vector<Hypothesis>>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t s = 0; s < found.size(); ++s) {
    ASSERT_EQ(found[s].size(), expected[s].size()) << s;
    if (found[s].empty()) continue;
    EXPECT_EQ(found[s][0].ids, expected[s][0].ids) << s;
    EXPECT_EQ(found[s][0].finished, expected[s][0].finished) << s;
    EXPECT_TRUE(std::isnan(found[s][0].score)) << s;
    EXPECT_TRUE(found[s][0].log_probs.empty()) << s;
  }
}

TEST(Greedy, TheTokensOfABeamOfOne) {
  const std::vector<int64_t> limits = {9, 1, 0, 5, 9, 9, 3};
  std::vector<BeamOptions> all = {
      {},
      {.min_length = 4},
      {.prefix = {5, kLast, 7}},
      {.last_id = kLast},
      {.prefix = {3}, .last_id = 4, .suppressed = {2, 6, 8}, .suppressed_first = {kLast, 9}},
      {.suppressed = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
      {.length_penalty = -1.0, .length_reward = 3.0, .stop_when = StopWhen::worst},
      {.stop_when = StopWhen::full, .renormalised = true},
  };
  for (BeamOptions& options : all) {
    options.beam = 1;
    for (uint64_t seed = 1; seed <= 30; ++seed) {
      const auto logits = random_logits(12, seed, seed % 3 == 0 ? 0.0f : 2.0f);
      options.scores = true;
      const auto expected = search(logits, limits, options);
      options.scores = false;
      int64_t greedy_steps = 0;
      expect_same_tokens(search(logits, limits, options, &greedy_steps), expected);
      EXPECT_GT(greedy_steps, 0);
    }
  }
}

// As in transformers: where one token is all that there may be, the forced last one counts more than the forced first.
TEST(Greedy, TheLastTokenComesBeforeThePrefix) {
  for (const int64_t beam : {1, 3}) {
    for (const bool scores : {true, false}) {
      const BeamOptions options{.beam = beam, .scores = scores, .prefix = {7}, .last_id = kLast, .one_row = true};
      const auto found = search(random_logits(12, 5), {1, 2}, options);
      EXPECT_TRUE(found.at(0).at(0).finished) << beam;
      EXPECT_EQ(found.at(0).at(0).ids, Ids()) << beam;
      EXPECT_TRUE(found.at(1).at(0).finished) << beam;
      EXPECT_EQ(found.at(1).at(0).ids, (Ids{7})) << beam;
    }
  }
}

// What needs more than the largest logit takes the logits, and has no scores either.
TEST(Greedy, OtherSearchesAreAsTheyWere) {
  const std::vector<int64_t> limits = {9, 5};
  int64_t told = 0;
  std::vector<BeamOptions> all = {{.beam = 3},
                                  {.beam = 1, .no_repeat_ngram = 2},
                                  {.beam = 1, .repetition_penalty = 3},
                                  {.beam = 1, .suppressed_sequences = {{3, 4}, {4, 3}, {5, 5}}},
                                  {.beam = 1, .stop_when = StopWhen::possible},
                                  {.beam = 1, .on_step = [&told](const BeamStep&) { ++told; }}};
  for (BeamOptions& options : all) {
    const auto logits = random_logits(12, 5);
    options.one_row = true;
    const auto expected = search(logits, limits, options);
    options.scores = false;
    int64_t greedy_steps = -1;
    expect_same_tokens(search(logits, limits, options, &greedy_steps), expected);
    EXPECT_EQ(greedy_steps, 0);
  }
  EXPECT_GT(told, 0);
}

TEST(Greedy, LogitsThatAreNoNumbersAndWrongOptionsAreErrors) {
  const auto nan = [](const Ids&, int64_t source) {
    return std::vector<float>(12, source == 1 ? std::numeric_limits<float>::quiet_NaN() : 0.0f);
  };
  for (const bool scores : {true, false}) {
    try {
      (void)search(nan, {4, 4}, {.beam = 1, .scores = scores});
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "[beam_search] logits that are numbers; the model gave NaN or infinity");
    }
    EXPECT_THROW((void)search(nan, {4}, {.beam = 1, .n_best = 2, .scores = scores}), Error);
    EXPECT_THROW((void)search(nan, {4}, {.beam = 1, .scores = scores, .length_penalty = NAN}), Error);
  }
}

TEST(Greedy, EndsWhenAsked) {
  int asked = 0;
  const auto never_ends = [](const Ids& read, int64_t source) {
    std::vector<float> x(12, 0.0f);
    x[source == 0 && read.size() == 2 ? kLast : 5] = 3;
    return x;
  };
  const auto found =
      search(never_ends, {90, 90}, {.beam = 1, .scores = false, .stop = [&asked] { return ++asked == 4; }});
  ASSERT_EQ(found[0].size(), 1u);
  EXPECT_EQ(found[0][0].ids, (Ids{5}));
  EXPECT_TRUE(found[1].empty());
}

// A real model: enough rows that it knows the largest logits without most of the others.
TEST(Greedy, AModelWithItsWeightsPacked) {
  const Isa usual = active_isa();
  models::Config config;
  config.source_vocabulary = config.target_vocabulary = 300;
  config.width = 48, config.heads = 4, config.feed_forward = 96;
  config.encoder_layers = config.decoder_layers = 2;
  config.max_length = 64;
  for (const bool tied : {true, false}) {
    config.tie_output = tied;
    config.output_bias = true;
    const models::Transformer model(config, 3);
    model.pack(WeightFormat::f32);
    std::mt19937 random(5);
    std::vector<Ids> sources;
    for (int i = 0; i < 60; ++i) {
      Ids source;
      for (int t = 0; t < 1 + i % 9; ++t) source.push_back(3 + static_cast<int32_t>(random() % 297));
      sources.push_back(source);
    }
    for (const Isa isa : available_isas()) {
      set_isa(isa);
      ASSERT_EQ(active_isa(), isa);
      const auto expected = translate(model, sources, {.search = {.beam = 1, .max_length = 30}});
      const auto found = translate(model, sources, {.search = {.beam = 1, .scores = false, .max_length = 30}});
      expect_same_tokens(found, expected);
    }
  }
  set_isa(usual);
}

}  // namespace
}  // namespace heed::generate
