// Texts that are longer than a model reads: cut at sentences, translated part by part, joined again.
#include "pipelines/parts.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/message.h"
#include "heed/error.h"
#include "pipelines/small_models.h"

namespace heed {
namespace {

using models::Architecture;
using pipelines::Part;
using test::Folder;
using test::make_model;
using testing::message_of;
using Strings = std::vector<std::string>;

const std::filesystem::path kModel = std::filesystem::path(HEED_SOURCE_DIR) / "demo" / "en-zh";

// Each byte is a token. Counts what it is asked.
class Bytes : public text::Tokenizer {
 public:
  std::vector<int32_t> encode(std::string_view text) const override {
    bytes_ += std::ssize(text);
    return std::vector<int32_t>(text.size());
  }
  std::string decode(std::span<const int32_t>) const override { return ""; }
  std::string piece(int32_t) const override { return "x"; }
  int64_t vocabulary() const override { return 1; }
  text::SpecialIds special() const override { return {-1, -1, -1, -1}; }
  std::string kind() const override { return "bytes"; }
  void save(const std::filesystem::path&, text::Side) const override {}
  [[nodiscard]] int64_t bytes() const { return bytes_; }

 private:
  mutable int64_t bytes_ = 0;
};

std::string bytes_of(const std::string& text, const Part& part) {
  return text.substr(static_cast<size_t>(part.span.begin), static_cast<size_t>(part.span.end - part.span.begin));
}

Strings cut(const text::Tokenizer& tokenizer, const std::string& text, int64_t longest) {
  Strings parts;
  for (const Part& part : pipelines::parts_of(tokenizer, text, 0, longest, {}, "cut"))
    parts.push_back(bytes_of(text, part) + (part.glued ? " (glued)" : ""));
  return parts;
}

TEST(Parts, AreSentencesAndWhatFitsOfLongOnes) {
  const Bytes bytes;
  EXPECT_EQ(cut(bytes, "One. Two. Three.", 10), (Strings{"One.", "Two.", "Three."}));
  EXPECT_EQ(cut(bytes, "aa bb cc, dd ee ff", 12), (Strings{"aa bb cc,", "dd ee ff"}));
  EXPECT_EQ(cut(bytes, "aaaa bbbb cccc", 10), (Strings{"aaaa bbbb", "cccc"}));
  EXPECT_EQ(cut(bytes, "abcdefghijkl", 10), (Strings{"abcdefghij", "kl (glued)"}));
  EXPECT_EQ(cut(bytes, "中中中中中", 7), (Strings{"中中", "中中", "中"})) << "characters stay whole";
  EXPECT_EQ(message_of([&] { (void)cut(bytes, "a中", 2); }),
            "[cut] text 1: characters of at most the 2 tokens that the model reads; found one of more");
}

TEST(Parts, NoWordIsLostAndEveryPartFits) {
  const auto tokenizer = text::Tokenizer::load(kModel, text::Side::source);
  const std::string texts[] = {"Where is the station, and when does the train leave",
                               "Donaudampfschifffahrtsgesellschaft", "a,b;c d。e 中文字 ... I. am. 3.14 !!! ", "x"};
  for (const int64_t longest : {2, 3, 5, 8, 13}) {
    for (const std::string& one : texts) {
      const std::string text = one + " " + one + one;
      std::string joined, expected;
      for (const Part& part : pipelines::parts_of(*tokenizer, text, 0, longest, {}, "cut")) {
        EXPECT_LE(std::ssize(tokenizer->encode(bytes_of(text, part))), longest);
        joined += bytes_of(text, part);
      }
      for (const char c : joined) expected += c == ' ' ? "" : std::string(1, c);
      std::string whole;
      for (const char c : text) whole += c == ' ' ? "" : std::string(1, c);
      EXPECT_EQ(expected, whole) << longest;
    }
  }
}

// Ten megabytes on a line take as much work for each byte as a kilobyte does.
TEST(Parts, TimeIsLinear) {
  const std::string pieces[] = {"word ", "word", "word. ", "word, ", "1. ", "J. ",
                                "中",    "中，", "。",     ".",      "\"",  "!? "};
  for (const std::string& piece : pieces) {
    double rates[2] = {};
    for (const size_t size : {size_t{20'000}, size_t{2'000'000}}) {
      std::string text;
      while (text.size() < size) text += piece;
      const Bytes bytes;
      (void)pipelines::parts_of(bytes, text, 0, 500, {}, "cut");
      rates[size > 100'000] = static_cast<double>(bytes.bytes()) / static_cast<double>(text.size());
    }
    EXPECT_LE(rates[1], 40) << piece;
    EXPECT_LE(rates[1], 1.2 * rates[0]) << piece;
  }
}

Translation as(const std::string& text, double score) {
  return {
      .text = text, .score = score, .finished = true, .tokens = {text}, .log_probs = {static_cast<float>(score), 0}};
}

std::string joined(const std::string& text, const std::vector<Part>& parts, const Strings& translations) {
  std::vector<std::vector<Translation>> found;
  for (const std::string& one : translations) found.push_back({as(one, -1)});
  return pipelines::join_parts(text, parts, found).at(0).text;
}

TEST(Parts, SpacesBetweenTranslations) {
  const std::string english = "One.  Two.\tThree.", chinese = "一。二。三";
  const std::vector<Part> three = {{.span = {0, 4}}, {.span = {6, 10}}, {.span = {11, 17}}};
  const std::vector<Part> wide = {{.span = {0, 6}}, {.span = {6, 12}}, {.span = {12, 15}}};
  EXPECT_EQ(joined(english, three, {"Eins.", "Zwei.", "Drei."}), "Eins.  Zwei.\tDrei.") << "as they stood";
  EXPECT_EQ(joined(english, three, {"一。", "二。", "三。"}), "一。二。三。");
  EXPECT_EQ(joined(english, three, {"一。", "Zwei.", "Drei."}), "一。Zwei.\tDrei.");
  EXPECT_EQ(joined(english, three, {"", "Zwei.", "Drei."}), "Zwei.\tDrei.");
  EXPECT_EQ(joined(english, three, {"Eins.", "", "Drei."}), "Eins.\tDrei.");
  EXPECT_EQ(joined(chinese, wide, {"One.", "Two.", "Three."}), "One. Two. Three.");
  EXPECT_EQ(joined(chinese, wide, {"一。", "二。", "三"}), chinese);
  EXPECT_EQ(joined("一。　二。", {{.span = {0, 6}}, {.span = {9, 15}}}, {"One.", "Two."}), "One. Two.")
      << "a wide space";
  EXPECT_EQ(joined("abcd", {{.span = {0, 2}}, {.span = {2, 4}, .glued = true}}, {"ab", "cd"}), "abcd");
}

TEST(Parts, RanksAndScores) {
  const std::vector<Part> parts = {{.span = {0, 2}}, {.span = {3, 5}}};
  std::vector<std::vector<Translation>> found = {{as("a", -1), as("b", -2)}, {as("c", -3)}};
  found[1][0].finished = false;
  const auto best = pipelines::join_parts("A. B.", parts, found);
  ASSERT_EQ(best.size(), 2u);
  EXPECT_EQ(best[0].text, "a c");
  EXPECT_EQ(best[1].text, "b c");
  EXPECT_DOUBLE_EQ(best[0].score, -2);
  EXPECT_DOUBLE_EQ(best[1].score, -2.5);
  EXPECT_FALSE(best[0].finished);
  EXPECT_EQ(best[0].tokens, (Strings{"a", "c"}));
  EXPECT_EQ(best[0].log_probs, (std::vector<float>{-1, 0, -3, 0}));
}

// The parts are translated as they are alone, and neighbours as they are without them.
TEST(Parts, AreTranslatedAsAlone) {
  const Translator translator = Translator::load(kModel);
  const Strings sentences = {"Where is the station?", "I am here.", "It is \"good\".", "We go, because it is late."};
  std::string text, expected;
  double score = 0;
  std::vector<float> log_probs;
  for (int round = 0; round < 8; ++round) {
    for (const std::string& sentence : sentences) {
      const Translation alone = translator.translate(sentence).front();
      text += (text.empty() ? "" : " ") + sentence;
      expected += alone.text;  // Chinese
      score += alone.score / 32;
      log_probs.insert(log_probs.end(), alone.log_probs.begin(), alone.log_probs.end());
    }
  }
  std::vector<std::string> warnings;
  const TranslatorOptions options{.text = {.too_long = TooLong::split, .on_warning = [&](const TextWarning& w) {
                                             warnings.push_back(std::to_string(w.text) + ": " + to_string(w));
                                           }}};
  std::vector<std::string> texts = {"I am here.", text, "", text, "Where is the station?"};
  const auto found = translator.translate(texts, options);
  ASSERT_EQ(found.size(), texts.size());
  EXPECT_EQ(found[1][0].text, expected);
  EXPECT_NEAR(found[1][0].score, score, 1e-6);
  EXPECT_EQ(found[1][0].log_probs, log_probs);
  EXPECT_EQ(found[3][0].text, expected);
  EXPECT_EQ(found[0][0].text, translator.translate("I am here.").front().text);
  EXPECT_EQ(found[2][0].text, "");
  EXPECT_EQ(found[4][0].text, translator.translate("Where is the station?").front().text);
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_EQ(warnings[0].substr(0, 3), "1: ");
  EXPECT_NE(warnings[0].find(" tokens, translated in 32 parts"), std::string::npos) << warnings[0];
}

TEST(Parts, OnlyTranslationSplits) {
  const Folder folder;
  const Translator translator = Translator::load(make_model(folder.path(), Architecture::encoder_decoder));
  std::string text;
  for (int i = 0; i < 30; ++i) text += "the ";
  const TextOptions split{.too_long = TooLong::split};
  EXPECT_EQ(message_of([&] { (void)translator.record(text, {.text = split}); }),
            "[Translator::record] text 1: at most the 23 tokens that the model reads; found 30");
  EXPECT_EQ(message_of([&] { (void)translator.encode(text, {.text = split}); }),
            "[Translator::encode] text 1: at most the 23 tokens that the model reads; found 30");
  int64_t progress = 0;
  const TranslatorOptions options{
      .search = {.max_length = 4}, .text = split, .progress = [&](int64_t done) { progress = done; }};
  EXPECT_EQ(translator.translate(std::vector<std::string>{text, text}, options).size(), 2u);
  EXPECT_EQ(progress, 2);
}

}  // namespace
}  // namespace heed
