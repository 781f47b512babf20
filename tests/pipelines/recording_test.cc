// Long texts, recorded in groups of neighbouring tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "heed/error.h"
#include "heed/inspect.h"
#include "heed/pipelines.h"
#include "pipelines/small_models.h"

namespace heed {
namespace {

using models::Architecture;
using test::Folder;
using test::make_model;

// The group of token i among n of them.
int64_t group_of(int64_t i, int64_t n, int64_t most) {
  const int64_t groups = std::min(n, most);
  int64_t group = 0;
  while ((group + 1) * n / groups <= i) ++group;
  return group;
}

// Columns added and rows averaged, in double precision.
void expect_pooled(const std::vector<inspect::Map>& found, const std::vector<inspect::Map>& all, int64_t most) {
  ASSERT_EQ(found.size(), all.size());
  for (size_t layer = 0; layer < all.size(); ++layer) {
    const Tensor& weights = all[layer].weights;
    const int64_t heads = weights.size(0), length = weights.size(1), keys = weights.size(2);
    const int64_t rows = std::min(length, most), columns = std::min(keys, most);
    EXPECT_EQ(found[layer].path, all[layer].path);
    ASSERT_EQ(found[layer].weights.shape(), (Shape{heads, rows, columns}));
    std::vector<double> sums(static_cast<size_t>(heads * rows * columns)), counts(static_cast<size_t>(rows));
    for (int64_t i = 0; i < length; ++i) ++counts[static_cast<size_t>(group_of(i, length, most))];
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < length; ++i)
        for (int64_t j = 0; j < keys; ++j) {
          const int64_t row = group_of(i, length, most), column = group_of(j, keys, most);
          sums[static_cast<size_t>((h * rows + row) * columns + column)] += weights.at({h, i, j});
        }
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c)
          EXPECT_NEAR(found[layer].weights.at({h, r, c}),
                      sums[static_cast<size_t>((h * rows + r) * columns + c)] / counts[static_cast<size_t>(r)], 1e-6)
              << all[layer].path << " " << h << " " << r << " " << c;
  }
}

TEST(PooledRecord, HasTheSumsAndMeansOfAllWeights) {
  const Folder folder;
  for (const Architecture kind :
       {Architecture::encoder_decoder, Architecture::decoder_only, Architecture::encoder_only}) {
    const auto model = make_model(folder.path(), kind);
    const std::string text =
        kind == Architecture::decoder_only ? "车站在哪里火来了车" : "where is the station and when";
    RecordOptions options;
    if (kind == Architecture::encoder_decoder) options.target = "车站在哪里";
    const inspect::Record all = record_attention(model, text, options);
    for (const int64_t most : {1, 3, 5}) {
      options.pool_above = 5, options.most_groups = most;
      const inspect::Record record = record_attention(model, text, options);
      expect_pooled(record.encoder, all.encoder, most);
      expect_pooled(record.decoder, all.decoder, most);
      expect_pooled(record.cross, all.cross, most);
      EXPECT_EQ(record.source_tokens.size(), std::min(all.source_tokens.size(), static_cast<size_t>(most)));
      EXPECT_EQ(record.target_tokens.size(), std::min(all.target_tokens.size(), static_cast<size_t>(most)));
      EXPECT_FALSE(inspect::to_html(record).empty());  // whose tokens have to fit the maps
      if (!all.output_tokens.empty()) {
        EXPECT_EQ(record.output_tokens.back(), all.output_tokens.back());
      }
    }
  }
}

TEST(PooledRecord, NamesGroupsByTheirFirstAndLastToken) {
  const Folder folder;
  const Generator generator = Generator::load(make_model(folder.path(), Architecture::decoder_only));
  const inspect::Record record = generator.record("车站在哪里", {.pool_above = 4, .most_groups = 3});
  EXPECT_EQ(record.target_tokens, (std::vector<std::string>{"车", "站 … 在", "哪 … 里"}));
  EXPECT_EQ(record.target_words.texts, record.target_tokens);
  EXPECT_EQ(record.target_words.of_token, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(inspect::by_words(record).target_tokens, record.target_tokens);
  EXPECT_EQ(generator.record("车站在哪", {.pool_above = 4, .most_groups = 3}).target_tokens.size(), 4u);
}

TEST(PooledRecord, ItsSizeIsThatOfTheGroups) {
  const Folder folder;
  const auto target = text::train_characters(test::kTarget);
  models::Config config = test::small_config(Architecture::decoder_only, 0, target->vocabulary());
  config.max_length = 1024;
  config.decoder_layers = 20;  // 40 heads
  models::save(*models::create(config, 3), folder.path());
  target->save(folder.path(), text::Side::target);
  const Generator generator = Generator::load(folder.path());
  std::string text;
  for (int i = 0; i < 100; ++i) text += "车站在";
  const auto weights_of = [&](RecordOptions options) {
    int64_t seen = 0;
    options.on_size = [&](int64_t weights, int64_t /*masked*/) { seen = weights; };
    (void)generator.record(text, options);
    return seen;
  };
  EXPECT_EQ(weights_of({.pool_above = 300}), 40 * 300 * 300);
  EXPECT_EQ(weights_of({.pool_above = 299}), 40 * 250 * 250);  // 256 groups would have 2,621,440
  EXPECT_EQ(weights_of({.pool_above = 0, .most_groups = 10}), 40 * 10 * 10);
}

TEST(PooledRecord, NeedsAGroup) { EXPECT_THROW(inspect::PooledRecorder(0), Error); }

}  // namespace
}  // namespace heed
