// A text in a token cache trains as one in memory does, to the bit.
#include "train/token_cache.h"

#include <set>

#include "token_cache_cases.h"
#include "train/vocabulary_trainer.h"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

TEST_F(TokenCache, GivesTheBatchesOfMemoryForAllTasksAndTokenizers) {
  for (const CacheCase& c : kCacheCases) {
    Recipe recipe = recipe_of(c, folder_.path());
    recipe.valid_beam = c.task == "translation" && (c.own_valid || c.pairs) ? 2 : 0;
    for (const int64_t batch_tokens : {256, 0}) {
      recipe.batch_tokens = batch_tokens;
      recipe.token_cache.clear();
      Loaded memory = load(recipe);
      recipe.token_cache = (folder_ / ("cache of " + c.name)).string();
      Loaded cached = load(recipe);
      expect_same_corpus(memory.corpus, cached.corpus, c.name);
      if (batch_tokens > 0) {
        EXPECT_GE(files_of(recipe.token_cache).size(), 6u) << c.name << ": several parts";
        EXPECT_CONTAINS(cached.messages, " parts tokenised, 0 reused");
        // What is said about the text is the same.
        for (std::istringstream lines(memory.messages); std::getline(lines, memory.messages);) {
          EXPECT_CONTAINS(cached.messages, memory.messages) << c.name;
        }
      } else {
        EXPECT_CONTAINS(cached.messages, " 0 parts tokenised, ");
      }
    }
  }
}

TEST_F(TokenCache, TrainsTheSameWeights) {
  for (const char* name : {"pairs", "translation, pieces", "text, characters", "text, unigram", "masked, pieces"}) {
    const CacheCase& c = *std::find_if(std::begin(kCacheCases), std::end(kCacheCases),
                                       [&](const CacheCase& each) { return each.name == name; });
    Recipe recipe = recipe_of(c, folder_.path());
    const fs::path memory = folder_ / (c.name + " memory"), cached = folder_ / (c.name + " cached");
    EXPECT_EQ(run(recipe, memory), Outcome::finished);
    recipe.token_cache = (folder_ / (c.name + " cache")).string();
    EXPECT_EQ(run(recipe, cached), Outcome::finished);
    EXPECT_TRUE(same_bytes(memory / "model.safetensors", cached / "model.safetensors"));
    if (c.pairs) {
      EXPECT_TRUE(same_bytes(memory / "heldout.tsv", cached / "heldout.tsv"));
    }
  }
}

TEST_F(TokenCache, SeveralRanksTrainFromItWithTheSameBits) {
  Recipe recipe = recipe_of(kCacheCases[4], folder_.path());
  recipe.shards = 2;
  EXPECT_EQ(run(recipe, folder_ / "memory"), Outcome::finished);
  recipe.token_cache = (folder_ / "cache").string();
  distributed::run_in_process(2, [&](distributed::Communicator& ranks) {
    EXPECT_EQ(train(recipe, folder_ / "cached", false, {}, ranks), Outcome::finished);
  });
  EXPECT_TRUE(same_bytes(folder_ / "memory/model.safetensors", folder_ / "cached/model.safetensors"));
  EXPECT_TRUE(same_bytes(folder_ / "memory/heldout.tsv", folder_ / "cached/heldout.tsv"));
  EXPECT_TRUE(same_bytes(folder_ / "memory/source.model", folder_ / "cached/source.model"));
}

TEST_F(TokenCache, ARunMayChangeBetweenMemoryAndCache) {
  Recipe recipe = recipe_of(kCacheCases[4], folder_.path());
  EXPECT_EQ(run(recipe, folder_ / "whole"), Outcome::finished);
  recipe.max_updates = 2;
  EXPECT_EQ(run(recipe, folder_ / "parts"), Outcome::finished);
  recipe.max_updates = 4;
  recipe.token_cache = (folder_ / "cache").string();
  EXPECT_EQ(run(recipe, folder_ / "parts", true), Outcome::finished);
  recipe.max_updates = 5;
  EXPECT_EQ(run(recipe, folder_ / "parts", true), Outcome::finished);
  recipe.max_updates = 6;
  recipe.token_cache.clear();
  EXPECT_EQ(run(recipe, folder_ / "parts", true), Outcome::finished);
  const std::string newest = "checkpoints/step-00000006/model.safetensors";
  EXPECT_TRUE(same_bytes(folder_ / "whole" / newest, folder_ / "parts" / newest));
  // A cache that a continued run has filled holds the folder's tokenizers. They are those that a new run trains.
  recipe.token_cache = (folder_ / "cache").string();
  Loaded again = load(recipe, {});
  EXPECT_CONTAINS(again.messages, "0 parts tokenised, 1 reused");
}

