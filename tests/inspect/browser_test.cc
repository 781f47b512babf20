// The page in a real browser: what is drawn, what is text, and that nothing else runs.
#include <gtest/gtest.h>
#include <png.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "base/message.h"
#include "heed/inspect.h"
#include "inspect/browser.h"
#include "inspect/payloads.h"
#include "inspect/sample_record.h"

namespace heed::inspect {
namespace {

using testing::count;

namespace fs = std::filesystem;

std::string element(const std::string& dom, const std::string& id, const std::string& close) {
  const size_t begin = dom.find("id=\"" + id + "\"");
  return begin == std::string::npos ? std::string() : dom.substr(begin, dom.find(close, begin) - begin);
}

// Element names of a serialised tree in their order, without what they say. `<` and `>` in attribute values may be raw.
std::vector<std::string> tree(const std::string& dom) {
  std::vector<std::string> out;
  for (size_t at = 0; (at = dom.find('<', at)) != std::string::npos;) {
    size_t end = at + 1;
    for (bool quoted = false; end < dom.size() && (quoted || dom[end] != '>'); ++end)
      if (dom[end] == '"') quoted = !quoted;
    const std::string tag = dom.substr(at + 1, dom.find_first_of(" >", at) - at - 1);
    out.push_back(tag);
    at = end;
    if (tag == "script" || tag == "style") at = dom.find("</" + tag, at);
  }
  return out;
}

TEST_F(Browser, DrawsEveryHeadAndTheOneInTheAddress) {
  write(to_html(chinese_record()));
  const std::string found = dom("#cross/2/3/row/4");
  EXPECT_EQ(count(found, "<canvas"), 3u * 9 + 2);  // thumbnails with means, the legend, the map
  EXPECT_EQ(count(found, "class=\"thumb\""), 3u * 8);
  EXPECT_EQ(count(found, "class=\"thumb mean\""), 3u);
  EXPECT_EQ(count(found, "role=\"tab\""), 3u);
  EXPECT_NE(element(found, "heading", "</h2>").find("Cross-attention · layer 2 · head 3"), std::string::npos);
  EXPECT_NE(element(found, "sentences", "</h1>").find("最近的火车站在哪里？"), std::string::npos);
  EXPECT_EQ(count(found, "aria-pressed=\"true\" tabindex=\"0\""), 1u);
  // The kept token, and what it looks at: the strongest weight of row 4 of the head that was asked for.
  const std::string readout = element(found, "readout", "</p>");
  const Record record = chinese_record();
  int64_t best = 0;
  for (int64_t j = 0; j < 10; ++j)
    if (record.cross[1].weights.at({2, 3, j}) > record.cross[1].weights.at({2, 3, best})) best = j;
  std::string token = record.source_tokens[static_cast<size_t>(best)];
  if (token.starts_with("▁")) token.erase(0, 3);
  EXPECT_NE(readout.find("To say <b>站</b>, after 火车, it read <b>" + token + "</b>"), std::string::npos) << readout;
  const std::string rows = element(found, "rows", "class=\"strip-name\"");
  EXPECT_EQ(count(rows, "class=\"token"), 8u);
  EXPECT_EQ(count(rows, "class=\"token on\""), 1u);
}

TEST_F(Browser, HostileTokensStayText) {
  const std::vector<std::string> hostile = payloads(360);
  Record record = sample_record({hostile.begin(), hostile.begin() + 180}, {hostile.begin() + 180, hostile.end()},
                                {hostile.begin(), hostile.begin() + 180}, 1, 2);
  record.title = hostile[0];
  record.source = hostile[1];
  record.output = hostile[3];
  for (auto* maps : {&record.encoder, &record.decoder, &record.cross}) maps->front().path = hostile[7];
  write(to_html(record));
  const std::string found = dom("#cross/1/2/row/1");

  const Record benign = sample_record(std::vector<std::string>(180, "a"), std::vector<std::string>(180, "a"),
                                      std::vector<std::string>(180, "a"), 1, 2);
  write(to_html(benign));
  const std::string expected = dom("#cross/1/2/row/1");
  EXPECT_EQ(tree(found), tree(expected));

  const size_t begin = found.find("<title>") + 7;
  EXPECT_NE(found.substr(begin, found.find("</title>") - begin), "ran");
  const std::string columns = element(found, "columns", "</section>");
  EXPECT_NE(columns.find("&lt;script&gt;document.title='ran'&lt;/script&gt;"), std::string::npos);
  EXPECT_NE(columns.find("&lt;U+202E&gt;gnp.exe"), std::string::npos);
  EXPECT_NE(columns.find("␛[31m"), std::string::npos);
  EXPECT_EQ(columns.find("\u202e"), std::string::npos);
}

// The net below the net: had a script slipped in, the policy would not let it run. First that the trick works at all.
TEST_F(Browser, ThePolicyStopsForeignScripts) {
  const std::string intruder =
      "<script>document.title='ran'</script><img src=x onerror=\"document.title='ran'\"></body>";
  std::string page = to_html(chinese_record());
  page.replace(page.find("</body>"), 7, intruder);
  write(page);
  EXPECT_EQ(count(dom(""), "<title>ran</title>"), 0u);
  page.replace(page.find("Content-Security-Policy"), 23, "X-No-Policy-Any-Longer-");
  write(page);
  EXPECT_EQ(count(dom(""), "<title>ran</title>"), 1u);
}

TEST_F(Browser, LooksLikeSomethingInBothThemes) {
  write(to_html(chinese_record()));
  std::vector<double> brightness;
  for (const std::string& theme : {std::string(), std::string(kDarkTheme)}) {
    const fs::path file = folder_ / "shot.png";
    (void)browse("", theme + " --screenshot='" + file.string() + "'");
    png_image image{};
    image.version = PNG_IMAGE_VERSION;
    ASSERT_NE(png_image_begin_read_from_file(&image, file.c_str()), 0);
    ASSERT_EQ(image.width, 1280u);
    image.format = PNG_FORMAT_RGB;
    std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(image));
    ASSERT_NE(png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr), 0);
    std::set<uint32_t> colours;
    double sum = 0;
    for (size_t at = 0; at + 2 < pixels.size(); at += 3) {
      colours.insert(uint32_t{pixels[at]} << 16 | uint32_t{pixels[at + 1]} << 8 | pixels[at + 2]);
      sum += pixels[at + 1];
    }
    EXPECT_GT(colours.size(), 100u);
    brightness.push_back(sum / static_cast<double>(pixels.size() / 3));
  }
  EXPECT_GT(brightness[0], 200);
  EXPECT_LT(brightness[1], 60);
}

TEST_F(Browser, DrawsTheCurves) {
  std::ofstream(folder_ / "log.jsonl") << "{\"update\":10,\"loss\":5.5}\n{\"update\":20,\"loss\":4.5}\n{\"type\":"
                                          "\"valid\",\"update\":20,\"loss\":4.75}\n";
  write(plot_log(folder_ / "log.jsonl"));
  const std::string found = dom("");
  EXPECT_NE(element(found, "headline", "</h1>").find("Loss 4.5, best validation loss 4.75 at update 20"),
            std::string::npos);
  EXPECT_EQ(count(found, "<polyline"), 2u);
  EXPECT_EQ(count(found, "class=\"hair\""), 1u);  // the script has run
}

}  // namespace
}  // namespace heed::inspect
