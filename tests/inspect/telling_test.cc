#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "heed/error.h"
#include "heed/inspect.h"
#include "inspect/payloads.h"
#include "inspect/sample_record.h"
#include "inspect/words.h"

namespace heed::inspect {
namespace {

TEST(Words, LettersDigitsAndPictures) {
  for (const char* word : {"train", "▁train", "火车", "7", "▁x", "don't", "é", "Ж", "ก", "😀", "a.", "<3"})
    EXPECT_TRUE(is_word(word)) << word;
  for (const char* mark : {"",   "▁",    "▁▁",    ".",     "，",     "。",    "？",    "▁\"",           "--",
                           "…",  "<s>",  "</s>",  "<pad>", "<0x0A>", "[CLS]", "[SEP]", "<|endoftext|>", " ",
                           "\n", "\xff", "\u202e"})
    EXPECT_FALSE(is_word(mark)) << mark;
  for (const std::string& text : payloads(2000)) (void)is_word(text);
}

// Weights (heads, L, S), every row of a head spread evenly but for what `at` gives it.
class Heads {
 public:
  Heads(int64_t heads, int64_t rows, int64_t columns)
      : weights(Tensor::full({heads, rows, columns}, 1.0f / static_cast<float>(columns))) {}
  Heads& set(int64_t head, int64_t row, int64_t column, float weight) {
    float* at = weights.data<float>() + (head * weights.size(1) + row) * weights.size(2);
    for (int64_t j = 0; j < weights.size(2); ++j)
      at[j] = j == column ? weight : (1 - weight) / static_cast<float>(weights.size(2) - 1);
    return *this;
  }
  Tensor weights;
};

Record translation(Tensor cross) {
  Record record;
  record.source_tokens = {"▁the", "▁cat", "▁sleeps", ".", "</s>"};
  record.target_tokens = {"<s>", "▁die", "▁Katze", "▁schläft", "."};
  record.output_tokens = {"▁die", "▁Katze", "▁schläft", ".", "</s>"};
  record.cross.push_back({.path = "decoder.layers.0.cross_attention", .weights = std::move(cross)});
  return record;
}

// By hand: one head alone agrees with itself as far as it is sharp among the words.
TEST(Telling, TheFormula) {
  Heads heads(1, 5, 5);
  heads.set(0, 0, 0, 0.6f).set(0, 1, 1, 0.8f).set(0, 2, 1, 0.4f);
  // Rows "die", "Katze", "schläft"; columns "the", "cat", "sleeps". What is left of a row is shared by four columns.
  const double die = 0.6 * 0.6 / (0.6 + 2 * 0.1), katze = 0.8 * 0.8 / (0.8 + 2 * 0.05),
               schlaeft = 0.4 * 0.4 / (0.4 + 2 * 0.15);
  const double coverage = 1.0 / 2;  // two of three words
  const auto scores = telling_scores(translation(heads.weights), Part::cross);
  ASSERT_EQ(scores.size(), 1u);
  ASSERT_EQ(scores[0].size(), 2u);  // the head and the mean, which is the head
  EXPECT_NEAR(scores[0][0], coverage * (die + katze + schlaeft) / 3, 1e-4);
  EXPECT_EQ(scores[0][0], scores[0][1]);
}

TEST(Telling, AnAlignmentBeatsSinksPunctuationAndEvenWeights) {
  Heads heads(6, 5, 5);
  for (int64_t i = 0; i < 5; ++i) {
    heads.set(0, i, 4, 0.99f);                       // all on </s>
    heads.set(1, i, 3, 0.99f);                       // all on the full stop
    heads.set(2, i, 0, 0.99f);                       // all on one word
    heads.set(4, i, std::min<int64_t>(i, 4), 0.7f);  // the alignment
  }                                                  // 3 and 5 are even
  const Place place = most_telling(translation(heads.weights));
  EXPECT_EQ(place.part, Part::cross);
  EXPECT_EQ(place.layer, 0);
  EXPECT_EQ(place.head, 4);
  EXPECT_GT(place.score, 0.1);
}

// Two heads are equally sharp; one of them points one word to the left of where the others point.
TEST(Telling, HeadsThatAgreeBeatOneThatIsShifted) {
  Heads heads(4, 5, 5);
  for (int64_t i = 0; i < 3; ++i) {
    heads.set(0, i, (i + 1) % 3, 0.9f);
    heads.set(1, i, i, 0.5f);
    heads.set(2, i, i, 0.9f);
    heads.set(3, i, i, 0.5f);
  }
  EXPECT_EQ(most_telling(translation(heads.weights)).head, 2);
}

// A head for each part of the sentence: what one does not read it leaves to </s>.
TEST(Telling, TheMeanWinsWhereHeadsShareTheWork) {
  Heads heads(2, 5, 5);
  for (int64_t i = 0; i < 3; ++i) {
    heads.set(0, i, i < 2 ? i : 4, 1.0f);
    heads.set(1, i, i < 2 ? 4 : i, 1.0f);
  }
  const Record record = translation(heads.weights);
  // Head 1 reads two of three words, with weight 1; the mean reads all, with weight 1/2.
  EXPECT_EQ(telling_scores(record, Part::cross)[0], (std::vector<double>{0.3333, 0, 0.5}));
  EXPECT_EQ(most_telling(record).head, -1);
}

Record sentence(Part part, Tensor weights) {
  Record record;
  const std::vector<std::string> tokens = {"The", "cat", "and", "the", "dog", "slept", "."};
  if (part == Part::encoder) {
    record.source_tokens = tokens;
    record.encoder.push_back({.path = "encoder.layers.0", .weights = std::move(weights)});
  } else {
    record.target_tokens = record.output_tokens = tokens;
    record.decoder.push_back({.path = "decoder.layers.0", .weights = std::move(weights)});
  }
  return record;
}

// Heads that look at a fixed distance, or rest on the first token, are in every model.
TEST(Telling, PositionsTellNothingInSelfAttention) {
  Heads heads(4, 7, 7);
  for (int64_t i = 0; i < 7; ++i) {
    heads.set(0, i, std::max<int64_t>(0, i - 1), 0.99f);
    heads.set(1, i, i, 0.99f);
    heads.set(2, i, 0, 0.99f);
  }
  heads.set(3, 4, 1, 0.8f).set(3, 5, 2, 0.6f).set(3, 3, 1, 0.4f);
  for (const Part part : {Part::encoder, Part::decoder}) {
    const Place place = most_telling(sentence(part, heads.weights));
    EXPECT_EQ(place.part, part);
    EXPECT_EQ(place.head, 3);
  }
}

TEST(Telling, ArraysHaveNoWords) {
  Heads heads(2, 3, 3);
  for (int64_t i = 0; i < 3; ++i) heads.set(1, i, i, 1.0f);
  Record record;
  record.target_tokens = {".", ".", "."};
  record.source_tokens = {"<s>", "<s>", "<s>"};
  record.arrays.push_back({.path = "", .weights = heads.weights});
  EXPECT_EQ(telling_scores(record, Part::arrays)[0], (std::vector<double>{0, 1, 0.6667}));
  EXPECT_EQ(most_telling(record).head, 1);
}

TEST(Telling, WithoutWordsOrNumbersNothingIsTold) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Tensor& weights : {Tensor::full({2, 5, 5}, nan), Tensor::zeros({2, 5, 5})}) {
    const Place place = most_telling(translation(weights));
    EXPECT_EQ(place.score, 0);
    EXPECT_EQ(place.layer, 0);
    EXPECT_EQ(place.head, 0);
  }
  Record marks = translation(Tensor::full({1, 5, 5}, 0.2f));
  marks.source_tokens = {".", ".", ".", ".", "."};
  EXPECT_EQ(most_telling(marks).score, 0);
  EXPECT_TRUE(telling_scores(Record{}, Part::cross).empty());
  EXPECT_EQ(telling_scores(sentence(Part::decoder, Tensor::full({1, 1, 1}, 1.0f)), Part::decoder)[0][0], 0);
}

TEST(Telling, RefusesWhatDoesNotFit) {
  Record record = translation(Tensor::full({1, 5, 5}, 0.2f));
  record.cross.push_back({.path = "x", .weights = Tensor::full({1, 5, 4}, 0.25f)});
  EXPECT_THROW((void)telling_scores(record, Part::cross), Error);
  record.cross[1].weights = Tensor();
  EXPECT_THROW((void)most_telling(record), Error);
}

TEST(Telling, IsInTheJson) {
  const Record record = chinese_record();
  const auto json = nlohmann::json::parse(to_json(record));
  EXPECT_EQ(json["words"]["source"], (std::vector<int>{1, 1, 1, 1, 1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(json["words"]["output"], (std::vector<int>{1, 1, 1, 1, 1, 1, 0, 0}));
  const auto scores = telling_scores(record, Part::cross);
  for (size_t layer = 0; layer < 3; ++layer)
    for (size_t head = 0; head <= 8; ++head)
      EXPECT_NEAR(json["telling"]["cross"][layer][head].get<double>(), scores[layer][head], 1e-6);
}

}  // namespace
}  // namespace heed::inspect
