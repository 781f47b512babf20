#include "text/huggingface/word_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace heed::text::huggingface {
namespace {

std::string word_of(int32_t n) { return "w" + std::to_string(n); }

std::vector<Cut> cuts_of(int32_t n) {
  const auto size = static_cast<uint32_t>(word_of(n).size());
  return {{.id = n, .begin = 0, .end = 1}, {.id = 7 * n, .begin = 1, .end = size}};
}

bool finds(const WordCache& cache, int32_t n) {
  std::vector<Cut> cuts;
  const std::string word = word_of(n);
  if (!cache.find(word, WordCache::hash_of(word), cuts)) return false;
  const std::vector<Cut> expected = cuts_of(n);
  EXPECT_EQ(cuts.size(), expected.size()) << word;
  for (size_t i = 0; i < std::min(cuts.size(), expected.size()); ++i) {
    EXPECT_EQ(cuts[i].id, expected[i].id) << word;
    EXPECT_EQ(cuts[i].begin, expected[i].begin) << word;
    EXPECT_EQ(cuts[i].end, expected[i].end) << word;
  }
  return true;
}

TEST(WordCache, GivesWhatWasKeptWhileItGrows) {
  WordCache cache;
  EXPECT_FALSE(finds(cache, 1));
  int32_t found = 0;
  for (int32_t n = 1; n <= 40000; ++n) {
    const std::string word = word_of(n);
    const std::vector<Cut> cuts = cuts_of(n);
    cache.keep(word, WordCache::hash_of(word), cuts.data(), cuts.size());
    ASSERT_TRUE(finds(cache, n));
    if (n == 257) {  // it has just grown from 256 places, where some words took the places of others
      for (int32_t before = 1; before <= n; ++before) found += finds(cache, before) ? 1 : 0;
      EXPECT_GT(found, 128);
    }
  }
  for (int32_t n = 1; n <= 40000; ++n) (void)finds(cache, n);
}

TEST(WordCache, DoesNotKeepWordsOfManyTokens) {
  WordCache cache;
  const std::vector<Cut> cuts(9);
  std::vector<Cut> result;
  cache.keep("nine", WordCache::hash_of("nine"), cuts.data(), cuts.size());
  EXPECT_FALSE(cache.find("nine", WordCache::hash_of("nine"), result));
}

}  // namespace
}  // namespace heed::text::huggingface
