// The model that is shipped with the demo: it fits, and it translates to the same text everywhere.
#include <gtest/gtest.h>

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

TEST(Demo, TheModelIsSmallEnoughForARepository) {
  uintmax_t bytes = 0;
  for (const auto& file : fs::directory_iterator(kDemo / "en-zh")) bytes += file.file_size();
  EXPECT_LE(bytes, 16'000'000u);
  EXPECT_TRUE(fs::exists(kDemo / "en-zh" / "MODEL_CARD.md"));
}

}  // namespace
}  // namespace heed::cli::test
