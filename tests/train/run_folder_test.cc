// Where a training may begin or go on. One that fails leaves only what was there before.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "toy.h"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

std::string error_in(const Recipe& recipe, const fs::path& folder, bool resume = false) {
  return message_of([&] { static_cast<void>(train(recipe, folder, resume, {})); });
}

TEST(RunFolder, CannotBeContinuedWhereNothingWasBegun) {
  const TemporaryFolder folder;
  const Recipe recipe = copy_recipe(folder.path());
  EXPECT_CONTAINS(error_in(recipe, folder / "misspelt", true), "misspelt\": a folder with a training to continue");
  EXPECT_FALSE(fs::exists(folder / "misspelt"));
  fs::create_directory(folder / "empty");
  EXPECT_CONTAINS(error_in(recipe, folder / "empty", true), "found none in it");
  EXPECT_TRUE(fs::is_empty(folder / "empty"));
}

TEST(RunFolder, ThatWasLeftBeforeTheFirstCheckpointBeginsAgain) {
  const TemporaryFolder folder;
  Recipe recipe = copy_recipe(folder.path());
  recipe.max_updates = 3;
  EXPECT_EQ(train(recipe, folder / "whole", false, {}), Outcome::finished);
  // A killed run leaves all files but checkpoints and model.
  fs::copy(folder / "whole", folder / "killed", fs::copy_options::recursive);
  fs::remove_all(folder / "killed/checkpoints");
  EXPECT_CONTAINS(error_in(recipe, folder / "killed", true), "found none that is whole, and a model");
  fs::remove(folder / "killed/model.safetensors");
  std::string messages;
  EXPECT_EQ(train(recipe, folder / "killed", true,
                  {.message = [&](std::string_view text) { messages += std::string(text) + "\n"; }}),
            Outcome::finished);
  EXPECT_CONTAINS(messages, "training begins again");
  EXPECT_TRUE(same_bytes(folder / "whole/model.safetensors", folder / "killed/model.safetensors"));
}

TEST(RunFolder, OfARunThatFailsAtOnceIsGone) {
  const TemporaryFolder folder;
  Recipe recipe = copy_recipe(folder.path());
  Recipe wrong = recipe;
  wrong.train_target = (folder / "none.txt").string();
  EXPECT_CONTAINS(error_in(wrong, folder / "a/b/c"), "none.txt");
  EXPECT_FALSE(fs::exists(folder / "a"));
  // In the middle of the first updates, when tokenizers and log are written.
  Recipe wild = recipe;
  wild.schedule = {.kind = ScheduleKind::constant, .peak = 1e38, .warmup = 0};
  EXPECT_CONTAINS(error_in(wild, folder / "wild/"), "a finite");
  EXPECT_FALSE(fs::exists(folder / "wild"));
}

TEST(RunFolder, KeepsWhatOthersPutThere) {
  const TemporaryFolder folder;
  Recipe wrong = copy_recipe(folder.path());
  wrong.train_target = (folder / "none.txt").string();
  fs::create_directory(folder / "mine");
  write_text(folder / "mine/notes.txt", "of mine");
  write_text(folder / "mine/recipe.json", "{}");
  EXPECT_CONTAINS(error_in(wrong, folder / "mine"), "none.txt");
  EXPECT_EQ(read_text(folder / "mine/notes.txt"), "of mine");
  EXPECT_EQ(read_text(folder / "mine/recipe.json"), "{}");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "mine"), {}), 2);
  // A folder with a model is refused, and the model stays as it is.
  Recipe recipe = copy_recipe(folder.path());
  recipe.max_updates = 1;
  EXPECT_EQ(train(recipe, folder / "model", false, {}), Outcome::finished);
  const std::string before = read_text(folder / "model/model.safetensors");
  EXPECT_CONTAINS(error_in(recipe, folder / "model"), "found one");
  EXPECT_EQ(read_text(folder / "model/model.safetensors"), before);
  EXPECT_TRUE(fs::exists(folder / "model/recipe.json"));
}

// A model is read with all files that are beside it.
TEST(RunFolder, HoldsNoFilesOfAnotherModel) {
  const TemporaryFolder folder;
  Recipe recipe = copy_recipe(folder.path());
  recipe.max_updates = 1;
  for (const char* const name : {"config.json", "modules.json", "source.vocab", "tokenizer.json",
                                 "sentence_bert_config.json", "generation_config.json"}) {
    const fs::path there = folder / ("with " + std::string(name));
    fs::create_directory(there);
    write_text(there / name, "{}");
    EXPECT_CONTAINS(error_in(recipe, there), std::string(": a folder without files of a model; found ") + name);
    EXPECT_EQ(read_text(there / name), "{}");
    EXPECT_EQ(std::distance(fs::directory_iterator(there), {}), 1) << name;
  }
  fs::create_directory(folder / "recipe");
  write_text(folder / "recipe/recipe.json", "{}");
  EXPECT_EQ(train(recipe, folder / "recipe", false, {}), Outcome::finished);
}

