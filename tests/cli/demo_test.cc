// The model that is shipped with the demo: it fits, and it translates to the same text everywhere.
#include <gtest/gtest.h>

#include <algorithm>

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

// What the READMEs show of it is what it does.
TEST(Demo, ThePictureOfTheReadme) {
  const fs::path root = HEED_SOURCE_DIR;
  const Folder folder;
  const std::string english = read(kDemo / "sentences.txt");
  const std::string first = english.substr(0, english.find('\n'));
  const std::vector<std::string> head = {
      "inspect", (kDemo / "en-zh").string(), "--source", first, "--part", "cross", "--layer", "3", "--head", "mean"};
  std::vector<std::string> text = head, drawing = head;
  text.push_back("--text");
  drawing.insert(drawing.end(), {"--svg", folder / "head.svg"});
  const Result r = run(text);
  ASSERT_EQ(r.status, 0) << r.err;
  for (const char* const name : {"README.md", "README.zh-CN.md"}) {
    EXPECT_NE(read(root / name).find(r.out), std::string::npos) << name << " lacks\n" << r.out;
  }
  ASSERT_EQ(run(drawing).status, 0);
  EXPECT_EQ(read(folder / "head.svg"), read(root / "docs" / "cross-attention.svg"));
}

TEST(Demo, TheModelIsSmallEnoughForARepository) {
  uintmax_t bytes = 0;
  for (const auto& file : fs::directory_iterator(kDemo / "en-zh")) bytes += file.file_size();
  EXPECT_LE(bytes, 16'000'000u);
  EXPECT_TRUE(fs::exists(kDemo / "en-zh" / "MODEL_CARD.md"));
}

}  // namespace
}  // namespace heed::cli::test
