// The page in a real browser: what is drawn, what is text, and that nothing else runs.
#include <gtest/gtest.h>
#include <png.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "heed/inspect.h"
#include "inspect/payloads.h"
#include "inspect/sample_record.h"

namespace heed::inspect {
namespace {

namespace fs = std::filesystem;

std::string find_browser() {
  const char* path = std::getenv("PATH");
  std::string folders = path != nullptr ? path : "/usr/bin";
  for (size_t at = 0; at <= folders.size();) {
    const size_t end = std::min(folders.find(':', at), folders.size());
    for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
      const fs::path file = fs::path(folders.substr(at, end - at)) / name;
      if (::access(file.c_str(), X_OK) == 0) return file;
    }
    at = end + 1;
  }
  return {};
}

class Browser : public testing::Test {
 protected:
  void SetUp() override {
    browser_ = find_browser();
    if (browser_.empty()) GTEST_SKIP() << "no chromium in PATH (Debian package chromium): the page was not looked at";
    std::string name = (fs::path(testing::TempDir()) / "heed-page-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove_all(folder_, ignored);
  }

  void write(const std::string& page) { std::ofstream(folder_ / "page.html", std::ios::binary) << page; }

  // Runs the browser on the page at `fragment`; standard output.
  std::string browse(const std::string& fragment, const std::string& options) {
    const std::string command =
        "timeout 240 '" + browser_ +
        "' --headless --no-sandbox --disable-gpu --hide-scrollbars "
        "--disable-dev-shm-usage --virtual-time-budget=4000 --window-size=1280,900 --user-data-dir='" +
        (folder_ / "profile").string() + "' " + options + " 'file://" + (folder_ / "page.html").string() + fragment +
        "' 2>'" + (folder_ / "log").string() + "'";
    std::string out;
    FILE* pipe = popen(command.c_str(), "r");
    std::array<char, 65536> block;
    for (size_t count; (count = fread(block.data(), 1, block.size(), pipe)) > 0;) out.append(block.data(), count);
    EXPECT_EQ(pclose(pipe), 0);
    return out;
  }
  std::string dom(const std::string& fragment) { return browse(fragment, "--dump-dom"); }

  std::string browser_;
  fs::path folder_;
};

size_t count(const std::string& text, const std::string& what) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++found;
  return found;
}

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
  EXPECT_NE(readout.find("火车"), std::string::npos) << readout;
  const std::string token = record.source_tokens[static_cast<size_t>(best)];
  EXPECT_NE(readout.find("looks most at <b>" + token + "</b>"), std::string::npos) << readout;
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
  const std::string found = dom("#cross/1/2");

  const Record benign = sample_record(std::vector<std::string>(180, "a"), std::vector<std::string>(180, "a"),
                                      std::vector<std::string>(180, "a"), 1, 2);
  write(to_html(benign));
  const std::string expected = dom("#cross/1/2");
  EXPECT_EQ(tree(found), tree(expected));

  const size_t begin = found.find("<title>") + 7;
  EXPECT_NE(found.substr(begin, found.find("</title>") - begin), "ran");
  const std::string columns = element(found, "columns", "id=\"readout\"");
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
  for (const std::string theme : {"", "--blink-settings=preferredColorScheme=0"}) {
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
