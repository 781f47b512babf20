// Ranks that share the sequences of a language model. Where the parts of a sequence are computed changes no bit.
#include "heed/autograd.h"
#include "heed/cpu.h"
#include "ranks.h"
#include "train/sequence_parts.h"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

Recipe language_recipe(const fs::path& folder, int64_t shards, int64_t parts) {
  Recipe recipe = copy_recipe(folder);
  recipe.task = "language_model";
  recipe.train_target = recipe.valid_target = "";
  recipe.shared_vocabulary = false;
  recipe.model = models::preset("tiny", models::Architecture::decoder_only);
  recipe.model.decoder_layers = 2;
  recipe.model.width = 32;
  recipe.model.feed_forward = 64;
  recipe.model.heads = 4;
  recipe.model.key_value_heads = 2;
  recipe.model.max_length = 128;
  recipe.model.dropout = 0.1f;
  recipe.model.attention_dropout = 0.1f;
  recipe.context = 103;  // which no number of parts divides
  recipe.batch_sentences = 5;
  recipe.shards = shards;
  recipe.context_parallel = parts;
  recipe.max_updates = 6;
  recipe.validate_every = 3;
  recipe.checkpoint_every = 2;
  recipe.compare_every = 2;
  recipe.clip_norm = 1.0;
  recipe.log_every = 1;
  return recipe;
}

class ContextParallel : public ::testing::Test {
 protected:
  void SetUp() override { set_num_threads(2); }
  const TemporaryFolder folder_;
};

// Ranks, of which so many share each sequence.
struct Ranks {
  int all = 1, context = 1;
};
std::string name_of(const Ranks& ranks) { return std::to_string(ranks.all) + "-" + std::to_string(ranks.context); }

TEST_F(ContextParallel, AnyGridOfRanksGivesTheSameBits) {
  const auto expect_same_bits = [&](const Recipe& recipe, std::initializer_list<Ranks> grids) {
    const std::string name = std::to_string(recipe.shards) + "x" + std::to_string(recipe.context_parallel);
    const fs::path alone = folder_ / (name + "-alone");
    EXPECT_EQ(train(recipe, alone, false, {}), Outcome::finished);
    for (const Ranks& ranks : grids) {
      SCOPED_TRACE(name + " on " + name_of(ranks));
      const fs::path together = folder_ / (name + "-" + name_of(ranks));
      EXPECT_EQ(train_on(ranks.all, recipe, together, false, {}, ranks.context), Outcome::finished);
      expect_same(alone, together);
    }
  };
  expect_same_bits(language_recipe(folder_.path(), 2, 2), {{2, 1}, {2, 2}, {4, 2}});
  expect_same_bits(language_recipe(folder_.path(), 1, 3), {{3, 3}});
  expect_same_bits(language_recipe(folder_.path(), 3, 2), {{2, 1}, {3, 1}, {2, 2}, {4, 2}, {6, 2}});
}

TEST_F(ContextParallel, WithEverythingThatDrawsOrAverages) {
  Recipe recipe = language_recipe(folder_.path(), 2, 2);
  recipe.accumulate = 2;
  recipe.consistency = 1;
  recipe.consistency_from = 2;
  recipe.ema = 0.9;
  recipe.model.positions = models::Positions::learned;
  recipe.precision = "bf16";
  EXPECT_EQ(train(recipe, folder_ / "alone", false, {}), Outcome::finished);
  for (const Ranks& ranks : {Ranks{2, 2}, Ranks{4, 2}}) {
    SCOPED_TRACE(name_of(ranks));
    EXPECT_EQ(train_on(ranks.all, recipe, folder_ / name_of(ranks), false, {}, ranks.context), Outcome::finished);
    expect_same(folder_ / "alone", folder_ / name_of(ranks));
  }
}

// Of the losses of the log.
std::vector<double> losses_in(const fs::path& folder) {
  std::vector<double> losses;
  std::istringstream figures(figures_in(folder));
  for (std::string word; figures >> word;) {
    if (word.starts_with("\"loss\":")) losses.push_back(std::stod(word.substr(7)));
  }
  return losses;
}

// Other sums, so other bits, but the same mathematics: whole sequences are the oracle.
TEST_F(ContextParallel, LearnsWhatWholeSequencesLearn) {
  Recipe recipe = language_recipe(folder_.path(), 1, 1);
  recipe.model.dropout = recipe.model.attention_dropout = 0;
  recipe.model.positions = models::Positions::learned;
  EXPECT_EQ(train(recipe, folder_ / "whole", false, {}), Outcome::finished);
  recipe.context_parallel = 4;
  EXPECT_EQ(train_on(4, recipe, folder_ / "parts", false), Outcome::finished);
  const std::vector<double> whole = losses_in(folder_ / "whole"), parts = losses_in(folder_ / "parts");
  ASSERT_EQ(whole.size(), parts.size());
  ASSERT_GE(whole.size(), 8u);
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(whole[i], parts[i], 2e-5) << i;
  EXPECT_LT(parts.back(), parts.front() - 0.1);  // it does learn
}

