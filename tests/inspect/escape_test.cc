#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "heed/inspect.h"
#include "inspect/payloads.h"
#include "inspect/utf8.h"

namespace heed::inspect {
namespace {

constexpr size_t kPayloads = 10'000;

// An oracle of its own: valid UTF-8 by the table of the standard, one U+FFFD for each maximal part that is not.
// nlohmann's serialiser replaces in the same way, and is a third party.
std::string made_valid(const std::string& text) {
  const std::string quoted = nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return nlohmann::json::parse(quoted).get<std::string>();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

TEST(EscapeJson, ParsesBackToTheText) {
  for (const std::string& text : payloads(kPayloads)) {
    const std::string escaped = escape_json(text);
    ASSERT_EQ(nlohmann::json::parse('"' + escaped + '"').get<std::string>(), made_valid(text)) << escaped;
  }
}

TEST(EscapeJson, CannotEndAScriptElement) {
  for (const std::string& text : payloads(kPayloads)) {
    const std::string escaped = escape_json(text);
    ASSERT_EQ(escaped.find_first_of("<>&'`\n\r\t"), std::string::npos) << escaped;
    for (const char* hidden : {"\u2028", "\u2029", "\u202e", "\u2066", "\ufeff", "\u200f"})
      ASSERT_EQ(escaped.find(hidden), std::string::npos) << escaped;
    for (char c : escaped) ASSERT_GE(static_cast<unsigned char>(c), 0x20u);
  }
}

TEST(EscapeHtml, LeavesNothingThatIsMarkup) {
  for (const std::string& text : payloads(kPayloads)) {
    std::string escaped = escape_html(text);
    ASSERT_EQ(escaped.find_first_of("<>\"'`"), std::string::npos) << escaped;
    ASSERT_EQ(made_valid(escaped), escaped);
    for (const char* entity : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;", "&#96;", "&#13;"})
      escaped = replaced(escaped, entity, "");
    ASSERT_EQ(escaped.find('&'), std::string::npos) << escaped;
    for (char c : escaped) ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t');
  }
}

TEST(EscapeHtml, IsTheTextForAParser) {
  EXPECT_EQ(escape_html("a<b>&\"c'"), "a&lt;b&gt;&amp;&quot;c&#39;");
  EXPECT_EQ(escape_html("车站 ▁où"), "车站 ▁où");
  EXPECT_EQ(escape_html("a\0b"s),
            "a\ufffd"
            "b");
  EXPECT_EQ(escape_html("\r\n"), "&#13;\n");
  EXPECT_EQ(escape_html("\xff"), "\ufffd");
}

TEST(EscapeTerminal, ShowsWhatWouldSteerATerminal) {
  EXPECT_EQ(escape_terminal("\x1b[31m"), "␛[31m");
  EXPECT_EQ(escape_terminal("a\0b\n"s), "a␀b␊");
  EXPECT_EQ(escape_terminal("\x7f"), "␡");
  EXPECT_EQ(escape_terminal("\u009b"), "<U+009B>");
  EXPECT_EQ(escape_terminal("\u202egnp"), "<U+202E>gnp");
  EXPECT_EQ(escape_terminal("\U000e0041"), "<U+E0041>");
  EXPECT_EQ(escape_terminal("车站 é 😀"), "车站 é 😀");
}

TEST(EscapeTerminal, HasNoControlCharacters) {
  for (const std::string& text : payloads(kPayloads)) {
    const std::string shown = escape_terminal(text);
    for (size_t at = 0; at < shown.size();) ASSERT_FALSE(is_invisible(next_code_point(shown, at))) << shown;
    ASSERT_EQ(made_valid(shown), shown);
  }
}

// Work that grows with the square of the length would take hours here, and run into the limit of the test.
TEST(Escape, TenMegabytes) {
  std::string text;
  while (text.size() < 10'000'000) text += "<script>车\x1b\xff\"";
  EXPECT_GT(escape_html(text).size(), text.size());
  EXPECT_GT(escape_json(text).size(), text.size());
  EXPECT_GT(escape_terminal(text).size(), text.size());
  EXPECT_LT(label(text, 24).size(), 200u);
}

TEST(Label, CutsBetweenCharacters) {
  EXPECT_EQ(label("火车站在哪里", 6), "火车站在哪里");
  EXPECT_EQ(label("火车站在哪里", 4), "火车站…");
  EXPECT_EQ(label("", 4), "∅");
}

TEST(Label, ShowsBlanksAlone) {
  EXPECT_EQ(label(" ", 24), "␣");
  EXPECT_EQ(label("   ", 24), "␣␣␣");
  EXPECT_EQ(label(" a ", 24), " a ");
  EXPECT_EQ(label("", 24), "∅");
}

// Persian spelling and emoji of a family need them; nowhere else may they hide.
TEST(Label, KeepsJoinersBetweenCharactersThatCanBeSeen) {
  EXPECT_EQ(label("می\u200cخواهم", 24), "می\u200cخواهم");
  EXPECT_EQ(label("👩\u200d👧", 24), "👩\u200d👧");
  EXPECT_EQ(label("\u200ca", 24), "<U+200C>a");
  EXPECT_EQ(label("a\u200d", 24), "a<U+200D>");
  EXPECT_EQ(label("a \u200db", 24), "a <U+200D>b");
  EXPECT_EQ(label("a\u200d\u200db", 24), "a<U+200D><U+200D>b");
  EXPECT_EQ(label("a\u200d\u202eb", 24), "a<U+200D><U+202E>b");
  EXPECT_EQ(label("a\u200bb", 24), "a<U+200B>b");
  EXPECT_EQ(escape_terminal("a\u200db"), "a<U+200D>b");
}

TEST(TerminalWidth, EastAsianCharactersTakeTwoColumns) {
  EXPECT_EQ(terminal_width("station"), 7);
  EXPECT_EQ(terminal_width("车站"), 4);
  EXPECT_EQ(terminal_width("？"), 2);
  EXPECT_EQ(terminal_width("e\u0301"), 1);
  EXPECT_EQ(terminal_width("می\u200cخواهم"), 7);
  EXPECT_EQ(terminal_width("▁où"), 3);
}

}  // namespace
}  // namespace heed::inspect
