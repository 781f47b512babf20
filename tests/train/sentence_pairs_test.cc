// Pairs of texts with in-batch negatives: loss and gradients beside those of sentence-transformers, small trainings,
// and wrong input.
#include <cmath>

#include "foreign.h"
#include "heed/models.h"
#include "models/families/weights.h"
#include "models/pooling.h"
#include "models/sentence_folder.h"
#include "ranks.h"
#include "train/objective.h"
#include "train/shards.h"
#include "train/warnings.h"

namespace heed::train {
namespace {

using heed::test::test_data;
using models::TokenPooling;

struct GoldenPairs {
  const char* folder;
  std::vector<TokenPooling> poolings;
};

Tensor lengths_without(const Tensor& ids, int32_t padding) {
  const Tensor lengths = Tensor::zeros({ids.size(0)}, DType::i32);
  for (int64_t b = 0; b < ids.size(0); ++b) {
    for (int64_t l = 0; l < ids.size(1); ++l) lengths.data<int32_t>()[b] += ids.at({b, l}) != padding ? 1 : 0;
  }
  return lengths;
}

constexpr int32_t kRows[] = {0, 1, 2};

Batch batch_of_pairs(const io::Tensors& golden, const std::vector<TokenPooling>& poolings) {
  Batch batch;
  batch.source = golden.at("anchors").to(DType::i32);
  batch.positives = golden.at("positives").to(DType::i32);
  batch.source_lengths = lengths_without(batch.source, 0);
  batch.positive_lengths = lengths_without(batch.positives, 0);
  batch.contrast = std::make_shared<Contrast>(Contrast{.poolings = poolings, .scale = 20});
  batch.output = Tensor::from(std::span<const int32_t>(kRows), {3});
  batch.padding_id = -1;
  batch.tokens = batch.sentences = 3;
  return batch;
}

TEST(SentencePairs, LossAndGradientsAreThoseOfSentenceTransformers) {
  const std::vector<GoldenPairs> all = {{"bert-model", {TokenPooling::mean}},
                                        {"st-cls-dense", {TokenPooling::first}},
                                        {"st-lasttoken", {TokenPooling::last}},
                                        {"st-max-mean", {TokenPooling::largest, TokenPooling::mean}},
                                        {"st-weightedmean-old", {TokenPooling::weighted_mean}}};
  for (const GoldenPairs& one : all) {
    SCOPED_TRACE(one.folder);
    const auto file = test_data("finetuning") / (std::string("pairs-") + one.folder + ".safetensors");
    const io::Tensors golden = io::read_safetensors(file).tensors;
    const auto model = models::load(test_data("families") / one.folder);
    const Value loss = loss_sum(*model, batch_of_pairs(golden, one.poolings), {});
    EXPECT_NEAR(loss.item() / 3, golden.at("loss").at({0}), 1e-4);
    loss.backward(1.0f / 3);
    int compared = 0;
    for (const auto& [path, value] : model->named_parameters()) {
      const auto expected = golden.find("gradient." + models::place_of(model->origin()->design, path).name);
      if (expected == golden.end()) {  // the pooler
        EXPECT_FALSE(value.grad().defined()) << path;
        continue;
      }
      ++compared;
      ASSERT_TRUE(value.grad().defined()) << path;
      const Tensor found = value.grad().contiguous();
      ASSERT_EQ(found.numel(), expected->second.numel()) << path;
      double largest = 1e-2, difference = 0;
      for (int64_t i = 0; i < found.numel(); ++i) {
        const auto x = static_cast<double>(found.data<float>()[i]);
        const auto y = static_cast<double>(expected->second.contiguous().data<float>()[i]);
        largest = std::max(largest, std::abs(y));
        difference = std::max(difference, std::abs(x - y));
      }
      EXPECT_LE(difference, 3e-4 * largest) << path;
    }
    EXPECT_EQ(compared, 37);
  }
}

TEST(SentencePairs, NegativesAreThoseOfTheShard) {
  const io::Tensors golden = io::read_safetensors(test_data("finetuning") / "pairs-bert-model.safetensors").tensors;
  const auto model = models::load(test_data("families") / "bert-model");
  const Batch batch = batch_of_pairs(golden, {TokenPooling::mean});
  const Batch alone = shard_of(batch, 0, 3);  // one pair: nothing to be told from
  EXPECT_EQ(loss_sum(*model, alone, {}).item(), 0.0f);
  const Batch two = shard_of(batch, 1, 2);
  EXPECT_EQ(two.output.data<int32_t>()[0], 0);
  EXPECT_EQ(two.tokens, 2);
  EXPECT_EQ(two.source.shape(), (Shape{2, 4}));
  EXPECT_EQ(two.positives.shape(), (Shape{2, 5}));
  EXPECT_GT(loss_sum(*model, two, {}).item(), 0.0f);
  EXPECT_LT(loss_sum(*model, two, {}).item(), loss_sum(*model, batch, {}).item());
}

TEST(UnitRows, OfZerosAreZerosAndHaveAGradient) {
  const Value x(Tensor::from({3, 4, 0, 0}, {2, 2}), true);
  const Value y = models::unit_rows(x);
  EXPECT_FLOAT_EQ(static_cast<float>(y.data().at({0, 1})), 0.8f);
  EXPECT_EQ(y.data().at({1, 0}), 0.0);
  sum(y).backward();
  EXPECT_NEAR(x.grad().at({0, 0}), (1 - 0.6 * 1.4) / 5, 1e-6);
  EXPECT_NEAR(x.grad().at({0, 1}), (1 - 0.8 * 1.4) / 5, 1e-6);
}

class PairTrainings : public OneThread {
 protected:
  fs::path family(const std::string& name) {
    const fs::path from = folder_ / name;
    if (fs::exists(from)) return from;
    copy_family(name, from);
    for (const auto& entry : fs::directory_iterator(test_data("families") / name)) {
      if (entry.is_directory()) fs::copy(entry.path(), from / entry.path().filename(), fs::copy_options::recursive);
    }
    write_word_tokenizer(from, {{0, "<s>"}, {1, "<pad>"}, {2, "</s>"}, {3, "<unk>"}}, template_of(true, 2));
    return from;
  }
  Recipe recipe_for(const fs::path& from) {
    return recipe_of_pairs(folder_.path(), paired_letters(600, 3, "\tnobody reads this"), from);
  }
  TemporaryFolder folder_;
};

TEST_F(PairTrainings, LearnWhichTextsBelongTogether) {
  for (const char* const name : {"st-mean", "st-max-mean", "modernbert-model", "distilbert-masked"}) {
    SCOPED_TRACE(name);
    const fs::path from = family(name), before = folder_ / (name + std::string("-before")),
                   after = folder_ / (name + std::string("-after"));
    ASSERT_EQ(run(without_steps(recipe_for(from)), before), Outcome::finished);
    ASSERT_EQ(run(recipe_for(from), after), Outcome::finished);
    const Json first = last_line(before, "end"), last = last_line(after, "end");
    EXPECT_LT(last.at("loss").get<double>(), 0.75 * first.at("loss").get<double>());
    const bool learns_well = !models::has_sentence_modules(from);  // the others have large random weights
    if (learns_well) {
      EXPECT_GT(last.at("accuracy").get<double>(), first.at("accuracy").get<double>() + 0.3);
    }
    // The folder is one of sentence-transformers, with the modules that it had or with the mean of all tokens.
    ASSERT_TRUE(models::has_sentence_modules(after));
    const auto modules = models::read_sentence_modules(after);
    const int64_t width = models::read_config(after).width;
    const auto poolings = models::read_sentence_pooling(modules[1].folder, width).poolings;
    if (models::has_sentence_modules(from)) {
      EXPECT_TRUE(same_bytes(from / "modules.json", after / "modules.json"));
      const auto were = models::read_sentence_pooling(models::read_sentence_modules(from)[1].folder, width).poolings;
      EXPECT_EQ(poolings, were);
    } else {
      EXPECT_EQ(poolings, std::vector{TokenPooling::mean});
    }
    EXPECT_TRUE(same_bytes(from / "tokenizer.json", after / "tokenizer.json"));
  }
}

TEST_F(PairTrainings, ResumeEndsWithTheSameBits) {
  Recipe recipe = recipe_for(family("st-mean"));
  set_option(recipe, "model.dropout", "0.2");
  recipe.max_updates = 8;
  recipe.validate_every = 4;
  recipe.log_every = 1;
  ASSERT_EQ(run(recipe, folder_ / "whole"), Outcome::finished);
  ASSERT_EQ(run_until(recipe, folder_ / "parts", 5), Outcome::interrupted);
  recipe.from = (folder_ / "gone").string();
  ASSERT_EQ(run(recipe, folder_ / "parts", true), Outcome::finished);
  EXPECT_TRUE(same_bytes(folder_ / "whole/model.safetensors", folder_ / "parts/model.safetensors"));
  EXPECT_TRUE(same_bytes(folder_ / "whole/checkpoints/step-00000008/optimizer.safetensors",
                         folder_ / "parts/checkpoints/step-00000008/optimizer.safetensors"));
  recipe.similarity_scale = 10;
  EXPECT_CONTAINS(message_of([&] { (void)run(recipe, folder_ / "parts", true); }),
                  "similarity_scale (20 before, 10 now)");
}

TEST_F(PairTrainings, AnyNumberOfProcessesGivesTheSameBits) {
  Recipe recipe = recipe_for(family("st-mean"));
  set_option(recipe, "model.dropout", "0.2");
  recipe.shards = 4;
  recipe.max_updates = 6;
  recipe.validate_every = 3;
  recipe.compare_every = 1;
  for (const int ranks : {1, 2, 3}) {
    ASSERT_EQ(train_on(ranks, recipe, folder_ / std::to_string(ranks), false), Outcome::finished);
  }
  expect_same(folder_ / "1", folder_ / "2");
  expect_same(folder_ / "1", folder_ / "3");
}

TEST_F(PairTrainings, TwoFilesAreReadAsOneWithTabs) {
  Recipe recipe = recipe_for(family("st-mean"));
  recipe.valid_fraction = 0;
  recipe.max_updates = 3;
  ASSERT_EQ(run(recipe, folder_ / "one"), Outcome::finished);
  std::istringstream lines(read_text(recipe.pairs));
  std::string anchors, positives;
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find('\t'), second = line.find('\t', first + 1);
    anchors += line.substr(0, first) + "\n";
    positives += line.substr(first + 1, second - first - 1) + "\n";
  }
  write_text(folder_ / "anchors.txt", anchors);
  write_text(folder_ / "positives.txt", positives);
  recipe.pairs = "";
  recipe.train_source = recipe.valid_source = (folder_ / "anchors.txt").string();
  recipe.train_target = recipe.valid_target = (folder_ / "positives.txt").string();
  ASSERT_EQ(run(recipe, folder_ / "two"), Outcome::finished);
  EXPECT_TRUE(same_bytes(folder_ / "one/model.safetensors", folder_ / "two/model.safetensors"));
  EXPECT_TRUE(last_line(folder_ / "two", "end").contains("accuracy"));
}

TEST(PairWarnings, AboutPairsThatAreAlone) {
  Recipe recipe;
  recipe.task = "sentence_embedding";
  recipe.batch_sentences = 4;
  for (const auto& [loss, shards, warned] : std::vector<std::tuple<const char*, int64_t, bool>>{
           {"cross_entropy", 3, false}, {"cross_entropy", 4, true}, {"squared_error", 4, false}}) {
    recipe.loss = loss;
    recipe.shards = shards;
    const std::vector<std::string> warnings = warnings_of(recipe, {});
    ASSERT_EQ(warnings.size(), warned ? 1u : 0u) << loss << " " << shards;
    const std::string text = warned ? warnings[0] : "";
    EXPECT_EQ(text.find("batch_sentences above shards, 4, would change that") != std::string::npos, warned);
  }
}

TEST_F(PairTrainings, WrongInputIsNamedWithItsLine) {
  const auto error_on = [&](const std::string& text) {
    Recipe recipe = recipe_for(family("st-mean"));
    write_text(folder_ / "bad.tsv", text);
    recipe.pairs = (folder_ / "bad.tsv").string();
    const std::string message = message_of([&] { (void)run(recipe, folder_ / "new"); });
    EXPECT_FALSE(fs::exists(folder_ / "new"));
    return message;
  };
  EXPECT_CONTAINS(error_on("a\tb\nc\n"), "bad.tsv, line 2: source <tab> target; found no tab");
  EXPECT_CONTAINS(error_on("a\tb\nc\t\n"), "bad.tsv, line 2: two texts; one of them is empty");
  EXPECT_CONTAINS(error_on("\tb\n"), "bad.tsv, line 1: two texts; one of them is empty");
  EXPECT_CONTAINS(error_on(""), "bad.tsv");
  const auto error = [&](const char* from, const char* key, const char* value) {
    Recipe recipe = recipe_for(family(from));
    recipe.model = models::preset("small", models::Architecture::encoder_only);
    set_option(recipe, key, value);
    return message_of([&] { (void)run(recipe, folder_ / "new"); });
  };
  EXPECT_CONTAINS(error("st-mean", "from", ""), "from: the folder of an encoder");
  EXPECT_CONTAINS(error("st-mean", "pairs", ""), "either pairs, or train_source and train_target; found neither");
  EXPECT_CONTAINS(error("st-mean", "train_source", "x"), "either pairs, or train_source and train_target; found both");
  EXPECT_CONTAINS(error("st-mean", "valid_source", "x"), "valid_source and valid_target together");
  EXPECT_CONTAINS(error("st-mean", "consistency", "1"), "consistency: 0 for sentence_embedding");
  EXPECT_CONTAINS(error("st-mean", "max_tokens_per_sentence", "2"), "more than the 2 tokens around a text");
  EXPECT_CONTAINS(message_of([&] {
                    Recipe recipe = recipe_for(family("st-mean"));
                    set_option(recipe, "similarity_scale", "0");
                  }),
                  "similarity_scale");
}

}  // namespace
}  // namespace heed::train
