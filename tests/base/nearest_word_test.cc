#include "base/nearest_word.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace heed {
namespace {

// The edits between a[0..i) and b[0..j), by their definition.
size_t edits(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty()) return a.size() + b.size();
  const std::string_view a_rest = a.substr(1), b_rest = b.substr(1);
  if (a[0] == b[0]) return edits(a_rest, b_rest);
  size_t fewest = 1 + std::min({edits(a_rest, b), edits(a, b_rest), edits(a_rest, b_rest)});
  if (a.size() > 1 && b.size() > 1 && a[0] == b[1] && a[1] == b[0]) {
    fewest = std::min(fewest, 1 + edits(a.substr(2), b.substr(2)));
  }
  return fewest;
}

TEST(NearestWord, IsOneTypingMistakeAway) {
  const std::vector<std::string_view> options = {"--help", "--beam", "--batch-tokens", "--seed"};
  EXPECT_EQ(nearest_word("--hlep", options), "--help") << "two neighbours are swapped: one edit";
  EXPECT_EQ(nearest_word("--hepl", options), "--help");
  EXPECT_EQ(nearest_word("--bean", options), "--beam");
  EXPECT_EQ(nearest_word("--bea", options), "--beam");
  EXPECT_EQ(nearest_word("--beaam", options), "--beam");
  EXPECT_EQ(nearest_word("--seed", options), "--seed");
}

TEST(NearestWord, AllowsOneEditInThreeLetters) {
  const std::vector<std::string_view> keys = {"bpe", "max_updates", "model.norm", "schedule.warmup"};
  EXPECT_EQ(nearest_word("foo", keys), "") << "three edits make any word of any other three letters";
  EXPECT_EQ(nearest_word("bpa", keys), "bpe");
  EXPECT_EQ(nearest_word("bap", keys), "") << "two edits";
  EXPECT_EQ(nearest_word("mx_updtes", keys), "max_updates");
  EXPECT_EQ(nearest_word("mx_pdts", keys), "") << "four edits";
  EXPECT_EQ(nearest_word("model.foo", keys), "") << "the section is not counted";
  EXPECT_EQ(nearest_word("schedule.wramup", keys), "schedule.warmup");
}

TEST(NearestWord, WordsThatAreCutOff) {
  const std::vector<std::string_view> names = {"translate", "train", "average"};
  EXPECT_EQ(nearest_word("trans", names), "translate");
  EXPECT_EQ(nearest_word("tran", names), "translate") << "the first of equals";
  EXPECT_EQ(nearest_word("t", names), "") << "one letter begins too many words";
  EXPECT_EQ(nearest_word("", names), "");
  EXPECT_EQ(nearest_word("average", {}), "");
}

TEST(NearestWord, IsTheOneWithTheFewestEdits) {
  std::vector<std::string> words;
  for (unsigned n = 1; n < 120; ++n) {
    std::string word;
    for (unsigned rest = n * 2654435761u; rest > 0 && word.size() < 2 + n % 5; rest /= 7) word += "abc"[rest % 3];
    words.push_back(word);
  }
  const std::vector<std::string_view> candidates(words.begin(), words.begin() + 40);
  for (const std::string_view word : words) {
    std::string_view expected;
    size_t best = std::max<size_t>(1, word.size() / 3) + 1;
    for (const std::string_view candidate : candidates) {
      const size_t distance = candidate.starts_with(word) ? 1 : edits(word, candidate);
      if (distance < best) best = distance, expected = candidate;
    }
    EXPECT_EQ(nearest_word(word, candidates), expected) << word;
  }
}

}  // namespace
}  // namespace heed
