// KeyValueCache: what is appended is found again, in rows that fork, move and vanish.
#include <gtest/gtest.h>

#include "heed/error.h"
#include "heed/nn.h"
#include "oracle/gradient_check.h"

namespace heed::nn {
namespace {

using oracle::sample;

constexpr int64_t kHeads = 2, kKeySize = 3, kValueSize = 5;

void expect_row(const KeyValueCache& cache, int64_t row, const Tensor& keys, const Tensor& values, int64_t from) {
  for (int64_t h = 0; h < kHeads; ++h) {
    for (int64_t l = 0; l < cache.length; ++l) {
      for (int64_t d = 0; d < kKeySize; ++d) ASSERT_EQ(cache.keys.at({row, h, l, d}), keys.at({from, h, l, d}));
      for (int64_t d = 0; d < kValueSize; ++d) ASSERT_EQ(cache.values.at({row, h, l, d}), values.at({from, h, l, d}));
    }
  }
}

struct Filled {
  Tensor keys = sample({4, kHeads, 40, kKeySize}, 1);
  // Values as a projection leaves them: memory (B, L, H, Dv) seen as (B, H, L, Dv).
  Tensor values = sample({4, 40, kHeads, kValueSize}, 2).transpose(1, 2);
  KeyValueCache cache;

  void append(int64_t count) {
    cache.append(keys.slice(2, cache.length, cache.length + count),
                 values.slice(2, cache.length, cache.length + count));
  }
};

TEST(KeyValueCache, GrowsAndKeepsWhatWasThere) {
  Filled f;
  for (const int64_t count : {3, 1, 1, 20, 0, 15}) {
    f.append(count);
    for (int64_t row = 0; row < 4; ++row) expect_row(f.cache, row, f.keys, f.values, row);
  }
  EXPECT_EQ(f.cache.length, 40);
}

TEST(KeyValueCache, ReordersForksAndShrinks) {
  Filled f;
  f.append(10);
  f.cache.reorder(std::vector<int64_t>{2, 2, 0, 3, 1});
  const std::vector<int64_t> origin = {2, 2, 0, 3, 1};
  for (size_t r = 0; r < origin.size(); ++r) {
    expect_row(f.cache, static_cast<int64_t>(r), f.keys, f.values, origin[r]);
  }
  f.cache.reorder(std::vector<int64_t>{4, 0});
  ASSERT_EQ(f.cache.keys.size(0), 2);
  expect_row(f.cache, 0, f.keys, f.values, 1);
  expect_row(f.cache, 1, f.keys, f.values, 2);
  // Rows stay independent: what is appended to one is not seen in another.
  f.cache.append(sample({2, kHeads, 1, kKeySize}, 5), sample({2, kHeads, 1, kValueSize}, 6));
  EXPECT_EQ(f.cache.length, 11);
}

TEST(KeyValueCache, LeavesTheIdentityInPlace) {
  Filled f;
  f.append(4);
  const void* before = f.cache.keys.raw();
  f.cache.reorder(std::vector<int64_t>{0, 1, 2, 3});
  EXPECT_EQ(f.cache.keys.raw(), before);
  f.cache.reorder(std::vector<int64_t>{0, 1});
  EXPECT_EQ(f.cache.keys.raw(), before);
  ASSERT_EQ(f.cache.keys.size(0), 2);
  f.cache.append(f.keys.slice(0, 0, 2).slice(2, 4, 30), f.values.slice(0, 0, 2).slice(2, 4, 30));
  for (int64_t row = 0; row < 2; ++row) expect_row(f.cache, row, f.keys, f.values, row);
}

TEST(KeyValueCache, RefusesWhatDoesNotFit) {
  Filled f;
  f.append(4);
  EXPECT_THROW(f.cache.reorder(std::vector<int64_t>{4}), Error);
  EXPECT_THROW(f.cache.reorder(std::vector<int64_t>{-1}), Error);
  EXPECT_THROW(f.cache.append(sample({3, kHeads, 1, kKeySize}, 5), sample({3, kHeads, 1, kValueSize}, 6)), Error);
  EXPECT_THROW(f.cache.append(sample({4, kHeads, 1, kKeySize}, 5), sample({4, kHeads, 2, kValueSize}, 6)), Error);
}

}  // namespace
}  // namespace heed::nn
