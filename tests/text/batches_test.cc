// The order of the data: everything once, within the limits, the same for the same seed and epoch.
#include "text/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/scratch.h"

namespace heed::text {
namespace {

std::vector<int64_t> sample_lengths() {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < 5000; ++i) lengths.push_back(1 + (i * i * 31 + i * 7) % 60);
  return lengths;
}

TEST(Permutation, IsOneAndDependsOnBothNumbers) {
  for (const int64_t count : {0, 1, 2, 3, 1000}) {
    std::vector<int64_t> order = permutation(count, 1, 2);
    EXPECT_EQ(order, permutation(count, 1, 2));
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < count; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
  }
  EXPECT_NE(permutation(1000, 1, 2), permutation(1000, 2, 2));
  EXPECT_NE(permutation(1000, 1, 2), permutation(1000, 1, 3));
}

TEST(Permutation, IsUniform) {
  std::map<std::vector<int64_t>, int> seen;
  for (uint64_t stream = 0; stream < 24000; ++stream) ++seen[permutation(4, 7, stream)];
  ASSERT_EQ(seen.size(), 24u);
  double chi_squared = 0;
  for (const auto& [order, count] : seen) chi_squared += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_squared, 49.7);  // 23 degrees of freedom, p = 0.001
}

TEST(Batches, HoldEveryIndexOnceWithinTheLimits) {
  const std::vector<int64_t> lengths = sample_lengths();
  for (const auto& [tokens, sentences] : {std::pair<int64_t, int64_t>{600, 0}, {600, 12}, {0, 32}, {60, 0}}) {
    const auto batches = batches_by_tokens(lengths, tokens, sentences, 3, 1);
    std::set<int64_t> seen;
    int64_t padded = 0, whole = 0;
    for (const auto& batch : batches) {
      ASSERT_FALSE(batch.empty());
      int64_t longest = 0;
      for (const int64_t index : batch) {
        EXPECT_TRUE(seen.insert(index).second);
        longest = std::max(longest, lengths[static_cast<size_t>(index)]);
        whole += lengths[static_cast<size_t>(index)];
      }
      const auto count = static_cast<int64_t>(batch.size());
      if (tokens > 0) {
        EXPECT_LE(longest * count, tokens);
      }
      if (sentences > 0) {
        EXPECT_LE(count, sentences);
      }
      padded += longest * count;
    }
    EXPECT_EQ(seen.size(), lengths.size());
    EXPECT_LT(padded, whole * 102 / 100);  // sorted by length: next to no padding
  }
}

TEST(Batches, DependOnSeedAndEpochOnly) {
  const std::vector<int64_t> lengths = sample_lengths();
  const auto first = batches_by_tokens(lengths, 600, 0, 3, 1);
  EXPECT_EQ(first, batches_by_tokens(lengths, 600, 0, 3, 1));
  EXPECT_NE(first, batches_by_tokens(lengths, 600, 0, 3, 2));
  EXPECT_NE(first, batches_by_tokens(lengths, 600, 0, 4, 1));
  // Not in the order of their lengths.
  std::vector<int64_t> longest;
  for (const auto& batch : first) longest.push_back(lengths[static_cast<size_t>(batch.back())]);
  EXPECT_FALSE(std::is_sorted(longest.begin(), longest.end()));
}

TEST(Batches, AreFullBeforeTheNextBegins) {
  const std::vector<int64_t> lengths(10, 5);
  const auto batches = batches_by_tokens(lengths, 17, 0, 1, 0);  // three fit
  std::vector<size_t> sizes;
  for (const auto& batch : batches) sizes.push_back(batch.size());
  std::sort(sizes.begin(), sizes.end());
  EXPECT_EQ(sizes, (std::vector<size_t>{1, 3, 3, 3}));
}

TEST(Batches, RefuseASentenceThatFitsNoBatch) {
  const std::vector<int64_t> lengths = {3, 70, 2};
  test::expect_error([&] { (void)batches_by_tokens(lengths, 60, 0, 1, 0); }, "sentence 1 has 70");
  test::expect_error([&] { (void)batches_by_tokens(lengths, 0, 0, 1, 0); }, "a limit of tokens or of sentences");
}

}  // namespace
}  // namespace heed::text
