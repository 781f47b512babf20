// Attention between words: sums, means and labels, beside sums that are written out.
#include <gtest/gtest.h>

#include "base/message.h"
#include "heed/error.h"
#include "heed/inspect.h"

namespace heed::inspect {
namespace {

using testing::message_of;
using Strings = std::vector<std::string>;

Tensor weights_of(int64_t heads, int64_t rows, int64_t columns) {
  Tensor weights = Tensor::empty({heads, rows, columns});
  for (int64_t row = 0; row < heads * rows; ++row) {
    float sum = 0;
    float* const at = weights.data<float>() + row * columns;
    for (int64_t j = 0; j < columns; ++j) sum += at[j] = static_cast<float>(1 + (row * 7 + j * j * 3) % 11);
    for (int64_t j = 0; j < columns; ++j) at[j] /= sum;
  }
  return weights;
}

Record record_of() {
  Record record;
  record.source_tokens = {"[CLS]", "un", "##tidy", "cats", "[SEP]"};
  record.source_words = {.of_token = {0, 1, 1, 2, 3}, .texts = {"[CLS]", "untidy", "cats", "[SEP]"}};
  record.target_tokens = {"<s>", "▁Kat", "zen", "!"};
  record.target_words = {.of_token = {0, 1, 1, 2}, .texts = {"<s>", "Katzen", "!"}};
  record.output_tokens = {"▁Kat", "zen", "!", "</s>"};
  record.encoder = {{.path = "e", .weights = weights_of(2, 5, 5)}};
  record.decoder = {{.path = "d", .weights = weights_of(1, 4, 4)}};
  record.cross = {{.path = "c", .weights = weights_of(3, 4, 5)}};
  return record;
}

TEST(ByWords, AddsColumnsAndAveragesRows) {
  const Record record = record_of(), words = by_words(record);
  EXPECT_EQ(words.source_tokens, (Strings{"[CLS]", "untidy", "cats", "[SEP]"}));
  EXPECT_EQ(words.target_tokens, (Strings{"<s>", "Katzen", "!"}));
  EXPECT_EQ(words.output_tokens, (Strings{"Katzen", "!", "</s>"}));
  const Tensor &encoder = words.encoder[0].weights, &tokens = record.encoder[0].weights;
  ASSERT_EQ(encoder.shape(), (Shape{2, 4, 4}));
  ASSERT_EQ(words.decoder[0].weights.shape(), (Shape{1, 3, 3}));
  ASSERT_EQ(words.cross[0].weights.shape(), (Shape{3, 3, 4}));
  for (int64_t h = 0; h < 2; ++h) {
    EXPECT_NEAR(encoder.at({h, 0, 1}), tokens.at({h, 0, 1}) + tokens.at({h, 0, 2}), 1e-6) << "a sum of columns";
    EXPECT_NEAR(encoder.at({h, 1, 2}), (tokens.at({h, 1, 3}) + tokens.at({h, 2, 3})) / 2, 1e-6) << "a mean of rows";
    EXPECT_NEAR(encoder.at({h, 1, 1}),
                (tokens.at({h, 1, 1}) + tokens.at({h, 1, 2}) + tokens.at({h, 2, 1}) + tokens.at({h, 2, 2})) / 2, 1e-6);
    EXPECT_NEAR(encoder.at({h, 3, 0}), tokens.at({h, 4, 0}), 1e-6);
  }
  const Tensor &cross = words.cross[0].weights, &across = record.cross[0].weights;
  EXPECT_NEAR(cross.at({2, 1, 1}),
              (across.at({2, 1, 1}) + across.at({2, 1, 2}) + across.at({2, 2, 1}) + across.at({2, 2, 2})) / 2, 1e-6);
  for (const Tensor& map : {encoder, words.decoder[0].weights, cross}) {
    for (int64_t h = 0; h < map.size(0); ++h) {
      for (int64_t i = 0; i < map.size(1); ++i) {
        double sum = 0;
        for (int64_t j = 0; j < map.size(2); ++j) sum += map.at({h, i, j});
        EXPECT_NEAR(sum, 1, 1e-6) << "rows keep their sum";
      }
    }
  }
  EXPECT_NE(to_html(words).find("untidy"), std::string::npos);
  EXPECT_EQ(by_words(words).source_tokens, words.source_tokens) << "words of words are words";
}

TEST(ByWords, RefusesARecordWithoutWords) {
  Record record = record_of();
  record.source_words = {};
  EXPECT_EQ(message_of([&] { (void)by_words(record); }),
            "[by_words] a record that knows the word of each of its 5 tokens; found 0");
  record = record_of();
  record.target_words.of_token[1] = 3;
  EXPECT_NE(message_of([&] { (void)by_words(record); }).find("found 3"), std::string::npos);
}

}  // namespace
}  // namespace heed::inspect
