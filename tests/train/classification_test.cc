// Classifiers: losses and gradients beside those of transformers, new heads, small trainings, and wrong input.
#include <cmath>
#include <numeric>

#include "foreign.h"
#include "golden.h"
#include "heed/models.h"
#include "models/families/classifier.h"
#include "models/families/weights.h"
#include "ranks.h"
#include "train/examples.h"
#include "train/objective.h"
#include "train/shards.h"
#include "train/text_data.h"

namespace heed::train {
namespace {

using heed::test::test_data;

// Without dropout, as the golden data was made.
std::unique_ptr<models::Model> load_family(const std::string& name) {
  return models::load(test_data("families") / name);
}

class GoldenClassifiers : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Families, GoldenClassifiers,
                         ::testing::Values("bert-classify", "distilbert-classify", "roberta-classify", "mpnet-classify",
                                           "modernbert-classify-cls", "modernbert-classify-mean"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(GoldenClassifiers, LossAndGradientsAreThoseOfTransformers) {
  const std::string name = GetParam();
  const io::Tensors golden = io::read_safetensors(test_data("finetuning") / (name + ".safetensors")).tensors;
  const auto model = load_family(name);
  const Batch batch = golden_batch(name, name == "bert-classify", golden.at("labels"));
  const Value loss = loss_sum(*model, batch, {});
  const auto rows = static_cast<float>(batch.sentences);
  EXPECT_NEAR(loss.item() / rows, golden.at("loss").at({0}), 2e-5);
  loss.backward(1 / rows);
  const io::Tensors expected = golden_gradients(*model, golden);
  // The gradient of a key's bias is 0, and what rounding leaves of it is up to 2e-7.
  for (const auto& [path, value] : model->named_parameters()) {
    expect_near(value.grad(), expected.at(path), 2e-4, path, 2e-3);
  }
}

TEST_P(GoldenClassifiers, UpdatesFollowThoseOfTorch) {
  const std::string name = GetParam();
  const io::Tensors golden = io::read_safetensors(test_data("finetuning") / (name + ".safetensors")).tensors;
  const auto model = load_family(name);
  const Batch batch = golden_batch(name, name == "bert-classify", golden.at("labels"));
  Adam adam(model->named_parameters(), {.beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .weight_decay = 0.1f});
  const Tensor expected = golden.at("losses");
  for (int64_t step = 0; step < expected.numel(); ++step) {
    const Value loss = loss_sum(*model, batch, {});
    EXPECT_NEAR(loss.item() / static_cast<float>(batch.sentences), expected.at({step}), 2e-4) << step;
    loss.backward();
    adam.step(2e-3f, 1 / static_cast<float>(batch.sentences));
  }
}

TEST(ClassifiedShards, AddUpToTheBatch) {
  const io::Tensors golden = io::read_safetensors(test_data("finetuning") / "bert-classify.safetensors").tensors;
  const auto model = load_family("bert-classify");
  const Batch batch = golden_batch("bert-classify", true, golden.at("labels"));
  double sum = 0;
  int64_t texts = 0;
  for (int64_t s = 0; s < 5; ++s) {
    const Batch shard = shard_of(batch, s, 5);
    texts += shard.tokens;
    if (shard.tokens == 0) continue;
    EXPECT_EQ(shard.types.shape(), shard.source.shape());
    sum += static_cast<double>(loss_sum(*model, shard, {}).item());
  }
  EXPECT_EQ(texts, 3);
  EXPECT_NEAR(sum, 3 * golden.at("loss").at({0}), 1e-4);
}

// ---- New heads ----

double deviation_of(const Tensor& weight) {
  const float* const values = weight.data<float>();
  double squares = 0;
  for (int64_t i = 0; i < weight.numel(); ++i)
    squares += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return std::sqrt(squares / static_cast<double>(weight.numel()));
}

const Tensor& parameter(const models::Model& model, const std::string& path) {
  for (const auto& [name, value] : model.named_parameters()) {
    if (name == path) return value.data();
  }
  throw std::runtime_error("no parameter " + path);
}

TEST(NewHeads, AreThoseOfTransformers) {
  struct Case {
    const char *folder, *class_name;
    bool keeps_hidden;  // the layer below the classes
    double output;      // deviations of the weights
    std::vector<std::string> head;
  };
  const std::vector<std::string> two = {"head.dense.weight", "head.dense.bias", "head.output.weight",
                                        "head.output.bias"};
  const std::vector<std::string> modern = {"head.dense.weight", "head.norm.gain", "head.output.weight",
                                           "head.output.bias"};
  const std::vector<Case> cases = {{"bert-model", "BertForSequenceClassification", true, 0.02, two},
                                   {"bert-model-f16", "BertForSequenceClassification", true, 0.02, two},
                                   {"bert-masked", "BertForSequenceClassification", false, 0.02, two},
                                   {"bert-classify", "BertForSequenceClassification", true, 0.02, two},
                                   {"distilbert-masked", "DistilBertForSequenceClassification", false, 0.02, two},
                                   {"roberta-masked", "RobertaForSequenceClassification", false, 0.02, two},
                                   {"xlm-roberta-masked", "XLMRobertaForSequenceClassification", false, 0.02, two},
                                   {"mpnet-model", "MPNetForSequenceClassification", false, 0.02, two},
                                   {"modernbert-masked", "ModernBertForSequenceClassification", true, 0.25, modern}};
  std::vector<std::string> labels;
  for (int i = 0; i < 40; ++i) labels.push_back("class " + std::to_string(i));
  const TemporaryFolder folder;
  for (const Case& one : cases) {
    SCOPED_TRACE(one.folder);
    const fs::path from = test_data("families") / one.folder;
    const auto read = models::load(from);
    const auto model = models::with_text_classes(*read, from, labels, 5);
    std::vector<std::string> head;
    for (const auto& [path, value] : model->named_parameters()) {
      if (path.starts_with("head.")) {
        head.push_back(path);
      } else {
        EXPECT_TRUE(equal_bits(value.data(), parameter(*read, path))) << path;
      }
    }
    EXPECT_EQ(head, one.head);
    EXPECT_NEAR(deviation_of(parameter(*model, "head.output.weight")), one.output, 0.15 * one.output);
    EXPECT_EQ(deviation_of(parameter(*model, "head.output.bias")), 0.0);
    const Tensor& hidden = parameter(*model, "head.dense.weight");
    if (one.keeps_hidden) {
      EXPECT_TRUE(equal_bits(hidden, parameter(*read, "head.dense.weight")));
      EXPECT_GT(deviation_of(hidden), 0.05);  // nothing new is so large
    } else {
      EXPECT_NEAR(deviation_of(hidden), 0.02, 0.004);
    }

    models::save(*model, folder / one.folder);
    const Json config = Json::parse(read_text(folder / one.folder / "config.json"));
    EXPECT_EQ(config.at("architectures"), Json::array({one.class_name}));
    EXPECT_EQ(config.at("id2label").at("7"), "class 7");
    EXPECT_EQ(config.at("label2id").at("class 39"), 39);
    const auto back = models::load(folder / one.folder);
    EXPECT_EQ(back->config().labels, labels);
    for (const auto& [path, value] : back->named_parameters()) {
      EXPECT_TRUE(equal_bits(value.data(), parameter(*model, path))) << path;
    }
    // Another seed draws other numbers, the same one the same.
    const auto other = models::with_text_classes(*read, from, labels, 6);
    EXPECT_FALSE(equal_bits(parameter(*other, "head.output.weight"), parameter(*model, "head.output.weight")));
    const auto same = models::with_text_classes(*read, from, labels, 5);
    EXPECT_TRUE(equal_bits(parameter(*same, "head.output.weight"), parameter(*model, "head.output.weight")));
  }
}

// ModernBERT without a head, whose biases are all there.
void write_modernbert(const fs::path& folder) {
  copy_family("modernbert-model", folder);
  Json config = Json::parse(read_text(folder / "config.json"));
  config["classifier_bias"] = true;
  write_text(folder / "config.json", config.dump());
}

TEST(NewHeads, OfModernBertAreCut) {
  const TemporaryFolder folder;
  write_modernbert(folder / "from");
  const auto read = models::load(folder / "from");
  const auto model = models::with_text_classes(*read, folder / "from", {"a", "b", "c", "d", "e", "f", "g", "h"}, 1);
  const Tensor& weight = parameter(*model, "head.dense.weight");
  const float deviation = 0.02f / std::sqrt(2 * static_cast<float>(model->config().encoder_layers));
  for (int64_t i = 0; i < weight.numel(); ++i) EXPECT_LE(std::abs(weight.data<float>()[i]), 2 * deviation);
  EXPECT_NEAR(deviation_of(weight), 0.88 * static_cast<double>(deviation), 0.1 * static_cast<double>(deviation));
  EXPECT_EQ(deviation_of(parameter(*model, "head.norm.gain")), 1.0);
  EXPECT_EQ(deviation_of(parameter(*model, "head.norm.bias")), 0.0);
  // What another head would need is refused by name.
  const fs::path apart = test_data("families") / "modernbert-model";
  EXPECT_CONTAINS(message_of([&] {
                    (void)models::with_text_classes(*models::load(apart), apart, {"a", "b"}, 1);
                  }),
                  "classifier_bias");
}

// Several scores of a text are no classes: their head is replaced, and config.json says what the new one is.
TEST(NewHeads, TakeThePlaceOfSeveralScores) {
  const TemporaryFolder folder;
  copy_family("bert-classify", folder / "from");
  Json config = Json::parse(read_text(folder / "from/config.json"));
  EXPECT_TRUE(models::tells_one_class(*models::load(folder / "from")));
  for (const char* const problem : {"regression", "multi_label_classification"}) {
    config["problem_type"] = problem;
    write_text(folder / "from/config.json", config.dump());
    const auto read = models::load(folder / "from");
    EXPECT_FALSE(models::tells_one_class(*read));
    const auto model = models::with_text_classes(*read, folder / "from", read->config().labels, 5);
    EXPECT_TRUE(models::tells_one_class(*model));
    models::save(*model, folder / "to");
    EXPECT_EQ(Json::parse(read_text(folder / "to/config.json")).at("problem_type"), "single_label_classification");
  }
}

// ---- Trainings ----

// Lines of letters and their label. Of one text its first letter decides; of pairs the second text alone, whose letters
// are i to l or m to p.
std::string labelled_letters(int64_t count, uint64_t seed, bool pairs) {
  std::istringstream first(letters(count, seed)), second(letters(count, seed + 100));
  std::string text, other, result;
  while (std::getline(first, text) && std::getline(second, other)) {
    const bool low = pairs ? other[0] < 'e' : text[0] < 'e';
    for (char& letter : other) {
      if (letter != ' ') letter = static_cast<char>((low ? 'i' : 'm') + (letter - 'a') % 4);
    }
    result += text + "\t" + (pairs ? other + "\t" : "") + (low ? "low" : "high") + "\n";
  }
  return result;
}

class Classifiers : public OneThread {
 protected:
  // A folder of tests/data/families with a tokenizer.
  fs::path family(const std::string& name) {
    const fs::path from = folder_ / name;
    if (!fs::exists(from)) {
      copy_family(name, from);
      write_word_tokenizer(from, {{0, "<s>"}, {1, "<pad>"}, {2, "</s>"}, {3, "<unk>"}, {4, "[MASK]"}}, pair_template());
    }
    return from;
  }
  Recipe recipe_for(const fs::path& from, bool pairs = false) {
    const std::string name = pairs ? "pairs" : "texts";
    write_text(folder_ / (name + ".tsv"), labelled_letters(600, 1, pairs));
    write_text(folder_ / (name + "-valid.tsv"), labelled_letters(60, 7, pairs));
    Recipe recipe;
    recipe.task = "sequence_classification";
    recipe.train_source = (folder_ / (name + ".tsv")).string();
    recipe.valid_source = (folder_ / (name + "-valid.tsv")).string();
    recipe.from = from.string();
    recipe.label_smoothing = 0;
    recipe.batch_sentences = 16;
    recipe.schedule = {.kind = ScheduleKind::constant, .peak = 5e-3, .warmup = 0};
    recipe.max_updates = 300;
    recipe.validate_every = 100;
    recipe.log_every = 10;
    return recipe;
  }
  // The message of a training on this text.
  std::string error_on(const std::string& train, const std::string& valid) {
    Recipe recipe = recipe_for(family("bert-masked"));
    write_text(folder_ / "bad.tsv", train);
    write_text(folder_ / "bad-valid.tsv", valid);
    recipe.train_source = (folder_ / "bad.tsv").string();
    recipe.valid_source = valid.empty() ? "" : (folder_ / "bad-valid.tsv").string();
    recipe.max_updates = 1;
    const std::string message = message_of([&] { (void)run(recipe, folder_ / "bad"); });
    EXPECT_FALSE(fs::exists(folder_ / "bad"));
    return message;
  }
  TemporaryFolder folder_;
};

TEST_F(Classifiers, LearnInEveryFamily) {
  for (const char* const name : {"bert-masked", "distilbert-masked", "roberta-masked", "mpnet-model",
                                 "modernbert-masked", "bert-model-f16", "modernbert-classify-mean"}) {
    SCOPED_TRACE(name);
    const fs::path output = folder_ / (name + std::string("-trained"));
    ASSERT_EQ(run(recipe_for(family(name)), output), Outcome::finished);
    const Json end = last_line(output, "end");
    EXPECT_GE(end.at("accuracy").get<double>(), 0.95);
    EXPECT_LT(end.at("loss").get<double>(), 0.3);
    EXPECT_FALSE(end.contains("perplexity"));
    const auto model = models::load(output);
    const Evaluation again = evaluate(*model, output, recipe_for(family(name)).valid_source, "");
    EXPECT_EQ(again.accuracy, end.at("accuracy").get<double>());
    EXPECT_NEAR(again.loss, end.at("loss").get<double>(), 1e-5);
    EXPECT_EQ(again.sentences, 60);
    EXPECT_EQ(model->config().labels, (std::vector<std::string>{"high", "low"}));
    for (const auto& [tensor_name, tensor] : io::read_safetensors(output / "model.safetensors").tensors) {
      EXPECT_EQ(tensor.dtype(), DType::f32) << tensor_name;
    }
  }
}

TEST_F(Classifiers, LearnPairs) {
  const fs::path from = family("bert-masked");
  Recipe recipe = recipe_for(from, true);
  recipe.best_by = "accuracy";
  ASSERT_EQ(run(recipe, folder_ / "pairs-trained"), Outcome::finished);
  EXPECT_GE(last_line(folder_ / "pairs-trained", "end").at("accuracy").get<double>(), 0.95);

  Examples examples;
  examples.pairs = true;
  examples.all.push_back({.text = "a", .second = "i j", .label = "low", .line = 1});
  const TokenizedTexts texts = tokenize(*text::Tokenizer::load(from, text::Side::source), examples, {.longest = 6});
  EXPECT_EQ(texts.types, (std::vector<Ids>{{0, 0, 0, 1, 1, 0}}));
  EXPECT_EQ(texts.ids[0][2], 2);  // </s> between the two; the last one has the type that the template says
  EXPECT_EQ(texts.cut, 0);
}

TEST_F(Classifiers, FromAnOwnEncoder) {
  ASSERT_EQ(run(recipe_of_own_encoder(folder_.path()), folder_ / "encoder"), Outcome::finished);
  ASSERT_EQ(run(recipe_for(folder_ / "encoder"), folder_ / "own"), Outcome::finished);
  EXPECT_GE(last_line(folder_ / "own", "end").at("accuracy").get<double>(), 0.95);
  EXPECT_EQ(models::load(folder_ / "own")->config().head, models::Head::text_class);
  EXPECT_CONTAINS(message_of([&] { (void)run(recipe_for(folder_ / "encoder", true), folder_ / "new"); }),
                  "pairs.tsv, line 1: text <tab> label, because this model's tokenizer has no form for a pair");
}

TEST_F(Classifiers, AHeadThatFitsStaysAsItIs) {
  Recipe recipe = recipe_for(family("bert-masked"));
  ASSERT_EQ(run(recipe, folder_ / "first"), Outcome::finished);
  recipe.from = (folder_ / "first").string();
  ASSERT_EQ(run(without_steps(recipe), folder_ / "still"), Outcome::finished);
  EXPECT_TRUE(same_bytes(folder_ / "first/config.json", folder_ / "still/config.json"));
  EXPECT_TRUE(same_bytes(folder_ / "first/model.safetensors", folder_ / "still/model.safetensors"));
  EXPECT_EQ(last_line(folder_ / "first", "end").at("accuracy"), last_line(folder_ / "still", "end").at("accuracy"));
  // Other labels get a head of their own.
  std::string text = read_text(recipe.train_source);
  for (size_t at = 0; (at = text.find("\tlow", at)) != std::string::npos;) text.replace(at, 4, "\tdeep");
  write_text(folder_ / "deep.tsv", text);
  recipe.train_source = (folder_ / "deep.tsv").string();
  recipe.valid_source = "";
  recipe.valid_fraction = 0.2;
  ASSERT_EQ(run(without_steps(recipe), folder_ / "other"), Outcome::finished);
  EXPECT_EQ(models::load(folder_ / "other")->config().labels, (std::vector<std::string>{"deep", "high"}));
}

TEST_F(Classifiers, ResumeEndsWithTheSameBits) {
  Recipe recipe = recipe_for(family("modernbert-masked"));
  set_option(recipe, "model.dropout", "0.2");
  recipe.max_updates = 8;
  recipe.validate_every = 4;
  recipe.log_every = 1;
  ASSERT_EQ(run(recipe, folder_ / "whole"), Outcome::finished);
  ASSERT_EQ(run_until(recipe, folder_ / "parts", 5), Outcome::interrupted);
  ASSERT_EQ(run(recipe, folder_ / "parts", true), Outcome::finished);
  EXPECT_TRUE(same_bytes(folder_ / "whole/model.safetensors", folder_ / "parts/model.safetensors"));
  EXPECT_TRUE(same_bytes(folder_ / "whole/checkpoints/step-00000008/optimizer.safetensors",
                         folder_ / "parts/checkpoints/step-00000008/optimizer.safetensors"));
  write_text(recipe.train_source, "a b\thigh\nb\tlow\nc\tlow\n");
  EXPECT_CONTAINS(message_of([&] { (void)run(recipe, folder_ / "parts", true); }), "found other text");
}

TEST_F(Classifiers, AnyNumberOfProcessesGivesTheSameBits) {
  Recipe recipe = recipe_for(family("bert-model"), true);
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
  EXPECT_EQ(last_line(folder_ / "1", "end").at("accuracy"), last_line(folder_ / "3", "end").at("accuracy"));
}

TEST_F(Classifiers, HoldBackByAHashAndCutLongTexts) {
  Recipe recipe = recipe_for(family("bert-masked"));
  recipe.valid_source = "";
  recipe.valid_fraction = 0.3;
  recipe.max_tokens_per_sentence = 5;
  recipe.max_updates = 1;
  std::string said;
  const Callbacks callbacks{.message = [&](std::string_view text) { said += std::string(text) + "\n"; }};
  ASSERT_EQ(train(recipe, folder_ / "cut", false, callbacks), Outcome::finished);
  EXPECT_CONTAINS(said, "training texts are cut to 5 tokens");
  EXPECT_CONTAINS(said, ", accuracy ");
  const Examples held_back = read_examples(folder_ / "cut/heldout.tsv");
  EXPECT_GT(held_back.all.size(), 60U);
  EXPECT_LT(held_back.all.size(), 200U);
}

TEST_F(Classifiers, WrongInputIsNamedWithItsLine) {
  const std::string good = "a b\tx\nc d\ty\n";
  EXPECT_CONTAINS(error_on("a b\n", ""), "bad.tsv, line 1: text <tab> label, or text <tab> text <tab> label; found 1");
  EXPECT_CONTAINS(error_on("a\tb\tc\td\n", ""), "line 1: text <tab> label, or text <tab> text <tab> label; found 4");
  EXPECT_CONTAINS(error_on(good + "a\tb\tx\n", ""), "bad.tsv, line 3: 2 columns, as the first line has; found 3");
  EXPECT_CONTAINS(error_on(good + "\n", ""), "bad.tsv, line 3: 2 columns, as the first line has; found 1");
  EXPECT_CONTAINS(error_on(good + "\tx\n", ""), "bad.tsv, line 3: a text in each column; column 1 is empty");
  EXPECT_CONTAINS(error_on(good + "a\t\n", ""), "bad.tsv, line 3: a text in each column; column 2 is empty");
  EXPECT_CONTAINS(error_on(good + "a\xff\tx\n", ""), "bad.tsv");
  EXPECT_CONTAINS(error_on("a\tx\nb\tx\n", ""), "bad.tsv: two labels or more; found only \"x\"");
  EXPECT_CONTAINS(error_on("", ""), "bad.tsv");
  EXPECT_CONTAINS(error_on(good, "a\tx\nb\tz\n"), "bad-valid.tsv, line 2: one of the labels x, y; found \"z\"");
  EXPECT_CONTAINS(error_on(good, "a\tb\tx\n"), "bad-valid.tsv, line 1: 2 columns, as the training text has; found 3");
  std::string many;
  for (int i = 0; i < 25; ++i) many += "a\tl" + std::to_string(i + 10) + "\n";
  EXPECT_CONTAINS(error_on(many, "a\tz\n"), "l28, l29, and 5 more; found \"z\"");
}

TEST_F(Classifiers, WrongRecipesAreRefused) {
  const auto error = [&](const char* key, const char* value) {
    Recipe recipe = recipe_for(family("bert-masked"));
    recipe.model = models::preset("small", models::Architecture::encoder_only);
    set_option(recipe, key, value);
    return message_of([&] { (void)run(recipe, folder_ / "new"); });
  };
  EXPECT_CONTAINS(error("from", ""), "from: the folder of an encoder");
  EXPECT_CONTAINS(error("train_source", ""), "train_source, a text; found none");
  EXPECT_CONTAINS(error("train_source", "/nothing/at/all"), "/nothing/at/all");
  EXPECT_CONTAINS(error("valid_beam", "4"), "valid_beam: 0 for sequence_classification");
  EXPECT_CONTAINS(error("pairs", "x.tsv"), "pairs: for translation and sentence_embedding");
  EXPECT_CONTAINS(error("max_tokens_per_sentence", "2"),
                  "max_tokens_per_sentence: more than the 2 tokens around a text");
  EXPECT_CONTAINS(error("context_parallel", "2"), "context_parallel: 1, unless");
  Recipe recipe = recipe_for(family("bert-masked"));
  recipe.task = "masked_language_model";
  recipe.best_by = "accuracy";
  EXPECT_CONTAINS(message_of([&] { (void)run(recipe, folder_ / "new"); }), "best_by: loss or bleu");
  write_marian(folder_ / "marian");
  EXPECT_CONTAINS(message_of([&] { (void)run(recipe_for(folder_ / "marian"), folder_ / "new"); }),
                  "from: a model that fits the task, sequence_classification; found one that is encoder_decoder");
}

TEST(Labels, AreSortedAsNumbersWhereTheyAreNumbers) {
  const auto labels = [](const std::vector<std::string>& of_examples) {
    Examples examples;
    for (const std::string& label : of_examples) examples.all.push_back({.text = "a", .second = "", .label = label});
    return labels_of(examples);
  };
  EXPECT_EQ(labels({"10", "9", "-1", "9"}), (std::vector<std::string>{"-1", "9", "10"}));
  EXPECT_EQ(labels({"10", "9", "b"}), (std::vector<std::string>{"10", "9", "b"}));
}

TEST(Accuracy, CountsTextsWhoseLikeliestClassIsRight) {
  const io::Tensors golden = io::read_safetensors(test_data("finetuning") / "bert-classify.safetensors").tensors;
  const auto model = load_family("bert-classify");
  const Batch batch = golden_batch("bert-classify", true, golden.at("labels"));
  const Tensor logits =
      io::read_safetensors(test_data("families/bert-classify/golden.safetensors")).tensors.at("logits");
  TokenizedTexts texts;
  std::vector<int32_t> classes;
  int64_t right = 0;
  for (int64_t b = 0; b < 3; ++b) {
    const auto length = static_cast<size_t>(batch.source_lengths.at({b}));
    const int32_t* const ids = batch.source.data<int32_t>() + b * batch.source.size(1);
    const int32_t* const types = batch.types.data<int32_t>() + b * batch.source.size(1);
    texts.ids.emplace_back(ids, ids + length);
    texts.types.emplace_back(types, types + length);
    int64_t best = 0;
    for (int64_t c = 1; c < 3; ++c) best = logits.at({b, c}) > logits.at({b, best}) ? c : best;
    classes.push_back(static_cast<int32_t>(b == 1 ? (best + 1) % 3 : best));
    right += b == 1 ? 0 : 1;
  }
  const auto data = classified_data(texts, classes, true, 0, {.tokens = 12});
  EXPECT_EQ(data->batches(0), 2);
  const MeanLoss mean = mean_loss(*model, *data);
  ASSERT_TRUE(mean.accuracy);
  EXPECT_DOUBLE_EQ(*mean.accuracy, static_cast<double>(right) / 3);
  EXPECT_EQ(mean.sentences, 3);
}

}  // namespace
}  // namespace heed::train