TEST_F(ContextParallel, ACheckpointGoesOnWithAnyGrid) {
  Recipe recipe = language_recipe(folder_.path(), 2, 2);
  recipe.max_updates = 8;
  EXPECT_EQ(train(recipe, folder_ / "whole", false, {}), Outcome::finished);
  const std::pair<Ranks, int64_t> stretches[] = {{{4, 2}, 2}, {{1, 1}, 4}, {{2, 2}, 6}, {{2, 1}, 8}};
  bool resume = false;
  for (const auto& [ranks, until] : stretches) {
    std::atomic<bool> stop{false};
    const auto callbacks = [&, last = until](int rank) {
      Callbacks mine;
      mine.stop = &stop;
      if (rank == 0) mine.progress = [&stop, last](const Progress& p) { stop = p.update >= last && last < 8; };
      return mine;
    };
    (void)train_on(ranks.all, recipe, folder_ / "parts", resume, callbacks, ranks.context);
    resume = true;
  }
  EXPECT_TRUE(weights_in(folder_ / "whole").at("model.safetensors") ==
              weights_in(folder_ / "parts").at("model.safetensors"));
}

TEST_F(ContextParallel, WhatDoesNotFitIsRefused) {
  const auto message = [&](const Recipe& recipe, const Ranks& ranks) {
    return heed::testing::message_of(
        [&] { (void)train_on(ranks.all, recipe, folder_ / "run", false, {}, ranks.context); });
  };
  Recipe recipe = language_recipe(folder_.path(), 2, 2);
  EXPECT_EQ(message(recipe, {6, 2}),
            "[train] as many shards as groups of processes, or more; found shards = 2 and 3 groups of 2 processes");
  EXPECT_EQ(
      message(recipe, {3, 0}),
      "[train] as many shards as processes, or more; found shards = 2 and 3 processes; a multiple of 2 processes could "
      "share each sequence");
  EXPECT_EQ(message(recipe, {3, 2}),
            "[train] a number of processes that is a multiple of 2, which share each sequence; found 3");
  EXPECT_EQ(message(recipe, {3, 3}), "[train] context_ranks of 1 or 2, as context_parallel says; found 3");
  recipe.context = 3;
  EXPECT_EQ(message(recipe, {2, 2}),
            "[recipe] context_parallel: 1, unless the task is language_model and context at least twice as large; "
            "found 2, language_model and context 3");
  recipe = copy_recipe(folder_.path());
  recipe.context_parallel = 2;
  EXPECT_CONTAINS(message(recipe, {2, 2}), "[recipe] context_parallel: 1, unless the task is language_model");
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST(PartsOfSequences, HaveDropoutsOfTheirOwn) {
  std::vector<std::string> masks(3);
  distributed::run_in_process(3, [&](distributed::Communicator& ranks) {
    const SequencePartScope part(ranks, distributed::SequenceLayout::contiguous(6, 3));
    const TrainingScope training(1, 1);
    const Value dropped = dropout(Value(Tensor::full({200}, 1.0f)), 0.5f);
    std::string& mask = masks[static_cast<size_t>(ranks.rank())];
    for (int64_t i = 0; i < 200; ++i) mask += dropped.data().data<float>()[i] == 0 ? '0' : '1';
  });
  EXPECT_NE(masks[0], masks[1]);
  EXPECT_NE(masks[1], masks[2]);
  EXPECT_NE(masks[0], masks[2]);
}

TEST(PartsOfSequences, HaveEveryTokenOnce) {
  for (const int64_t columns : {1, 3, 8, 103}) {
    Batch batch;
    batch.padding_id = -1;
    batch.input = Tensor::empty({3, columns}, DType::i32);
    for (int64_t i = 0; i < 3 * columns; ++i) batch.input.data<int32_t>()[i] = static_cast<int32_t>(i);
    batch.output = batch.input;
    batch.tokens = 3 * columns;
    for (const int parts : {1, 2, 3, 5}) {
      const auto layout = layout_of_parts(batch, parts);
      std::vector<int> seen(static_cast<size_t>(3 * columns));
      int64_t tokens = 0;
      for (int part = 0; part < parts; ++part) {
        const Batch own = part_of(batch, layout, part);
        ASSERT_GE(own.input.size(1), 1);
        tokens += own.tokens;
        int64_t column = 0;
        for (const auto& run : layout.runs[static_cast<size_t>(part)]) {
          for (int64_t position = run.first; position < run.end(); ++position, ++column) {
            for (int64_t row = 0; row < 3; ++row) {
              const int32_t id = own.input.data<int32_t>()[row * own.input.size(1) + column];
              ASSERT_EQ(id, position < columns ? row * columns + position : -1);
              if (id >= 0) ++seen[static_cast<size_t>(id)];
            }
          }
        }
      }
      EXPECT_EQ(tokens, batch.tokens);
      EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
    }
  }
}

}  // namespace
}  // namespace heed::train
