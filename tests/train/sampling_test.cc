// Subword regularisation while training: the draws are part of the bits, and validation has none.
#include <nlohmann/json.hpp>

#include "heed/cpu.h"
#include "toy.h"
#include "train/data.h"

namespace heed::train {
namespace {

// A recipe on words that can be cut in many ways.
Recipe word_recipe(const TemporaryFolder& folder) {
  Recipe recipe = copy_recipe(folder.path());
  std::string text;
  for (uint64_t i = 0; i < 200; ++i) {
    for (uint64_t k = 0; k < 4; ++k) {
      const auto words = philox(3, i, k);
      for (uint32_t c = 0; c < 2 + words[0] % 3; ++c) text += "abc"[(words[1] >> (4 * c)) % 3];
      text += k < 3 ? ' ' : '\n';
    }
  }
  write_text(folder / "train.txt", text);
  write_text(folder / "valid.txt", text.substr(0, text.find('\n', text.size() / 8) + 1));
  recipe.tokenizer = "sentencepiece";
  recipe.vocabulary = 60;
  recipe.subword_sampling = 0.3;
  recipe.model.max_length = 40;
  recipe.max_updates = 20;
  recipe.batch_tokens = 700;
  return recipe;
}

class Sampling : public OneThread {
 protected:
  TemporaryFolder folder_;
};

TEST_F(Sampling, IsTheSameBitsHoweverInterruptedAndOnAnyNumberOfThreads) {
  Recipe recipe = word_recipe(folder_);
  recipe.log_every = 1;
  EXPECT_EQ(run(recipe, folder_ / "whole"), Outcome::finished);
  for (const int64_t at : {3, 11, 19}) {  // in the first epoch and in later ones
    const auto parts = folder_ / ("parts" + std::to_string(at));
    std::atomic<bool> stop = false;
    const Callbacks until{.progress = [&](const Progress& p) { stop = p.update >= at; }, .stop = &stop};
    EXPECT_EQ(train(recipe, parts, false, until), Outcome::interrupted);
    set_num_threads(3);
    EXPECT_EQ(run(recipe, parts, true), Outcome::finished);
    set_num_threads(1);
    EXPECT_TRUE(same_bytes(folder_ / "whole/model.safetensors", parts / "model.safetensors"));
  }
}

TEST_F(Sampling, ChangesTheTrainingUnlessItIsOff) {
  Recipe recipe = word_recipe(folder_);
  EXPECT_EQ(run(recipe, folder_ / "drawn"), Outcome::finished);
  recipe.seed = 2;
  EXPECT_EQ(run(recipe, folder_ / "other"), Outcome::finished);
  recipe.seed = 1;
  recipe.subword_sampling = 100;  // the best segmentation every time
  EXPECT_EQ(run(recipe, folder_ / "best"), Outcome::finished);
  recipe.subword_sampling = 0;
  EXPECT_EQ(run(recipe, folder_ / "off"), Outcome::finished);
  EXPECT_FALSE(same_bytes(folder_ / "drawn/model.safetensors", folder_ / "off/model.safetensors"));
  EXPECT_FALSE(same_bytes(folder_ / "drawn/model.safetensors", folder_ / "other/model.safetensors"));
  EXPECT_TRUE(same_bytes(folder_ / "best/model.safetensors", folder_ / "off/model.safetensors"));
}

// evaluate() encodes as translate does; validation sees the same ids.
TEST_F(Sampling, IsNotForValidation) {
  const Recipe recipe = word_recipe(folder_);
  EXPECT_EQ(run(recipe, folder_ / "m"), Outcome::finished);
  std::istringstream log(read_text(folder_ / "m/log.jsonl"));
  nlohmann::json end;
  for (std::string line; std::getline(log, line);) end = nlohmann::json::parse(line);
  ASSERT_EQ(end["type"], "end");
  const auto model = models::load(folder_ / "m");
  const Evaluation evaluation =
      evaluate(*model, folder_ / "m", recipe.valid_source, recipe.valid_target, {.batch_tokens = 700});
  EXPECT_NEAR(evaluation.loss, end["loss"].get<double>(), 1e-6);
}

TEST_F(Sampling, IsRefusedWhereThereIsNothingToDrawBy) {
  const auto error = [&](auto&& change) {
    Recipe recipe = word_recipe(folder_);
    change(recipe);
    return message_of([&] { validate(recipe); });
  };
  EXPECT_EQ(error([](Recipe&) {}), "");
  EXPECT_CONTAINS(error([](Recipe& r) { r.bpe = true; }), "subword_sampling: 0, unless");
  EXPECT_CONTAINS(error([](Recipe& r) { r.bpe = true; }), "found 0.3, translation and bpe");
  EXPECT_CONTAINS(error([](Recipe& r) { r.tokenizer = "characters"; }), "found 0.3, translation and characters");
  EXPECT_CONTAINS(error([](Recipe& r) { r.tokenizer = "pieces"; }), "pieces");
  EXPECT_CONTAINS(error([](Recipe& r) { r.subword_sampling = -0.1; }), "subword_sampling: from 0 to 100; found -0.1");
  EXPECT_CONTAINS(error([](Recipe& r) {
                    r.subword_sampling = 0;
                    r.subword_sampling_epochs = 3;
                  }),
                  "subword_sampling_epochs: 0 unless subword_sampling is more than 0; found 3");
  EXPECT_CONTAINS(error([](Recipe& r) {
                    r.task = "language_model";
                    r.model = models::preset("tiny", models::Architecture::decoder_only);
                  }),
                  "unless the task is translation");
}

// Draws are by line, epoch and side: whatever the batches are, and each epoch anew.
class Numbers : public text::SubwordSampler {
 public:
  [[nodiscard]] text::Ids encode(std::string_view text, uint64_t key, uint64_t stream) const override {
    const auto word = static_cast<int32_t>(philox(key, stream, 0)[0] % 1000);
    return text::Ids(text == "long" ? 9 : 2, 10 + word);
  }
};

std::vector<text::Ids> rows_of(DataSet& data, int64_t epoch, int64_t sentences) {
  std::vector<text::Ids> rows;
  for (int64_t b = 0; b < data.batches(epoch); ++b) {
    const Batch batch = data.batch(epoch, b);
    for (int64_t r = 0; r < batch.source.size(0); ++r) {
      const int32_t* first = batch.source.data<int32_t>() + r * batch.source.size(1);
      rows.emplace_back(first, first + batch.source_lengths.data<int32_t>()[r]);
    }
  }
  EXPECT_EQ(static_cast<int64_t>(rows.size()), sentences);
  std::sort(rows.begin(), rows.end());
  return rows;
}

TEST(Resegmentation, DependsOnEpochLineAndSeedAlone) {
  const auto make = [](int64_t tokens, uint64_t seed) {
    const auto sampler = std::make_shared<Numbers>();
    const std::vector<text::Ids> best(20, text::Ids{5, 5});
    return parallel_data(best, best, source_frame({}), target_frame({}), {.tokens = tokens, .seed = seed},
                         {.source = sampler,
                          .target = sampler,
                          .source_lines = std::vector<std::string>(20, "x"),
                          .target_lines = std::vector<std::string>(20, "x"),
                          .longest = 8});
  };
  const auto one = make(1000, 1), other = make(6, 1), seeded = make(6, 2);
  const auto first = rows_of(*one, 0, 20), second = rows_of(*one, 1, 20);
  EXPECT_NE(first, second);
  EXPECT_EQ(rows_of(*other, 1, 20), second);
  EXPECT_EQ(rows_of(*other, 0, 20), first);  // and back again, as a continued run does
  EXPECT_NE(rows_of(*seeded, 0, 20), first);
  EXPECT_EQ(one->checksum(), seeded->checksum());  // of the text, not of the draws
  EXPECT_NE(first.front(), first.back());
}

TEST(Resegmentation, TakesTheBestWhereTheDrawIsTooLong) {
  const auto sampler = std::make_shared<Numbers>();
  const auto data = parallel_data(
      {{5, 6, 7}}, {{5}}, source_frame({}), target_frame({}), {.tokens = 100},
      {.source = sampler, .target = sampler, .source_lines = {"long"}, .target_lines = {"x"}, .longest = 8});
  EXPECT_EQ(rows_of(*data, 0, 1)[0], (text::Ids{5, 6, 7, 2}));
}

}  // namespace
}  // namespace heed::train
