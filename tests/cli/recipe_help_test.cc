// What `heed train` and `heed average` say about a recipe, and what they refuse to do by mistake.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "cli/program.h"
#include "heed/train.h"

namespace heed::cli::test {
namespace {

// All words in one line: help texts are wrapped.
std::string unwrapped(const std::string& text) {
  std::string flat;
  for (const char c : text) {
    const bool space = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (!space) {
      flat += c;
    } else if (!flat.empty() && flat.back() != ' ') {
      flat += ' ';
    }
  }
  return flat;
}

TEST(RecipeHelp, GivesEachKeysMeaningDefaultAndAllowedValues) {
  const Result r = run({"train", "--help"});
  ASSERT_EQ(r.status, 0) << r.err;
  const std::string help = unwrapped(r.out);
  for (const train::RecipeField& field : train::recipe_fields()) {
    if (field.key == "seed") continue;  // one of the common options
    std::string option = "--" + field.key;
    std::replace(option.begin(), option.end(), '_', '-');
    const size_t at = help.find(option + " ");
    ASSERT_NE(at, std::string::npos) << option;
    const std::string entry = help.substr(at, help.find(" --", at + 2) - at);
    EXPECT_NE(entry.find(field.help), std::string::npos) << entry;
    if (!field.default_text.empty()) {
      EXPECT_NE(entry.find(field.default_text), std::string::npos) << entry;
    }
    if (field.type != "true|false") {
      EXPECT_NE(entry.find(field.allowed), std::string::npos) << entry << "\nlacks: " << field.allowed;
    }
    EXPECT_GT(field.help.size(), 15u) << field.key;
  }
}

TEST(RecipeHelp, ResumeNeedsATrainingThatWasBegun) {
  const Folder folder;
  const std::string pairs = folder.write("pairs.tsv", "a b\tb a\nb c\tc b\n");
  const Result r = run({"train", "--pairs", pairs, "--output", (folder / "misspelt").string(), "--resume"});
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("misspelt"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("--resume"), std::string::npos) << r.err;
  EXPECT_FALSE(fs::exists(folder / "misspelt"));
  // And a training that fails at once leaves no folder.
  const Result none =
      run({"train", "--pairs", (folder / "none.tsv").string(), "--output", (folder / "model").string()});
  EXPECT_EQ(none.status, 1);
  EXPECT_FALSE(fs::exists(folder / "model"));
}

TEST(RecipeHelp, AverageWritesOverNothingUnlessForced) {
  const Folder folder;
  const std::string model = (fs::path(HEED_SOURCE_DIR) / "demo" / "en-zh").string();
  const std::string output = (folder / "mean").string();
  ASSERT_EQ(run({"average", model, "--output", output, "--dtype", "f16"}).status, 0);
  const std::string before = read(fs::path(output) / "model.safetensors");
  const Result again = run({"average", model, "--output", output, "--dtype", "bf16"});
  EXPECT_EQ(again.status, 1);
  EXPECT_NE(again.err.find("--force"), std::string::npos) << again.err;
  EXPECT_EQ(read(fs::path(output) / "model.safetensors"), before);
  EXPECT_EQ(run({"average", model, "--output", output, "--dtype", "bf16", "--force"}).status, 0);
  EXPECT_NE(read(fs::path(output) / "model.safetensors"), before);
}

}  // namespace
}  // namespace heed::cli::test
