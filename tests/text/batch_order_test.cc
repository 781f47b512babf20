// The order of an epoch: batches_by_tokens() for what fits a block, and the same promises for what does not.
#include "text/batch_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/philox.h"
#include "base/scratch.h"
#include "text/batches.h"

namespace heed::text {
namespace {

std::vector<int64_t> lengths_of(int64_t count, int64_t longest) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < count; ++i) lengths.push_back(1 + philox(9, 0, static_cast<uint64_t>(i))[0] % longest);
  return lengths;
}

BatchOrder order_of(const std::vector<int64_t>& lengths, const BatchOrder::Limits& limits) {
  return {static_cast<int64_t>(lengths.size()),
          [&lengths](int64_t first, std::span<int64_t> out) {
            std::copy_n(lengths.begin() + first, out.size(), out.begin());
          },
          limits};
}

std::vector<std::vector<int64_t>> all_batches(BatchOrder& order, int64_t epoch) {
  std::vector<std::vector<int64_t>> batches;
  for (int64_t i = 0; i < order.batches(epoch); ++i) batches.push_back(order.batch(epoch, i));
  return batches;
}

TEST(BatchOrder, IsBatchesByTokensForWhatFitsOneBlock) {
  for (const int64_t count : {1, 2, 100, 1024, 1025, 5000}) {
    const std::vector<int64_t> lengths = lengths_of(count, 60);
    for (const auto& [tokens, sentences] :
         {std::pair<int64_t, int64_t>{600, 0}, {600, 12}, {0, 32}, {60, 0}, {61, 1}}) {
      BatchOrder order = order_of(lengths, {.tokens = tokens, .sentences = sentences, .seed = 3});
      for (const int64_t epoch : {0, 1, 7, 0}) {
        EXPECT_EQ(all_batches(order, epoch), batches_by_tokens(lengths, tokens, sentences, 3, epoch));
      }
    }
  }
}

TEST(BatchOrder, ASentenceThatIsTooLongRaisesTheLimitOfAllBatches) {
  for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{5, 70, 5, 5}, {30, 30, 70}}) {
    BatchOrder order = order_of(lengths, {.tokens = 20, .seed = 1});
    const auto batches = all_batches(order, 0);
    EXPECT_EQ(batches, batches_by_tokens(lengths, 70, 0, 1, 0));
    EXPECT_EQ(batches.size(), 2u);  // the long sentence, and all others together: 60 tokens in one case
  }
}

TEST(BatchOrder, ManyBlocksHoldEverySentenceOnceWithinTheLimits) {
  for (const int64_t count : {257, 1000, 4099, 5000}) {
    const std::vector<int64_t> lengths = lengths_of(count, 40);
    const BatchOrder::Limits limits{.tokens = 200, .sentences = 11, .seed = 5, .block = 256, .run = 16};
    BatchOrder order = order_of(lengths, limits);
    for (const int64_t epoch : {0, 1, 12}) {
      std::vector<int64_t> seen;
      for (const auto& batch : all_batches(order, epoch)) {
        ASSERT_FALSE(batch.empty());
        int64_t longest = 0;
        for (const int64_t i : batch) longest = std::max(longest, lengths.at(static_cast<size_t>(i)));
        EXPECT_LE(longest * static_cast<int64_t>(batch.size()), 200);
        EXPECT_LE(batch.size(), 11u);
        seen.insert(seen.end(), batch.begin(), batch.end());
      }
      EXPECT_FALSE(std::is_sorted(seen.begin(), seen.end()));
      std::sort(seen.begin(), seen.end());
      std::vector<int64_t> expected(static_cast<size_t>(count));
      std::iota(expected.begin(), expected.end(), 0);
      EXPECT_EQ(seen, expected) << count << " sentences, epoch " << epoch;
    }
  }
}

TEST(BatchOrder, OfManyBlocksDependsOnSeedAndEpochAlone) {
  const std::vector<int64_t> lengths = lengths_of(3000, 40);
  const BatchOrder::Limits limits{.tokens = 200, .seed = 5, .block = 256, .run = 16};
  BatchOrder one = order_of(lengths, limits), other = order_of(lengths, limits);
  const auto first = all_batches(one, 0), second = all_batches(one, 1);
  EXPECT_NE(first, second);
  EXPECT_EQ(all_batches(other, 1), second);  // whatever was asked before
  EXPECT_EQ(all_batches(other, 0), first);
  for (const int64_t i : {17, 0, 40, 3}) EXPECT_EQ(other.batch(1, i), second[static_cast<size_t>(i)]);
  BatchOrder::Limits others = limits;
  others.seed = 6;
  BatchOrder third = order_of(lengths, others);
  EXPECT_NE(all_batches(third, 0), first);
}

// A block holds sentences from everywhere, so that a batch does too.
TEST(BatchOrder, BlocksAreMixedFromTheWholeText) {
  const std::vector<int64_t> lengths(16384, 4);
  BatchOrder order = order_of(lengths, {.tokens = 128, .seed = 5, .block = 4096, .run = 16});
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    double sum = 0;
    for (int64_t i = 0; i < 100; ++i) {
      for (const int64_t sentence : order.batch(epoch, i)) sum += static_cast<double>(sentence);
    }
    EXPECT_NEAR(sum / 3200, 8192, 700);  // 3,200 draws: a standard deviation of 84, and of 296 for the block's 256 runs
  }
}

TEST(BatchOrder, NamesWhatIsWrong) {
  const std::vector<int64_t> lengths = {1, -2};
  test::expect_error([&] { (void)order_of(lengths, {}); }, "a limit of tokens or of sentences");
  BatchOrder order = order_of(lengths, {.tokens = 10});
  test::expect_error([&] { (void)order.batches(0); }, "sentence 1 has -2");
  const std::vector<int64_t> good = {1, 2};
  BatchOrder small = order_of(good, {.tokens = 10});
  test::expect_error([&] { (void)small.batch(0, 1); }, "a batch from 0 to 0; found 1");
}

}  // namespace
}  // namespace heed::text
