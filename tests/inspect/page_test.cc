#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/message.h"
#include "base/sha256.h"
#include "heed/error.h"
#include "heed/inspect.h"
#include "inspect/page.h"
#include "inspect/payloads.h"
#include "inspect/sample_record.h"

namespace heed::inspect {
namespace {

using testing::count;

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

// What a page costs beside its record: 48,300 bytes when it did less, and no more than a fifth above that.
TEST(Page, IsSmall) {
  const Record record = chinese_record();
  EXPECT_LE(to_html(record).size() - to_json(record).size(), 48'300u * 6 / 5);
}

TEST(LivePage, IsUnder150KB) { EXPECT_LT(live_page().html.size(), 150'000u); }

TEST(Page, ALargePageIsSaidToBeLarge) {
  EXPECT_EQ(large_page_warning(to_html(chinese_record())), "");
  EXPECT_EQ(large_page_warning(std::string(20'000'000, 'a')), "");
  const std::string warning = large_page_warning(std::string(34'200'000, 'a'));
  for (const char* word : {"34 MB", "shorter text", "one head", "taps"})
    EXPECT_NE(warning.find(word), std::string::npos) << word;
}

// Contrast as WCAG 2 counts it, from the colours as they stand in the style sheets, light and dark.
TEST(Page, EveryInkCanBeReadOnEveryPaper) {
  const auto luminance = [](const std::string& hex) {
    const auto channel = [&](size_t at) {
      const double value = std::stoi(hex.substr(at, 2), nullptr, 16) / 255.0;
      return value <= 0.03928 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
    };
    return 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
  };
  int pairs = 0;
  for (const char* name : {"page.css", "curves.css"}) {
    std::ifstream file(std::string(HEED_SOURCE_DIR) + "/src/inspect/page/" + name);
    std::string css((std::istreambuf_iterator<char>(file)), {});
    for (const char* theme : {"light", "dark"}) {
      const std::string colours = between(css, ":root {", "color-scheme") + between(css, ":root {", "}");
      css.erase(0, css.find(":root {") + 7);
      std::map<std::string, std::string> values;
      for (const char* colour : {"ink", "soft", "faint", "accent", "first", "second", "paper", "panel", "button"})
        if (const std::string value = between(colours, "--" + std::string(colour) + ": ", ";"); !value.empty())
          values[colour] = value;
      for (const char* ink : {"ink", "soft", "faint", "accent", "first", "second"}) {
        for (const char* paper : {"paper", "panel", "button"}) {
          if (values.count(ink) == 0 || values.count(paper) == 0) continue;
          ++pairs;
          const double a = luminance(values[ink]), b = luminance(values[paper]);
          const double contrast = (std::max(a, b) + 0.05) / (std::min(a, b) + 0.05);
          EXPECT_GE(contrast, 4.5) << name << ", " << theme << ": " << ink << " on " << paper;
        }
      }
    }
  }
  EXPECT_EQ(pairs, 2 * (3 * 3 + 5 * 2));
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
