// Subword regularisation: segmentations come as often as their probabilities say, and always the same for the same key.
#include "text/subwords.h"

#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <cmath>
#include <map>

#include "base/scratch.h"

namespace heed::text {
namespace {

using test::expect_error;
using test::Scratch;
using Strings = std::vector<std::string>;

std::string as_it_is(std::string_view text) { return std::string(text); }

// Every way to cut `text` into the pieces, with p^alpha: by trying them all.
void enumerate(const std::vector<UnigramSampler::Piece>& pieces, const std::string& text, double alpha, double weight,
               std::vector<int32_t>& ids, std::map<std::vector<int32_t>, double>& all) {
  if (text.empty()) {
    all[ids] += weight;
    return;
  }
  for (const auto& piece : pieces) {
    if (!text.starts_with(piece.text)) continue;
    ids.push_back(piece.id);
    enumerate(pieces, text.substr(piece.text.size()), alpha, weight * std::pow(std::exp(piece.score), alpha), ids, all);
    ids.pop_back();
  }
}

TEST(Subwords, ComeAsOftenAsTheirProbabilitiesSay) {
  const std::vector<UnigramSampler::Piece> pieces = {
      {"a", 5, std::log(0.3)},  {"b", 6, std::log(0.2)},    {"ab", 7, std::log(0.25)},  {"ba", 8, std::log(0.1)},
      {"é", 9, std::log(0.05)}, {"bé", 10, std::log(0.02)}, {"aba", 11, std::log(0.08)}};
  constexpr int kDraws = 60000;
  for (const double alpha : {0.2, 1.0, 2.5}) {
    const UnigramSampler sampler(pieces, 3, alpha, as_it_is);
    for (const std::string text : {"abab", "ababbébaab", "a"}) {
      std::map<std::vector<int32_t>, double> exact;
      std::vector<int32_t> ids;
      enumerate(pieces, text, alpha, 1.0, ids, exact);
      double total = 0;
      for (const auto& [segmentation, weight] : exact) total += weight;
      std::map<std::vector<int32_t>, int> counts;
      for (uint64_t i = 0; i < kDraws; ++i) ++counts[sampler.encode(text, 77, i)];
      for (const auto& [segmentation, count] : counts) EXPECT_TRUE(exact.contains(segmentation));
      for (const auto& [segmentation, weight] : exact) {
        const double p = weight / total;
        const double five_sigma = 5 * std::sqrt(p * (1 - p) / kDraws) + 1.0 / kDraws;
        EXPECT_NEAR(static_cast<double>(counts[segmentation]) / kDraws, p, five_sigma) << text << ", alpha " << alpha;
      }
    }
  }
}

// Against the library's own list of segmentations and their scores, through a model that it trained.
TEST(Subwords, HaveTheProbabilitiesOfSentencePiece) {
  Strings lines;
  for (int i = 0; i < 40; ++i) lines.push_back(i % 2 ? "low lower lowest newer" : "new newest wide wider widest");
  const auto tokenizer = train_sentencepiece(lines, {.vocabulary = 60, .nearest = true});
  const Scratch scratch;
  tokenizer->save(scratch.path(), Side::source);
  sentencepiece::SentencePieceProcessor processor;
  ASSERT_TRUE(processor.Load((scratch / "source.model").string()).ok());
  const std::string text = "lowest widest newer";
  const double alpha = 0.5;
  std::map<std::vector<int32_t>, double> exact;
  double total = 0;
  const auto all = processor.NBestEncodeAsImmutableProto(text, 100000);
  ASSERT_LT(all.nbests_size(), 100000u);
  ASSERT_GT(all.nbests_size(), 20u);
  for (const auto& each : all.nbests()) {
    std::vector<int32_t> ids;
    double score = 0;
    for (const auto& piece : each.pieces()) {
      ids.push_back(static_cast<int32_t>(piece.id()));
      score += static_cast<double>(processor.GetScore(static_cast<int>(piece.id())));
    }
    total += exact[ids] = std::exp(alpha * score);
  }
  const auto sampler = tokenizer->sampler(alpha);
  constexpr int kDraws = 40000;
  std::map<std::vector<int32_t>, int> counts;
  for (uint64_t i = 0; i < kDraws; ++i) ++counts[sampler->encode(text, 5, i)];
  for (const auto& [segmentation, count] : counts) EXPECT_TRUE(exact.contains(segmentation));
  for (const auto& [segmentation, weight] : exact) {
    const double p = weight / total;
    EXPECT_NEAR(static_cast<double>(counts[segmentation]) / kDraws, p,
                5 * std::sqrt(p * (1 - p) / kDraws) + 1.0 / kDraws);
  }
}

// With a large alpha only the best segmentation is left: spaces, unknown characters and ids are as encode() has them.
TEST(Subwords, WithALargeAlphaAreTheBestSegmentation) {
  Strings lines;
  for (int i = 0; i < 60; ++i) lines.push_back(i % 2 ? "Das Kind sucht einen Ball." : "Der Hund sieht ，中文。");
  const auto tokenizer = train_sentencepiece(lines, {.vocabulary = 60, .nearest = true});
  const auto sampler = tokenizer->sampler(100);
  for (const std::string text : {"Das Kind sieht einen Hund.", " a  b ", "ünbekännt 😀😀 Kind ，中文。", "", "😀", "x"}) {
    EXPECT_EQ(sampler->encode(text, 1, 2), tokenizer->encode(text)) << text;
  }
  const auto often_cut = tokenizer->sampler(0.05);
  for (uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(tokenizer->decode(often_cut->encode(lines[0], 1, i)), lines[0]);
  }
}

TEST(Subwords, DependOnKeyAndStreamAlone) {
  const std::vector<UnigramSampler::Piece> pieces = {{"a", 4, -1}, {"aa", 5, -1.5}, {"aaa", 6, -2}};
  const UnigramSampler sampler(pieces, 3, 0.3, as_it_is);
  const std::string text(40, 'a');
  EXPECT_EQ(sampler.encode(text, 1, 2), sampler.encode(text, 1, 2));
  EXPECT_NE(sampler.encode(text, 1, 2), sampler.encode(text, 1, 3));
  EXPECT_NE(sampler.encode(text, 1, 2), sampler.encode(text, 2, 2));
  // Fixed: who continues a run begun by another build or on another processor must draw the same.
  EXPECT_EQ(sampler.encode("aaaaaaaaaa", 7, 11), (std::vector<int32_t>{4, 4, 5, 6, 4, 4, 4}));
}

TEST(Subwords, OfLongLinesAndExtremeScores) {
  const std::vector<UnigramSampler::Piece> pieces = {{"a", 4, -300}, {"aa", 5, -1e-3}, {"b", 6, -1e30}};
  const UnigramSampler sampler(pieces, 3, 1, as_it_is);
  EXPECT_EQ(sampler.encode(std::string(20000, 'a'), 1, 1), std::vector<int32_t>(10000, 5));
  EXPECT_EQ(sampler.encode("aba", 1, 1), (std::vector<int32_t>{4, 6, 4}));
  EXPECT_EQ(sampler.encode("axxya", 1, 1), (std::vector<int32_t>{4, 3, 4}));  // a run of unknown characters is one
}

TEST(Subwords, ExponentialsAreThoseOfMathematics) {
  for (double x = -60; x <= 60; x += 0.37) {
    const Scaled scaled = scaled_exp(x);
    EXPECT_GE(scaled.fraction, 0.5);
    EXPECT_LT(scaled.fraction, 1.0);
    EXPECT_NEAR(std::ldexp(scaled.fraction, static_cast<int>(scaled.exponent)) / std::exp(x), 1.0, 1e-14) << x;
  }
}

TEST(Subwords, AreRefusedWhereThereAreNoProbabilities) {
  const Strings lines(30, "a man sees a dog");
  expect_error([&] { (void)train_characters(lines)->sampler(0.1); }, "a unigram model of SentencePiece");
  expect_error([&] { (void)train_characters(lines)->sampler(0.1); }, "\"characters\"");
  expect_error([&] { (void)train_pieces(lines)->sampler(0.1); }, "\"pieces\"");
  expect_error(
      [&] { (void)train_sentencepiece(lines, {.vocabulary = 16, .bpe = true, .nearest = true})->sampler(0.1); }, "bpe");
  // A piece that the user defined is never cut, and its score says nothing.
  const Scratch scratch;
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  ASSERT_TRUE(sentencepiece::SentencePieceTrainer::Train({{"input", scratch.file("text", text).string()},
                                                          {"model_prefix", (scratch / "user").string()},
                                                          {"vocab_size", "20"},
                                                          {"hard_vocab_limit", "false"},
                                                          {"user_defined_symbols", "man"},
                                                          {"minloglevel", "3"}})
                  .ok());
  expect_error([&] { (void)load_sentencepiece(scratch / "user.model")->sampler(0.1); }, "user-defined");
  const auto unigram = train_sentencepiece(lines, {.vocabulary = 16, .nearest = true});
  for (const double alpha : {0.0, -1.0, 1e9, std::nan("")}) {
    expect_error([&] { (void)unigram->sampler(alpha); }, "alpha");
  }
  expect_error([&] { (void)unigram->sampler(0.1)->encode("ab\xc3", 1, 1); }, "found byte 0xc3 at position 3");
}

}  // namespace
}  // namespace heed::text