// A process that is killed while it writes leaves its unfinished file.
TEST(RunFolder, LosesUnfinishedFilesOnResume) {
  const TemporaryFolder folder;
  Recipe recipe = copy_recipe(folder.path());
  recipe.max_updates = 2;
  EXPECT_EQ(train(recipe, folder / "run", false, {}), Outcome::finished);
  for (const char* const name : {".model.safetensors.123-4.tmp", ".config.json.123-5.tmp", ".mine.tmp"}) {
    write_text(folder / "run" / name, "half");
  }
  recipe.max_updates = 3;
  EXPECT_EQ(train(recipe, folder / "run", true, {}), Outcome::finished);
  EXPECT_FALSE(fs::exists(folder / "run/.model.safetensors.123-4.tmp"));
  EXPECT_FALSE(fs::exists(folder / "run/.config.json.123-5.tmp"));
  EXPECT_TRUE(fs::exists(folder / "run/.mine.tmp")) << "of somebody else";
}

TEST(RunFolder, OfAnAverageIsNotWrittenOverUnasked) {
  const TemporaryFolder folder;
  Recipe recipe = copy_recipe(folder.path());
  recipe.max_updates = 1;
  EXPECT_EQ(train(recipe, folder / "a", false, {}), Outcome::finished);
  recipe.seed = 2;
  EXPECT_EQ(train(recipe, folder / "b", false, {}), Outcome::finished);
  const fs::path a[] = {folder / "a"}, b[] = {folder / "b"};
  average_models(a, folder / "mean");
  const std::string before = read_text(folder / "mean/model.safetensors");
  EXPECT_CONTAINS(message_of([&] { average_models(b, folder / "mean"); }), "a new or empty folder");
  EXPECT_EQ(read_text(folder / "mean/model.safetensors"), before);
  average_models(b, folder / "mean", {.overwrite = true});
  EXPECT_NE(read_text(folder / "mean/model.safetensors"), before);
  EXPECT_CONTAINS(message_of([&] { average_models(b, folder / "b", {.overwrite = true}); }), "would be written over");
  write_text(folder / "file", "not a folder");
  EXPECT_NE(message_of([&] { average_models(b, folder / "file"); }), "");
  EXPECT_EQ(read_text(folder / "file"), "not a folder");
}

// A child process may write files of 50 KB and no more: room for all but the weights.
TEST(RunFolder, OfAnAverageKeepsItsModelWhereThereIsNoSpace) {
  const TemporaryFolder folder;
  Recipe recipe = copy_recipe(folder.path());
  recipe.max_updates = 1;
  EXPECT_EQ(train(recipe, folder / "a", false, {}), Outcome::finished);
  ASSERT_GT(fs::file_size(folder / "a/model.safetensors"), 50000u);
  fs::create_directory(folder / "mean");
  for (const char* const name : {"config.json", "model.safetensors", "source.vocab", "notes"})
    write_text(folder / "mean" / name, name);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{50000, 50000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const fs::path a[] = {folder / "a"};
    const std::string message = message_of([&] { average_models(a, folder / "mean", {.overwrite = true}); });
    ::_exit(message.find("mean/model.safetensors") != std::string::npos ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  for (const char* const name : {"config.json", "model.safetensors", "source.vocab", "notes"})
    EXPECT_EQ(read_text(folder / "mean" / name), name);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "mean"), {}), 4);
}

TEST(RunFolder, OfAnAverageIsNotMadeOfABrokenModel) {
  const TemporaryFolder folder;
  Recipe recipe = copy_recipe(folder.path());
  recipe.max_updates = 1;
  EXPECT_EQ(train(recipe, folder / "a", false, {}), Outcome::finished);
  const auto message_with = [&](const char* file, const std::string& contents) {
    const std::string before = read_text(folder / "a" / file);
    write_text(folder / "a" / file, contents);
    const fs::path a[] = {folder / "a"};
    const std::string message = message_of([&] { average_models(a, folder / "mean"); });
    write_text(folder / "a" / file, before);
    EXPECT_FALSE(fs::exists(folder / "mean")) << file;
    return message;
  };
  EXPECT_CONTAINS(message_with("config.json", read_text(folder / "a/config.json").substr(0, 100)), "config.json");
  EXPECT_CONTAINS(message_with("source.vocab", "\xff"), "source.vocab");
}

}  // namespace
}  // namespace heed::train
