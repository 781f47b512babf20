#include "base/nearest_word.h"

#include <gtest/gtest.h>

#include <vector>

namespace heed {
namespace {

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

}  // namespace
}  // namespace heed