TEST_F(TokenCache, IsMadeByAnyNumberOfRanksWithTheSameBytes) {
  for (const CacheCase& c : {kCacheCases[2], kCacheCases[5], kCacheCases[6], kCacheCases[11]}) {
    Recipe recipe = recipe_of(c, folder_.path());
    Loaded memory = load(recipe);
    Files one;
    for (int ranks = 1; ranks <= 4; ++ranks) {
      recipe.token_cache = (folder_ / (c.name + std::to_string(ranks))).string();
      distributed::run_in_process(ranks, [&](distributed::Communicator& ranks_of_run) {
        Loaded loaded = load(recipe, {.ranks = &ranks_of_run, .part_bytes = 2000});
        EXPECT_EQ(loaded.corpus.checksum, memory.corpus.checksum);
        EXPECT_TRUE(bytes_of(*loaded.corpus.train, 1) == bytes_of(*memory.corpus.train, 1));
        const bool told = loaded.messages.find(" parts tokenised, 0 reused") != std::string::npos;
        EXPECT_EQ(told, ranks_of_run.rank() == 0);
      });
      const Files files = files_of(recipe.token_cache);
      if (ranks == 1) one = files;
      EXPECT_TRUE(files == one) << c.name << ", " << ranks << " ranks";
    }
  }
}

TEST_F(TokenCache, IsMadeFromOneTextOnAllRanks) {
  Recipe recipe = recipe_of(kCacheCases[2], folder_.path());
  recipe.token_cache = (folder_ / "cache").string();
  Recipe other = recipe;
  other.train_source = (folder_ / "other.txt").string();
  fs::copy(recipe.train_source, other.train_source);
  std::fstream(other.train_source, std::ios::in | std::ios::out | std::ios::binary).put('#');  // as long as the first
  const std::string text = heed::testing::message_of([&] {
    distributed::run_in_process(2, [&](distributed::Communicator& ranks) {
      (void)load(ranks.rank() == 0 ? recipe : other, {.ranks = &ranks, .part_bytes = 2000});
    });
  });
  EXPECT_EQ(text, "[token_cache] \"" + other.train_source +
                      "\": the text that rank 0 (thread) reads; rank 1 (thread) " + "finds another one there");
}

TEST_F(TokenCache, DrawsTheSameLinesForTheVocabularyAsMemory) {
  Recipe recipe = recipe_of(kCacheCases[3], folder_.path());
  recipe.vocabulary_lines = 150;
  Loaded memory = load(recipe);
  EXPECT_CONTAINS(memory.messages, "source and target get a vocabulary from 150 of 800 lines, drawn by the seed");
  recipe.token_cache = (folder_ / "cache").string();
  Loaded cached = load(recipe);
  expect_same_corpus(memory.corpus, cached.corpus, "150 lines");
  recipe.vocabulary_lines = 151;
  EXPECT_NE(load(recipe).corpus.checksum, memory.corpus.checksum);
  recipe.seed = 4;  // draws other lines
  EXPECT_CONTAINS(load(recipe).messages, "holds tokens of other settings");
}

TEST(LineSample, KeepsTheSameLinesInWhateverOrderTheyCome) {
  const auto sample = [](const std::vector<int64_t>& order, int64_t limit, uint64_t seed) {
    LineSample lines(limit, seed);
    for (const int64_t i : order) lines.add(static_cast<int>(i % 2), i / 2, std::to_string(i));
    EXPECT_EQ(lines.added(), 1000);
    return lines.take();
  };
  std::vector<int64_t> order(1000);
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  const std::vector<int64_t> backwards(order.rbegin(), order.rend());
  std::set<std::string> seen;
  for (const int64_t limit : {1, 10, 500, 999, 1000, 2000}) {
    const auto kept = sample(order, limit, 1);
    EXPECT_EQ(static_cast<int64_t>(kept.size()), std::min<int64_t>(limit, 1000));
    EXPECT_EQ(kept, sample(backwards, limit, 1));
    if (limit < 1000) {
      EXPECT_NE(kept, sample(order, limit, 2));
    }
    EXPECT_EQ(std::set(kept.begin(), kept.end()).size(), kept.size());
  }
  for (uint64_t seed = 0; seed < 60; ++seed) {
    for (const std::string& line : sample(order, 100, seed)) seen.insert(line);
  }
  EXPECT_GT(seen.size(), 980u);               // 1,000 lines, each left out 60 times with a probability of 0.0018
  EXPECT_EQ(sample(order, 2000, 1)[1], "2");  // side after side
}

}  // namespace
}  // namespace heed::train
