// What each batch holds.
#include "train/data.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>

#include "heed/error.h"
#include "heed/text.h"
#include "toy.h"
#include "train/corpus.h"

namespace heed::train {
namespace {

constexpr text::SpecialIds kSpecial{.padding = 0, .begin = 1, .end = 2, .unknown = 3};

Ids row_of(const Tensor& ids, int64_t row) {
  const int32_t* first = ids.data<int32_t>() + row * ids.size(1);
  return {first, first + ids.size(1)};
}

TEST(ParallelData, ArrangesBeginAndEndAsFairseq) {
  const auto data = parallel_data({{5, 6, 7}, {8}}, {{9, 10}, {11, 12, 13}}, source_frame(kSpecial),
                                  target_frame(kSpecial), {.tokens = 100});
  ASSERT_EQ(data->batches(0), 1);
  const Batch batch = data->batch(0, 0);
  EXPECT_EQ(batch.sentences, 2);
  EXPECT_EQ(batch.tokens, 7);  // two ends counted
  const int64_t first = row_of(batch.source, 0)[0] == 5 ? 0 : 1;
  EXPECT_EQ(row_of(batch.source, first), (Ids{5, 6, 7, 2}));
  EXPECT_EQ(row_of(batch.source, 1 - first), (Ids{8, 2, 0, 0}));
  EXPECT_EQ(row_of(batch.input, first), (Ids{1, 9, 10, 0}));
  EXPECT_EQ(row_of(batch.output, first), (Ids{9, 10, 2, 0}));
  EXPECT_EQ(row_of(batch.output, 1 - first), (Ids{11, 12, 13, 2}));
  EXPECT_EQ(batch.source_lengths.data<int32_t>()[first], 4);
}

class OneId : public text::SubwordSampler {
 public:
  [[nodiscard]] Ids encode(std::string_view /*text*/, uint64_t /*key*/, uint64_t stream) const override {
    return {static_cast<int32_t>(90 + stream)};
  }
};

TEST(ParallelData, PutsAroundATextWhatItsModelWants) {
  const Frame source{.before = {50}, .after = {51, 52}, .padding = 9};
  const Frame target{.before = {60}, .after = {61}, .begin = 62, .padding = 8};
  const auto data = parallel_data({{5, 6}, {7}}, {{10}, {11, 12}}, source, target, {.tokens = 100});
  const Batch batch = data->batch(0, 0);
  const int64_t first = batch.source_lengths.at({0}) == 5 ? 0 : 1;
  const auto row = [](const Tensor& ids, int64_t i) {
    std::vector<double> values;
    for (int64_t j = 0; j < ids.size(1); ++j) values.push_back(ids.at({i, j}));
    return values;
  };
  EXPECT_EQ(row(batch.source, first), (std::vector<double>{50, 5, 6, 51, 52}));
  EXPECT_EQ(row(batch.source, 1 - first), (std::vector<double>{50, 7, 51, 52, 9}));
  EXPECT_EQ(row(batch.input, first), (std::vector<double>{62, 60, 10, 8}));
  EXPECT_EQ(row(batch.output, first), (std::vector<double>{60, 10, 61, 8}));
  EXPECT_EQ(row(batch.output, 1 - first), (std::vector<double>{60, 11, 12, 61}));
  EXPECT_EQ(batch.tokens, 7);
  EXPECT_EQ(batch.padding_id, 8);
}

TEST(ParallelData, SegmentationsAreDrawnInTheEpochsThatAreAskedFor) {
  const std::vector<Ids> sources = {{5, 6, 7}, {8}}, targets = {{9, 10}, {11, 12, 13}};
  const auto sampler = std::make_shared<OneId>();
  for (const int64_t epochs : {0, 1, 2, 1000}) {
    const auto data = parallel_data(sources, targets, source_frame(kSpecial), target_frame(kSpecial), {.tokens = 100},
                                    {.source = sampler,
                                     .target = sampler,
                                     .source_lines = {"a", "b"},
                                     .target_lines = {"c", "d"},
                                     .longest = 10,
                                     .epochs = epochs});
    for (int64_t epoch = 0; epoch < 4; ++epoch) {
      const Batch batch = data->batch(epoch, 0);
      const bool drawn = row_of(batch.source, 0)[0] >= 90;
      EXPECT_EQ(drawn, epochs == 0 || epoch < epochs) << epochs << " epochs, epoch " << epoch;
      EXPECT_EQ(batch.tokens, drawn ? 4 : 7);
    }
  }
}

TEST(ParallelData, EveryEpochHoldsEveryPairOnceInAnotherOrder) {
  std::vector<Ids> sources;
  for (int32_t i = 0; i < 200; ++i) sources.push_back(Ids(static_cast<size_t>(1 + i % 9), 4 + i));
  const BatchLimits limits{.tokens = 60, .seed = 3};
  const auto data = parallel_data(sources, sources, source_frame(kSpecial), target_frame(kSpecial), limits);
  const auto again = parallel_data(sources, sources, source_frame(kSpecial), target_frame(kSpecial), limits);
  std::vector<std::vector<int32_t>> orders;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int32_t> order;
    for (int64_t i = 0; i < data->batches(epoch); ++i) {
      const Batch batch = data->batch(epoch, i);
      EXPECT_LE(batch.sentences * batch.source.size(1), 60);
      for (int64_t r = 0; r < batch.sentences; ++r) order.push_back(row_of(batch.source, r)[0]);
    }
    EXPECT_EQ(std::set(order.begin(), order.end()).size(), 200u);
    EXPECT_EQ(order.size(), 200u);
    orders.push_back(order);
    EXPECT_EQ(row_of(again->batch(epoch, 0).source, 0), row_of(data->batch(epoch, 0).source, 0));
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
}

TEST(StreamData, ConsecutiveWindowsPredictEachTokenOnce) {
  Ids stream(48);
  std::iota(stream.begin(), stream.end(), 4);
  const auto data = stream_data(stream, Windows::consecutive, 10, 0, {.tokens = 20});
  Ids predicted;
  for (int64_t i = 0; i < data->batches(0); ++i) {
    const Batch batch = data->batch(0, i);
    for (int64_t r = 0; r < batch.sentences; ++r) {
      const Ids input = row_of(batch.input, r), output = row_of(batch.output, r);
      for (size_t k = 0; k < input.size(); ++k) EXPECT_EQ(output[k], input[k] + 1);
      predicted.insert(predicted.end(), output.begin(), output.end());
    }
  }
  EXPECT_EQ(predicted, Ids(stream.begin() + 1, stream.end()));
}

TEST(StreamData, RandomWindowsReachEverywhereAndDependOnSeedAndNumberOnly) {
  Ids stream(101);
  std::iota(stream.begin(), stream.end(), 4);
  const auto data = stream_data(stream, Windows::random, 10, 0, {.sentences = 4, .seed = 5});
  const auto other = stream_data(stream, Windows::random, 10, 0, {.sentences = 4, .seed = 6});
  EXPECT_EQ(data->batches(0), 2);  // 100 predictions / 40
  std::set<int32_t> starts;
  for (int64_t epoch = 0; epoch < 400; ++epoch) {
    const Batch batch = data->batch(epoch, epoch % 2);
    EXPECT_EQ(batch.tokens, 40);
    for (int64_t r = 0; r < 4; ++r) starts.insert(row_of(batch.input, r)[0]);
  }
  EXPECT_EQ(*starts.begin(), 4);
  EXPECT_EQ(*starts.rbegin(), 4 + 90);
  EXPECT_EQ(row_of(data->batch(7, 1).input, 2), row_of(data->batch(7, 1).input, 2));
  EXPECT_NE(row_of(data->batch(7, 1).input, 2), row_of(other->batch(7, 1).input, 2));
  EXPECT_THROW(static_cast<void>(stream_data({4, 5}, Windows::random, 10, 0, {})), Error);
}

TEST(MaskedData, HidesFifteenPercentAsBert) {
  std::vector<Ids> sentences;
  for (int32_t i = 0; i < 400; ++i) sentences.push_back(Ids(50, 4 + i % 90));
  const auto data =
      masked_data(sentences, masked_frame(kSpecial), {.mask_id = 100, .vocabulary = 100}, {.tokens = 4000, .seed = 1});
  double masked = 0, replaced = 0, kept = 0, random = 0, all = 0;
  for (int64_t b = 0; b < data->batches(0); ++b) {
    const Batch batch = data->batch(0, b);
    int64_t count = 0;
    for (int64_t r = 0; r < batch.sentences; ++r) {
      const Ids input = row_of(batch.source, r), output = row_of(batch.output, r);
      EXPECT_EQ(input.front(), 1);
      EXPECT_EQ(input.back(), 2);
      for (size_t i = 0; i < input.size(); ++i) {
        if (i == 0 || i + 1 == input.size()) {
          EXPECT_EQ(output[i], 0);
          continue;
        }
        ++all;
        if (output[i] == 0) continue;
        ++masked;
        ++count;
        replaced += input[i] == 100;
        kept += input[i] == output[i];
        random += input[i] != 100 && input[i] != output[i];
        EXPECT_GE(input[i], 4);
      }
    }
    EXPECT_EQ(count, batch.tokens);
  }
  EXPECT_NEAR(masked / all, 0.15, 0.01);
  EXPECT_NEAR(replaced / masked, 0.8, 0.03);
  EXPECT_NEAR(random / masked, 0.1, 0.03);
  EXPECT_NEAR(kept / masked, 0.1, 0.03);
}

TEST(MaskedData, ASentenceIsMaskedAlikeInAnyBatchAndAnewEachEpoch) {
  std::vector<Ids> sentences;
  for (int32_t i = 0; i < 40; ++i) sentences.push_back(Ids(20, 4 + i));
  const auto collect = [&](int64_t tokens, int64_t epoch) {
    const auto data =
        masked_data(sentences, masked_frame(kSpecial), {.mask_id = 100, .vocabulary = 100}, {.tokens = tokens});
    std::map<int32_t, Ids> rows;
    for (int64_t b = 0; b < data->batches(epoch); ++b) {
      const Batch batch = data->batch(epoch, b);
      for (int64_t r = 0; r < batch.sentences; ++r) {
        const Ids output = row_of(batch.output, r);
        rows[*std::max_element(output.begin(), output.end())] = row_of(batch.source, r);
      }
    }
    return rows;
  };
  EXPECT_EQ(collect(44, 0).size(), 40u);  // at least one token of each sentence is masked
  EXPECT_EQ(collect(44, 0), collect(440, 0));
  EXPECT_NE(collect(44, 0), collect(44, 1));
}

TEST(Checksum, NoticesAChangeAndAMovedBoundary) {
  EXPECT_NE(checksum_of({{4, 5}, {6}}), checksum_of({{4, 5}, {7}}));
  EXPECT_NE(checksum_of({{4, 5}, {6}}), checksum_of({{4}, {5, 6}}));
}

TEST(HeldBack, IgnoresCaseSpacesAndPunctuation) {
  int held = 0;
  for (int i = 0; i < 10000; ++i) {
    const std::string number = std::to_string(i);
    const bool is = is_held_back("Sentence " + number + ".", 0.1);
    held += is;
    EXPECT_EQ(is, is_held_back("  sentence, " + number + "!", 0.1));
  }
  EXPECT_NEAR(held, 1000, 100);
  EXPECT_FALSE(is_held_back("anything", 0.0));
}

// demo/heldout.tsv lies in the project, so that the quality of the demo's model can be measured without a training.
TEST(HeldBack, OfTheDemoIsItsFile) {
  const std::filesystem::path demo = std::filesystem::path(HEED_SOURCE_DIR) / "demo";
  std::vector<std::string> expected;
  for (const std::string& line : text::read_lines(demo / "tatoeba-cmn-eng.tsv.gz")) {
    if (is_held_back(line.substr(0, line.find('\t')), 0.04)) expected.push_back(line);
  }
  EXPECT_EQ(expected.size(), 1153u);
  EXPECT_EQ(text::read_lines(demo / "heldout.tsv"), expected);
}

TEST(Pairs, GroupsReferencesAndNamesTheLineWithoutATab) {
  const TemporaryFolder folder;
  write_text(folder / "p.tsv", "Hi.\t嗨。\tby someone\nWait!\t等等！\nHi.\t你好。\n");
  const Pairs pairs = read_pairs(folder / "p.tsv");
  EXPECT_EQ(pairs.sources, (std::vector<std::string>{"Hi.", "Wait!"}));
  EXPECT_EQ(pairs.targets[0], (std::vector<std::string>{"嗨。", "你好。"}));
  write_text(folder / "q.tsv", "a\tb\nno tab here\n");
  EXPECT_CONTAINS(message_of([&] { static_cast<void>(read_pairs(folder / "q.tsv")); }), "q.tsv, line 2");
}

}  // namespace
}  // namespace heed::train
