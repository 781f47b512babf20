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
    // The full stop stands behind the bracket that follows.
    EXPECT_NE(entry.find(field.help.substr(0, field.help.size() - 1)), std::string::npos) << entry;
    if (!field.default_text.empty()) {
      EXPECT_NE(entry.find(field.default_text), std::string::npos) << entry;
    }
    if (field.type != "true|false") {
      EXPECT_NE(entry.find(field.allowed), std::string::npos) << entry << "\nlacks: " << field.allowed;
    }
    EXPECT_GT(field.help.size(), 15u) << field.key;
  }
}

TEST(RecipeHelp, ReadsAsSentences) {
  for (const char* command : {"train", "translate", "generate", "evaluate", "attend", "inspect", "average", "info"}) {
    const std::string help = unwrapped(run({"help", command}).out);
    EXPECT_EQ(help.find(". ("), std::string::npos) << command << ": " << help.substr(help.find(". (") - 60, 100);
  }
  const std::string help = run({"help", "train"}).out;
  EXPECT_NE(help.find("\nKeys of the recipe (in a recipe file, write _ for each -: max_updates = 800):\n"),
            std::string::npos);
}

// Messages have the names that were typed: options with their dashes, not the recipe's keys.
TEST(RecipeHelp, NamesWhatWasTyped) {
  const Folder folder;
  const std::string out = folder / "out", text = folder.write("text", "a b\n");
  const auto expect = [&](std::vector<std::string> arguments, int status, const std::string& message) {
    arguments.insert(arguments.begin(), {"train", "--output", out});
    const Result r = run(arguments);
    EXPECT_EQ(r.status, status);
    EXPECT_EQ(r.err, "heed train: " + message + "\n");
    EXPECT_FALSE(fs::exists(out));
  };
  expect({"--preset", "huge"}, 2, "--preset takes tiny, small, base or big; found 'huge'");
  expect({"--vocabulary", "many"}, 2, "--vocabulary takes a whole number, more than 0; found 'many'");
  expect({"--schedule.peak", "-1"}, 2, "--schedule.peak takes a number, more than 0; found '-1'");
  expect({"--batch_tokens", "x"}, 2, "--batch-tokens takes a whole number, 0 or more; found 'x'");
  expect({"--bpe", "maybe"}, 2, "--bpe takes true or false; found 'maybe'");
  expect({"--set", "preset=huge"}, 2, "--set preset takes tiny, small, base or big; found 'huge'");
  expect({"--set", "foo=3"}, 2, "--set foo: a recipe has no such key; heed train --help lists them");
  expect({"--set", "max_udpates=3"}, 2, "--set max_udpates: a recipe has no such key; did you mean max_updates?");
  expect({"--set", "model.padding_id=3"}, 2,
         "--set model.padding_id: expected no value, as the task and the tokenizers decide it; found 3");
  expect({"--train-source", text, "--train-target", text, "--subword-sampling", "0.1", "--tokenizer", "pieces"}, 2,
         "--subword-sampling: expected 0, unless the task is translation and the tokenizer sentencepiece without bpe "
         "(only unigram models give each piece a probability to draw by); found 0.1, translation and pieces");
  expect({}, 2, "no training text: give --pairs FILE, or --train-source and --train-target, or a recipe with --config");
  expect({"--task", "language_model"}, 2, "no training text: give --train-source FILE, or a recipe with --config");
  expect({"--train-source", text}, 2, "--train-source and --train-target go together; found only --train-source");
  // A recipe file keeps its keys.
  const std::string recipe = folder.write("recipe.toml", "preset = \"huge\"\n");
  expect({"--config", recipe}, 1, recipe + ", line 1: preset: expected tiny, small, base or big; found 'huge'");
  // And a folder in use names the option that goes on with it.
  fs::create_directory(out);
  (void)folder.write("out/log.jsonl", "");
  const Result used = run({"train", "--pairs", folder.write("p.tsv", "a\tb\n"), "--output", out});
  EXPECT_EQ(used.status, 1);
  EXPECT_NE(used.err.find("found one (go on with --resume, or name another folder)\n"), std::string::npos) << used.err;
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
  EXPECT_EQ(again.status, 2);
  EXPECT_NE(again.err.find("--force"), std::string::npos) << again.err;
  EXPECT_EQ(read(fs::path(output) / "model.safetensors"), before);
  EXPECT_EQ(run({"average", model, "--output", output, "--dtype", "bf16", "--force"}).status, 0);
  EXPECT_NE(read(fs::path(output) / "model.safetensors"), before);
}

}  // namespace
}  // namespace heed::cli::test
