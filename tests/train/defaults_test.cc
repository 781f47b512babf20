// Values that a recipe leaves open: they suit the data, they are recorded, and a continued run has the same.
#include "train/defaults.h"

#include <nlohmann/json.hpp>

#include "toy.h"

namespace heed::train {
namespace {

TEST(Defaults, SuitTheSizeOfTheData) {
  const auto of = [](int64_t tokens, int64_t updates_an_epoch) {
    return complete(Recipe(), {.updates_an_epoch = updates_an_epoch, .batch_tokens = batch_tokens_for(tokens)}).recipe;
  };
  // 200 lines: not a checkpoint for each epoch.
  EXPECT_EQ(of(2000, 4).batch_tokens, 512);
  EXPECT_EQ(of(2000, 4).max_updates, 1000);
  EXPECT_EQ(of(2000, 4).schedule.warmup, 100);
  EXPECT_EQ(of(2000, 4).validate_every, 100);
  // 3,000 sentences.
  EXPECT_EQ(of(30000, 20).batch_tokens, 1500);
  EXPECT_EQ(of(30000, 20).max_updates, 1200);
  // 27,000 pairs: each epoch.
  EXPECT_EQ(of(300000, 130).batch_tokens, 4096);
  EXPECT_EQ(of(300000, 130).max_updates, 7800);
  EXPECT_EQ(of(300000, 130).schedule.warmup, 780);
  EXPECT_EQ(of(300000, 130).validate_every, 0);
  // Millions: each 1,000 updates, not each epoch, which may take a day.
  EXPECT_EQ(of(80'000'000, 20000).max_updates, 100000);
  EXPECT_EQ(of(80'000'000, 20000).schedule.warmup, 4000);
  EXPECT_EQ(of(80'000'000, 20000).validate_every, 1000);
  EXPECT_EQ(complete(Recipe(), {.updates_an_epoch = 4, .batch_tokens = 512}).found,
            "batch_tokens 512, max_updates 1000, schedule.warmup 100, validate_every 100");
}

TEST(Defaults, AreOnlyForWhatIsOpen) {
  Recipe recipe;
  recipe.batch_tokens = 700;
  recipe.max_updates = 50;
  recipe.validate_every = 0;
  recipe.schedule.warmup = 0;
  const CompleteRecipe all = complete(recipe, {.updates_an_epoch = 1, .batch_tokens = 512});
  EXPECT_EQ(to_json(all.recipe), to_json(recipe));
  EXPECT_EQ(all.found, "");
  recipe.max_updates = 0;
  recipe.max_epochs = 3;
  EXPECT_EQ(complete(recipe, {.updates_an_epoch = 40}).recipe.max_updates, 120);
  recipe.schedule.kind = ScheduleKind::cosine;
  EXPECT_EQ(complete(recipe, {.updates_an_epoch = 40}).recipe.schedule.total, 120);
}

TEST(Defaults, AreThoseOfTheRunThatIsContinued) {
  const Recipe recipe;
  const DataSize size{.updates_an_epoch = 4, .batch_tokens = 512};
  const std::string recorded = to_json(complete(recipe, size).recipe);
  EXPECT_EQ(to_json(complete(with_recorded(recipe, recorded), {.updates_an_epoch = 900, .batch_tokens = 1}).recipe),
            recorded);
  Recipe longer = recipe;
  longer.max_updates = 5000;
  EXPECT_EQ(with_recorded(longer, recorded).schedule.warmup, 100);
  EXPECT_EQ(with_recorded(longer, recorded).max_updates, 5000);
  Recipe epochs = recipe;
  epochs.max_epochs = 7;  // the recorded updates were those of another number of epochs
  EXPECT_EQ(complete(with_recorded(epochs, recorded), {.updates_an_epoch = 300}).recipe.max_updates, 2100);
  // An older heed validated at the end of each epoch, and wrote 0.
  nlohmann::json old = nlohmann::json::parse(recorded);
  old["validate_every"] = 0;
  EXPECT_EQ(complete(with_recorded(recipe, old.dump()), size).recipe.validate_every, 0);
}

// The first thing a new user tries: a small text and not one key more than needed.
TEST(Defaults, TrainOnAFewLines) {
  const TemporaryFolder folder;
  const Recipe copy = copy_recipe(folder.path());
  Recipe recipe;
  recipe.train_source = recipe.train_target = copy.train_source;
  recipe.model = copy.model;
  recipe.model.share_embeddings = false;
  recipe.vocabulary = 8000;
  std::string messages;
  int64_t updates = 0;
  std::atomic<bool> stop = false;
  const Callbacks callbacks{.progress =
                                [&](const Progress& p) {
                                  updates = p.max_updates;
                                  stop = p.update >= 100;
                                },
                            .message = [&](std::string_view text) { messages += std::string(text) + "\n"; },
                            .stop = &stop};
  EXPECT_EQ(train(recipe, folder / "m", false, callbacks), Outcome::interrupted);
  EXPECT_EQ(updates, 1000);
  EXPECT_CONTAINS(messages, "the source gets a vocabulary of ");
  EXPECT_CONTAINS(messages, ", the most that this text allows (vocabulary = 8000)\nthe target gets a vocabulary of ");
  EXPECT_CONTAINS(messages,
                  "chosen for this text: batch_tokens 512, max_updates 1000, schedule.warmup 100, validate_every 100");
  recipe.batch_tokens = 100000;
  messages.clear();
  stop = true;
  EXPECT_EQ(train(recipe, folder / "one", false, callbacks), Outcome::interrupted);
  EXPECT_CONTAINS(messages, " parameters, 1 batch an epoch, checkpoints of ");
  EXPECT_CONTAINS(messages, "no validation: no text is held back");
  recipe.batch_tokens = 0;
  int64_t checkpoints = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder / "m/checkpoints"))
    ++checkpoints;
  EXPECT_EQ(checkpoints, 1);
  const Recipe recorded = read_recipe(folder / "m/recipe.json", ".");
  EXPECT_EQ(recorded.max_updates, 1000);
  EXPECT_EQ(recorded.schedule.warmup, 100);
  EXPECT_EQ(recorded.validate_every, 100);
  EXPECT_EQ(recorded.batch_tokens, 512);
  const auto config = nlohmann::json::parse(read_text(folder / "m/config.json"));
  EXPECT_LT(config["source_vocabulary"].get<int64_t>(), 100);
  // With the recipe as it was given, and with the recorded one.
  stop = true;
  EXPECT_EQ(train(recipe, folder / "m", true, callbacks), Outcome::interrupted);
  EXPECT_EQ(train(recorded, folder / "m", true, callbacks), Outcome::interrupted);
}

}  // namespace
}  // namespace heed::train
