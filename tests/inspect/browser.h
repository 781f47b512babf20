// Pages in a real browser: what is there after a script, a size of the window, a theme.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace heed::inspect {

inline std::string find_browser() {
  const char* path = std::getenv("PATH");
  std::string folders = path != nullptr ? path : "/usr/bin";
  for (size_t at = 0; at <= folders.size();) {
    const size_t end = std::min(folders.find(':', at), folders.size());
    for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
      const std::filesystem::path file = std::filesystem::path(folders.substr(at, end - at)) / name;
      if (::access(file.c_str(), X_OK) == 0) return file;
    }
    at = end + 1;
  }
  return {};
}

class Browser : public ::testing::Test {
 protected:
  void SetUp() override {
    browser_ = find_browser();
    if (browser_.empty()) GTEST_SKIP() << "no chromium in PATH (Debian package chromium): the page was not looked at";
    std::string name = (std::filesystem::path(::testing::TempDir()) / "heed-page-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override {
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }

  void write(const std::string& page, const std::string& name = "page.html") {
    std::ofstream(folder_ / name, std::ios::binary) << page;
  }

  // Runs the browser on the page at `fragment`; standard output.
  std::string browse(const std::string& fragment, const std::string& options, const std::string& name = "page.html") {
    const std::string command =
        "timeout 240 '" + browser_ +
        "' --headless --no-sandbox --disable-gpu --hide-scrollbars "
        "--disable-dev-shm-usage --virtual-time-budget=12000 --window-size=1280,900 --user-data-dir='" +
        (folder_ / "profile").string() + "' " + options + " 'file://" + (folder_ / name).string() + fragment + "' 2>'" +
        (folder_ / "log").string() + "'";
    std::string out;
    FILE* pipe = popen(command.c_str(), "r");
    std::array<char, 65536> block;
    for (size_t count; (count = fread(block.data(), 1, block.size(), pipe)) > 0;) out.append(block.data(), count);
    EXPECT_EQ(pclose(pipe), 0);
    return out;
  }
  std::string dom(const std::string& fragment) { return browse(fragment, "--dump-dom"); }

  // What `script`, the body of an async function, returns on the page. Its own policy would not let it run: it is taken
  // off. With a width the page is in a frame of that size, narrower than a window can be.
  nlohmann::json run(std::string page, const std::string& fragment, const std::string& script, int width = 0,
                     int height = 0, const std::string& options = "") {
    constexpr std::string_view kPolicy = "Content-Security-Policy", kEnd = "</body>";
    page.replace(page.find(kPolicy), kPolicy.size(), "X-No-Policy-Any-Longer-");
    const std::string show =
        "const show = (text) => { const out = document.createElement('pre'); out.id = 'result'; "
        "out.textContent = text; document.body.append(out); };\n";
    const std::string answer = width > 0 ? "parent.postMessage(text, '*')" : "show(text)";
    page.replace(page.rfind(kEnd), kEnd.size(),
                 "<script>" + show +
                     "const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));\n"
                     "(async () => {\n" +
                     script +
                     "\n})().then((value) => JSON.stringify(value), (error) => JSON.stringify({error: "
                     "String(error)})).then((text) => " +
                     answer + ");</script></body>");
    write(page);
    if (width > 0) {
      write("<!doctype html><body><iframe style='border:0' width=" + std::to_string(width) +
                " height=" + std::to_string(height) + " src='page.html" + fragment + "'></iframe><script>" + show +
                "window.onmessage = (event) => show(event.data);</script>",
            "frame.html");
    }
    const std::string found =
        width > 0 ? browse("", options + " --dump-dom", "frame.html") : browse(fragment, options + " --dump-dom");
    constexpr std::string_view kOpen = "<pre id=\"result\">";
    const size_t begin = found.find(kOpen);
    EXPECT_NE(begin, std::string::npos) << "the script has not ended";
    if (begin == std::string::npos) return {};
    std::string text = found.substr(begin + kOpen.size(), found.find("</pre>", begin) - begin - kOpen.size());
    for (const auto& [entity, character] : {std::pair{"&lt;", "<"}, std::pair{"&gt;", ">"}, std::pair{"&amp;", "&"}})
      for (size_t at = 0; (at = text.find(entity, at)) != std::string::npos; ++at)
        text.replace(at, std::string_view(entity).size(), character);
    nlohmann::json result = nlohmann::json::parse(text);
    EXPECT_FALSE(result.is_object() && result.contains("error")) << text;
    return result;
  }

  std::string browser_;
  std::filesystem::path folder_;
};

inline constexpr const char* kDarkTheme = "--blink-settings=preferredColorScheme=0";

}  // namespace heed::inspect
