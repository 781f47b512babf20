// Answers in a passage: beside tokens, windows and logits of transformers (tools/golden_answers.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/message.h"
#include "heed/error.h"
#include "heed/pipelines.h"
#include "pipelines/hugging_face.h"

namespace heed {
namespace {

using test::Scratch;
using test::with_words;
using testing::message_of;

TEST(Answers, AreThoseOfTransformers) {
  const Scratch scratch;
  std::map<std::string, Encoder> encoders;
  for (const char* const name : {"bert-answer", "distilbert-answer"})
    encoders.emplace(name, Encoder::load(with_words(scratch, name)));
  const auto cases = nlohmann::json::parse(std::ifstream(test::test_data("families") / "answers.json"));
  ASSERT_EQ(cases.size(), 60u);
  for (const auto& one : cases) {
    const std::string question = one["question"], passage = one["passage"];
    SCOPED_TRACE(one["model"].get<std::string>() + ": " + question + " / " + passage);
    const Encoder& encoder = encoders.at(one["model"]);
    const int64_t count = one["count"];
    const std::vector<Answer> found = encoder.answer(question, passage, {.count = count});
    // transformers returns fewer than `count` where several of its best runs are of the same words.
    const size_t expected_count = one["answers"].size();
    ASSERT_GE(found.size(), expected_count);
    ASSERT_LE(std::ssize(found), count);
    for (size_t i = 0; i < expected_count; ++i) {
      const auto& expected = one["answers"][i];
      EXPECT_NEAR(found[i].score, expected["score"].get<double>(), 1e-6);
      EXPECT_EQ(found[i].text, expected["text"]) << i;
      EXPECT_EQ(found[i].span, (text::Span{expected["begin"], expected["end"]})) << i;
    }
    const std::vector<Answer> all = encoder.answer(question, passage, {.count = 100000, .may_be_none = true});
    const auto none = std::find_if(all.begin(), all.end(), [](const Answer& a) { return a.span == text::Span{}; });
    ASSERT_NE(none, all.end());
    EXPECT_EQ(none->text, "");
    EXPECT_NEAR(none->score, one["none"].get<double>(), 1e-6);
    EXPECT_TRUE(std::is_sorted(all.begin(), all.end(), [](auto& a, auto& b) { return a.score > b.score; }));
  }
}

// Words of several tokens: many runs are the same words, and only different words count.
TEST(Answers, FewAreTheFirstOfMany) {
  const Scratch scratch;
  const Encoder encoder = Encoder::load(with_words(scratch, "bert-answer"));
  const std::string passage = "pariss citys frances capitals as citys ofs thes pariss of frances a querys";
  const std::vector<Answer> all = encoder.answer("a city", passage, {.count = 1000});
  ASSERT_GT(all.size(), 20u);
  for (int64_t count = 1; count <= std::ssize(all); ++count) {
    const std::vector<Answer> few = encoder.answer("a city", passage, {.count = count});
    ASSERT_EQ(std::ssize(few), count);
    for (size_t i = 0; i < few.size(); ++i) {
      EXPECT_EQ(few[i].span, all[i].span) << count;
      EXPECT_EQ(few[i].score, all[i].score) << count;
    }
  }
}

TEST(Answers, EachWindowIsAnnounced) {
  const Scratch scratch;
  const Encoder encoder = Encoder::load(with_words(scratch, "bert-answer"));
  std::string passage;
  for (int i = 0; i < 100; ++i) passage += "paris ";
  int64_t windows = 0;
  (void)encoder.answer("a city", passage, {.window = 15, .overlap = 0, .on_window = [&] { ++windows; }});
  EXPECT_EQ(windows, 10);  // of 10 tokens of the passage
  EXPECT_THROW((void)encoder.answer("a city", passage, {.on_window = [] { throw Error("enough"); }}), Error);
}

// Both heads give numbers for each token.
TEST(Answers, AreNotClassesOfTokens) {
  const Scratch scratch;
  const Encoder answers = Encoder::load(with_words(scratch, "bert-answer"));
  const std::vector<std::string> texts = {"paris"};
  EXPECT_CONTAINS(message_of([&] { (void)answers.classify_tokens("paris"); }),
                  "a model that tells classes of tokens; found a model that finds answers");
  EXPECT_CONTAINS(message_of([&] { (void)answers.classify(texts); }), "found a model that finds answers");
  const std::filesystem::path tokens = with_words(scratch, "bert-tokens");
  EXPECT_CONTAINS(message_of([&] { (void)Encoder::load(tokens).answer("a", "a"); }),
                  "a model that finds answers; found a model that tells classes of tokens");
}

TEST(Answers, Options) {
  const Scratch scratch;
  const Encoder encoder = Encoder::load(with_words(scratch, "bert-answer"));
  const std::string passage = "paris is the capital of france";
  for (const Answer& one : encoder.answer("a city", passage, {.count = 100, .longest_answer = 1}))
    EXPECT_EQ(one.text.find(' '), std::string::npos) << one.text;
  EXPECT_EQ(encoder.answer("a city", passage, {.count = 100, .longest_answer = 1}).size(), 6u);
  EXPECT_EQ(encoder.answer("a city", passage, {.count = 100}).size(), 21u);
  EXPECT_NE(message_of([&] { (void)encoder.answer("a city", passage, {.count = 0}); }).find("1 or more"),
            std::string::npos);
  EXPECT_EQ(message_of([&] { (void)encoder.answer("a city", passage, {.window = 0}); }),
            "[Encoder::answer] a window of 1 token or more; found 0");
  EXPECT_EQ(message_of([&] { (void)encoder.answer("", passage); }),
            "[Encoder::answer] text 1: a text of at least one token; found an empty one");
  EXPECT_EQ(message_of([&] { (void)encoder.answer("a", " "); }),
            "[Encoder::answer] text 2: a text of at least one token; found an empty one");
  EXPECT_EQ(message_of([&] { (void)encoder.answer("a", "\xff"); }),
            "[Encoder::answer] text 2: valid UTF-8; found byte 0xff at position 1");
  std::string longest;
  for (int i = 0; i < 21; ++i) longest += "a ";
  EXPECT_EQ(message_of([&] { (void)encoder.answer(longest, passage); }),
            "[Encoder::answer] text 1: at most the 20 tokens of a question that the model reads beside a passage; "
            "found 21");
  EXPECT_EQ(encoder.answer(longest.substr(2), passage, {.count = 100, .longest_answer = 5}).size(), 6u)
      << "windows of one token";
  const Encoder tokens = Encoder::load(with_words(scratch, "bert-tokens"));
  const Encoder states = Encoder::load(with_words(scratch, "bert-model"));
  EXPECT_NE(message_of([&] { (void)states.answer("a", passage); }).find("a model that finds answers; found"),
            std::string::npos);
  EXPECT_NE(message_of([&] { (void)tokens.answer("a", passage); }).find("a model that finds answers; found"),
            std::string::npos);
  const Encoder masked = Encoder::load(with_words(scratch, "bert-masked"));
  EXPECT_THROW((void)masked.answer("a", passage), Error);
}

}  // namespace
}  // namespace heed
