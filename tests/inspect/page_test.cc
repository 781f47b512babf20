#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "heed/error.h"
#include "heed/inspect.h"
#include "inspect/page.h"
#include "inspect/payloads.h"
#include "inspect/sample_record.h"

namespace heed::inspect {
namespace {

size_t count(const std::string& text, const std::string& what) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++found;
  return found;
}

std::string between(const std::string& text, const std::string& open, const std::string& close) {
  const size_t begin = text.find(open);
  if (begin == std::string::npos) return {};
  const size_t from = begin + open.size();
  return text.substr(from, text.find(close, from) - from);
}

TEST(Page, AllowsItsOwnScriptAndStyleAndNothingElse) {
  const std::string page = to_html(chinese_record());
  const std::string policy = between(page, "http-equiv=\"Content-Security-Policy\" content=\"", "\"");
  EXPECT_EQ(policy.find("default-src 'none'; "), 0u);
  EXPECT_EQ(count(policy, "unsafe"), 0u);
  EXPECT_EQ(between(policy, "script-src '", "'"), sha256_source(between(page, "<script>", "</script>")));
  EXPECT_EQ(between(policy, "style-src '", "'"), sha256_source(between(page, "<style>", "</style>")));
}

TEST(Page, IsOneFileWithoutHandlers) {
  const std::string page = to_html(chinese_record());
  const std::string skeleton = page.substr(0, page.find("<style>")) +
                               page.substr(page.find("<body>"), page.find("id=\"record\"") - page.find("<body>"));
  for (const char* word : {" src=", " href=", "url(", "@import", " onclick", " onload", " style=", "javascript:"})
    EXPECT_EQ(count(skeleton, word), 0u) << word;
  const std::string script = between(page, "<script>", "</script>");
  for (const char* word : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function",
                           "fetch(", "XMLHttpRequest", "WebSocket", "import(", "localStorage"})
    EXPECT_EQ(count(script, word), 0u) << word;
  const std::string style = between(page, "<style>", "</style>");
  EXPECT_EQ(count(style, "url("), 0u);
  EXPECT_EQ(count(style, "@import"), 0u);
}

TEST(Page, HoldsTheRecord) {
  const Record record = chinese_record();
  const std::string page = to_html(record);
  const std::string data = between(page, "<script type=\"application/json\" id=\"record\">", "</script>");
  EXPECT_EQ(nlohmann::json::parse(data), nlohmann::json::parse(to_json(record)));
  EXPECT_NE(page.find("<title>最近的火车站在哪里？ · attention</title>"), std::string::npos);
  EXPECT_NE(page.find("not an explanation"), std::string::npos);
}

// The same marks in the same places, whatever the tokens say.
TEST(Page, HostileTokensChangeNoMarkup) {
  const std::vector<std::string> hostile = payloads(10'000);
  const auto markup = [](const std::string& page) {
    return std::vector<size_t>{count(page, "<"),        count(page, ">"),    count(page, "<script"),
                               count(page, "</script"), count(page, "<!--"), count(page, "\u2028")};
  };
  std::vector<size_t> benign;
  for (size_t at = 0; at + 250 <= hostile.size(); at += 250) {
    const std::vector<std::string> tokens(hostile.begin() + static_cast<std::ptrdiff_t>(at),
                                          hostile.begin() + static_cast<std::ptrdiff_t>(at + 250));
    Record record;
    record.source_tokens = {"a", "b"};
    record.target_tokens.assign(tokens.size(), "a");
    record.cross.push_back({.path = "decoder.layers.0.cross_attention", .weights = Tensor::full({1, 250, 2}, 0.5f)});
    if (benign.empty()) benign = markup(to_html(record));
    record.target_tokens = record.output_tokens = tokens;
    record.title = tokens[1];
    record.source = tokens[2];
    record.output = tokens[3];
    record.cross[0].path = tokens[4];
    ASSERT_EQ(markup(to_html(record)), benign);
  }
}

TEST(Page, MarksInTokensAreNotFilledIn) {
  const std::string page = make_page({.skeleton = "<a>{{title}}|{{record}}|{{script}}</a>",
                                      .title = "{{script}}",
                                      .style = "",
                                      .script = "S",
                                      .record = "{{style}}",
                                      .drawing = ""});
  EXPECT_EQ(page, "<a>{{script}}|{{style}}|S</a>");
  EXPECT_THROW(
      (void)make_page({.skeleton = "{{other}}", .title = "", .style = "", .script = "", .record = "", .drawing = ""}),
      Error);
}

}  // namespace
}  // namespace heed::inspect
