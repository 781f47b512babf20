// Where sentences end: beside sentences that people would cut, in several scripts.
#include "text/sentences.h"

#include <gtest/gtest.h>

#include <string>

namespace heed::text {
namespace {

using Parts = std::vector<std::string>;

Parts parts_of(const std::string& text) {
  Parts parts;
  for (const Span& span : sentences(text))
    parts.push_back(text.substr(static_cast<size_t>(span.begin), static_cast<size_t>(span.end - span.begin)));
  return parts;
}

TEST(Sentences, EndAtTheMarksOfTheirScript) {
  EXPECT_EQ(parts_of("Where is it? Here! It is late... We go."),
            (Parts{"Where is it?", "Here!", "It is late...", "We go."}));
  EXPECT_EQ(parts_of("车站在哪里？我不知道。“真的！”他说。再见"),
            (Parts{"车站在哪里？", "我不知道。", "“真的！”", "他说。", "再见"}));
  EXPECT_EQ(parts_of("यह क्या है। मुझे नहीं पता।"), (Parts{"यह क्या है।", "मुझे नहीं पता।"}));
  EXPECT_EQ(parts_of("أين المحطة؟ هنا."), (Parts{"أين المحطة؟", "هنا."}));
  EXPECT_EQ(parts_of("Hello.你好。OK"), (Parts{"Hello.", "你好。", "OK"}));
  EXPECT_EQ(parts_of("Wirklich?! Ja… Gut"), (Parts{"Wirklich?!", "Ja…", "Gut"}));
}

TEST(Sentences, KeepTheQuotesThatClose) {
  EXPECT_EQ(parts_of("He said: \"Come in!\" She came. (All of them.) «Oui.» ‘No.’ Then"),
            (Parts{"He said: \"Come in!\"", "She came.", "(All of them.)", "«Oui.»", "‘No.’", "Then"}));
  EXPECT_EQ(parts_of("\"Really?\" she asked. Yes."), (Parts{"\"Really?\" she asked.", "Yes."}));
}

TEST(Sentences, DoNotEndInNumbersAndAbbreviations) {
  EXPECT_EQ(
      parts_of("It costs 3.50 at www.example.org. Dr. J. R. Smith of the U.S. Army paid, e.g. in 2003. He left."),
      (Parts{"It costs 3.50 at www.example.org.", "Dr. J. R. Smith of the U.S. Army paid, e.g. in 2003.", "He left."}));
  EXPECT_EQ(parts_of("1. Introduction. 2. Method."), (Parts{"1. Introduction.", "2. Method."}));
  EXPECT_EQ(parts_of("Г. Иванов и О. Петров. Они"), (Parts{"Г. Иванов и О. Петров.", "Они"}));
  EXPECT_EQ(parts_of("and so on. and then"), (Parts{"and so on. and then"})) << "a small letter goes on";
}

TEST(Sentences, EndWithAnEmptyLine) {
  EXPECT_EQ(parts_of("A heading\n\nA text that\nruns on\r\n\r\n  the end \n"),
            (Parts{"A heading", "A text that\nruns on", "the end"}));
  EXPECT_EQ(parts_of("Yes.\nNo.\n\n\n"), (Parts{"Yes.", "No."}));
}

TEST(Sentences, OfNothing) {
  EXPECT_EQ(parts_of(""), Parts());
  EXPECT_EQ(parts_of(" \t\n\n "), Parts());
  EXPECT_EQ(parts_of("..."), Parts{"..."});
  EXPECT_EQ(parts_of(" . a . "), (Parts{". a ."}));
}

// Every byte that is not white space is in exactly one sentence, and the places rise.
TEST(Sentences, CoverTheText) {
  const std::string pieces[] = {"a", "B", ".", "!", "。", " ", "\n", "\"", "”", "…", "中", "7", "Dr", "é", ")"};
  uint64_t state = 7;
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int i = 0; i < 30; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      text += pieces[(state >> 33) % std::size(pieces)];
    }
    int64_t at = 0;
    for (const Span& span : sentences(text)) {
      ASSERT_LE(at, span.begin) << text;
      ASSERT_LT(span.begin, span.end) << text;
      const auto gap = text.substr(static_cast<size_t>(at), static_cast<size_t>(span.begin - at));
      ASSERT_TRUE(trimmed(gap).empty()) << text;
      const auto part = text.substr(static_cast<size_t>(span.begin), static_cast<size_t>(span.end - span.begin));
      ASSERT_EQ(trimmed(part), part) << text;
      at = span.end;
    }
    ASSERT_TRUE(trimmed(text.substr(static_cast<size_t>(at))).empty()) << text;
  }
}

TEST(Sentences, LastPause) {
  EXPECT_EQ(last_pause("aa bb, cc dd"), 6u);
  EXPECT_EQ(last_pause("a, bb cc dd ee"), 11u) << "a comma of the first half is too early";
  EXPECT_EQ(last_pause("aa bb 1,000"), 5u) << "a comma in a number is none";
  EXPECT_EQ(last_pause("车站在，哪里"), std::string("车站在，").size());
  EXPECT_EQ(last_pause("aaaaaaa"), 0u);
  EXPECT_EQ(last_pause("a bbbbbbbbbb"), 1u);
  EXPECT_EQ(last_pause(""), 0u);
}

TEST(Sentences, WritingWithoutSpaces) {
  for (const char* const text : {"中", "か", "カ", "。", "，", "　", "！"})
    EXPECT_TRUE(begins_without_spaces(text)) << text;
  for (const char* const text : {"a", " ", ".", "…", "”", "한", "ไ", ""})
    EXPECT_FALSE(begins_without_spaces(text)) << text;
  EXPECT_TRUE(ends_without_spaces("a。"));
  EXPECT_FALSE(ends_without_spaces("。a"));
}

}  // namespace
}  // namespace heed::text
