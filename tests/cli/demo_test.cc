// The model that is shipped with the demo: it fits, and it translates to the same text everywhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "cli/program.h"
#include "heed/cpu.h"

namespace heed::cli::test {
namespace {

const fs::path kDemo = fs::path(HEED_SOURCE_DIR) / "demo";

TEST(Demo, TheSameTranslationsOnEveryInstructionSet) {
  const std::string english = read(kDemo / "sentences.txt"), chinese = read(kDemo / "chinese.txt");
  ASSERT_EQ(std::count(english.begin(), english.end(), '\n'), 12);
  for (const Isa isa : available_isas()) {
    // The portable path is some thirty times slower: one sentence.
    const bool all = isa != Isa::portable || available_isas().size() == 1;
    const auto part = [all](const std::string& text) { return all ? text : text.substr(0, text.find('\n') + 1); };
    const std::string name(to_string(isa));
    for (const char* const threads : {"1", "3"}) {
      const Result r = run({"--quiet", "--threads", threads, "translate", (kDemo / "en-zh").string()},
                           {.input = part(english), .environment = {"HEED_ISA=" + name}});
      EXPECT_EQ(r.status, 0) << r.err;
      EXPECT_EQ(r.out, part(chinese)) << name << ", " << threads << " threads";
    }
  }
}

// What the READMEs say of their picture is true of the shipped model: to say a token, some head read that word.
TEST(Demo, TheSentenceUnderThePictureOfTheReadme) {
  const std::string english = read(kDemo / "sentences.txt");
  const std::string first = english.substr(0, english.find('\n'));
  std::vector<std::string> texts;
  for (const char* const layer : {"1", "2", "3"}) {
    for (const char* const head : {"1", "2", "3", "4", "5", "6", "7", "8"}) {
      const Result r = run({"inspect", (kDemo / "en-zh").string(), "--source", first, "--part", "cross", "--layer",
                            layer, "--head", head, "--text"});
      ASSERT_EQ(r.status, 0) << r.err;
      texts.push_back(r.out);
    }
  }
  const std::pair<const char*, std::regex> pages[] = {
      {"README.md", std::regex("to say (\\S+) the model read \"(\\w+)\", (\\d+) %")},
      {"README.zh-CN.md", std::regex("说出“(.+?)”时，模型读的是 (\\w+)，占 (\\d+) %")}};
  for (const auto& [name, sentence] : pages) {
    std::smatch said;
    const std::string page = read(fs::path(HEED_SOURCE_DIR) / name);
    ASSERT_TRUE(std::regex_search(page, said, sentence)) << name;
    const std::regex row(" → " + said[1].str() + " +([0-9.]+) ▁" + said[2].str() + " ");
    const bool found = std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
      std::smatch weight;
      return std::regex_search(text, weight, row) && std::lround(100 * std::stod(weight[1])) == std::stol(said[3]);
    });
    EXPECT_TRUE(found) << name << " says: " << said[0];
  }
}

TEST(Demo, TheModelIsSmallEnoughForARepository) {
  uintmax_t bytes = 0;
  for (const auto& file : fs::directory_iterator(kDemo / "en-zh")) bytes += file.file_size();
  EXPECT_LE(bytes, 16'000'000u);
  EXPECT_TRUE(fs::exists(kDemo / "en-zh" / "MODEL_CARD.md"));
}

TEST(Demo, TheCardsStateTheLicenceForInfo) {
  for (const char* const model : {"en-zh", "shakespeare"}) {
    const Result r = run({"info", (kDemo / model).string()});
    EXPECT_EQ(r.out.find("licence             apache-2.0\n"), 0u) << r.out << r.err;
  }
}

}  // namespace
}  // namespace heed::cli::test
