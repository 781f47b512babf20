// Dense modules above an encoder: loss and gradients beside those of sentence-transformers, trainings, means of models,
// and folders of other names.
#include <cmath>

#include "golden.h"
#include "models/sentence_folder.h"
#include "ranks.h"
#include "train/sentence_files.h"
#include "train/sentence_model.h"

namespace heed::train {
namespace {

using heed::test::test_data;

const fs::path kFolder = test_data("families") / "st-cls-dense";

std::unique_ptr<SentenceModel> load_with_dense(const fs::path& folder) {
  auto model = models::load(folder);
  const int64_t width = model->config().width;
  return std::make_unique<SentenceModel>(std::unique_ptr<models::Bert>(dynamic_cast<models::Bert*>(model.release())),
                                         read_layers(folder, width));
}

Batch golden_pairs(const io::Tensors& golden) {
  const auto lengths = [](const Tensor& ids) {
    const Tensor found = Tensor::zeros({ids.size(0)}, DType::i32);
    for (int64_t b = 0; b < ids.size(0); ++b) {
      for (int64_t l = 0; l < ids.size(1); ++l) found.data<int32_t>()[b] += ids.at({b, l}) != 0 ? 1 : 0;
    }
    return found;
  };
  static constexpr int32_t kNumbers[] = {0, 1, 2};
  Batch batch;
  batch.source = golden.at("anchors").to(DType::i32);
  batch.positives = golden.at("positives").to(DType::i32);
  batch.source_lengths = lengths(batch.source);
  batch.positive_lengths = lengths(batch.positives);
  batch.contrast = std::make_shared<Contrast>(Contrast{.poolings = {models::TokenPooling::first}, .scale = 20});
  batch.output = Tensor::from(std::span<const int32_t>(kNumbers), {3});
  batch.padding_id = -1;
  batch.tokens = batch.sentences = 3;
  return batch;
}

io::Tensors golden_file() {
  return io::read_safetensors(test_data("finetuning") / "dense-st-cls-dense.safetensors").tensors;
}

TEST(GoldenDense, LossAndGradientsAreThoseOfSentenceTransformers) {
  const io::Tensors golden = golden_file();
  const auto model = load_with_dense(kFolder);
  const Value loss = loss_sum(*model, golden_pairs(golden), {});
  EXPECT_NEAR(loss.item() / 3, golden.at("loss").at({0}), 1e-4);
  loss.backward(1.0f / 3);
  int compared = 0;
  for (const auto& [path, value] : model->named_parameters()) {
    std::string name = "gradient.";
    if (path.starts_with("encoder.")) {
      name += models::place_of(model->origin()->design, path.substr(8)).name;
    } else {  // modules.2_Dense.linear.weight
      name += path.substr(8, 7) + "/" + path.substr(16);
    }
    const auto expected = golden.find(name);
    if (expected == golden.end()) continue;  // the pooler
    ++compared;
    expect_near(value.grad(), expected->second.reshape(value.shape()), 3e-4, path, 1e-2);
  }
  EXPECT_EQ(compared, 40);
}

TEST(GoldenDense, UpdatesFollowThoseOfTorch) {
  const io::Tensors golden = golden_file();
  const auto model = load_with_dense(kFolder);
  const Batch batch = golden_pairs(golden);
  Adam adam(model->named_parameters(), {.beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .weight_decay = 0.1f});
  const Tensor expected = golden.at("losses");
  for (int64_t step = 0; step < expected.numel(); ++step) {
    const Value loss = loss_sum(*model, batch, {});
    EXPECT_NEAR(loss.item() / 3, expected.at({step}), 3e-4) << step;
    loss.backward();
    adam.step(2e-3f, 1.0f / 3);
  }
}

TEST(Dense, GradientsOfEachActivationAreSlopes) {
  const TemporaryFolder folder;
  for (const char* const name : {"Tanh", "Identity", "GELU", "Sigmoid"}) {
    SCOPED_TRACE(name);
    const Json config = {
        {"in_features", 3}, {"out_features", 2}, {"activation_function", "torch.nn.modules." + std::string(name)}};
    write_text(folder / "config.json", config.dump());
    io::write_safetensors(folder / "model.safetensors",
                          {{"linear.weight", Tensor::from({0.5f, -1, 2, 1, 0.3f, -0.7f}, {2, 3})},
                           {"linear.bias", Tensor::from({0.1f, -0.2f}, {2})}});
    const models::SentenceDense dense = models::read_sentence_dense(folder.path(), 3);
    const Value x(Tensor::from({0.4f, 0.2f, -0.3f}, {1, 3}), true);
    sum(dense(x)).backward();
    for (int64_t e = 0; e < 3; ++e) {
      const auto at = [&](float step) {
        const Tensor moved = x.data().clone();
        moved.data<float>()[e] += step;
        return static_cast<double>(sum(dense(Value(moved))).item());
      };
      EXPECT_NEAR(x.grad().at({0, e}), (at(1e-2f) - at(-1e-2f)) / 2e-2, 2e-3) << e;
    }
  }
}

// ---- Trainings ----

class DenseTrainings : public OneThread {
 protected:
  fs::path family() {
    const fs::path from = folder_ / "from";
    if (fs::exists(from)) return from;
    fs::copy(kFolder, from, fs::copy_options::recursive);
    fs::remove(from / "golden.safetensors");
    write_word_tokenizer(from, {{0, "<s>"}, {1, "<pad>"}, {2, "</s>"}, {3, "<unk>"}}, template_of(true, 2));
    return from;
  }
  // The same with modules in folders of other names, one of them inside of another.
  fs::path with_other_names() {
    const fs::path from = family(), to = folder_ / "named";
    fs::copy(from, to, fs::copy_options::recursive);
    fs::create_directories(to / "above");
    std::string modules = read_text(to / "modules.json");
    for (const auto& [old, name] :
         {std::pair{"1_Pooling", "pool"}, {"2_Dense", "above/first"}, {"3_Dense", "above/second"}}) {
      fs::rename(to / old, to / name);
      modules.replace(modules.find(old), std::strlen(old), name);
    }
    write_text(to / "modules.json", modules);
    return to;
  }
  Recipe recipe_for(const fs::path& from) { return recipe_of_pairs(folder_.path(), paired_letters(600, 3), from); }
  Recipe short_recipe(const fs::path& from) {
    Recipe recipe = recipe_for(from);
    set_option(recipe, "model.dropout", "0.2");
    recipe.max_updates = 8;
    recipe.validate_every = 4;
    recipe.log_every = 1;
    return recipe;
  }
  TemporaryFolder folder_;
};

TEST_F(DenseTrainings, LearnAndAreWrittenBack) {
  const fs::path from = family(), to = folder_ / "trained";
  ASSERT_EQ(run(without_steps(recipe_for(from)), folder_ / "before"), Outcome::finished);
  ASSERT_EQ(run(recipe_for(from), to), Outcome::finished);
  EXPECT_LT(last_line(to, "end").at("loss").get<double>(),
            0.85 * last_line(folder_ / "before", "end").at("loss").get<double>());
  EXPECT_TRUE(same_bytes(from / "modules.json", to / "modules.json"));
  for (const char* const name : {"2_Dense", "3_Dense"}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(Json::parse(read_text(from / name / "config.json")), Json::parse(read_text(to / name / "config.json")));
    const auto before = io::read_safetensors(from / name / "model.safetensors").tensors;
    const auto unmoved = io::read_safetensors(folder_ / "before" / name / "model.safetensors").tensors;
    const auto after = io::read_safetensors(to / name / "model.safetensors").tensors;
    ASSERT_EQ(after.size(), before.size());
    for (const auto& [tensor, weights] : before) {
      EXPECT_TRUE(equal_bits(unmoved.at(tensor), weights)) << tensor;
      EXPECT_EQ(after.at(tensor).shape(), weights.shape());
      EXPECT_FALSE(equal_bits(after.at(tensor), weights)) << tensor;
    }
  }
  // The folder has the model of its best checkpoint, and the loss that was told.
  const auto model = load_with_dense(to);
  EXPECT_TRUE(
      equal_bits(model->dense_tensors().at("2_Dense/linear.bias"), read_dense_tensors(to).at("2_Dense/linear.bias")));
  const Json last = last_line(to, "valid");
  const fs::path best = to / "checkpoints" / (last.at("best") == true ? "step-00000200" : "step-00000100");
  EXPECT_TRUE(equal_bits(read_dense_tensors(best).at("3_Dense/linear.weight"),
                         read_dense_tensors(to).at("3_Dense/linear.weight")));
}

TEST_F(DenseTrainings, ResumeEndsWithTheSameBits) {
  Recipe recipe = short_recipe(with_other_names());
  ASSERT_EQ(run(recipe, folder_ / "whole"), Outcome::finished);
  ASSERT_EQ(run_until(recipe, folder_ / "parts", 5), Outcome::interrupted);
  recipe.from = (folder_ / "gone").string();
  ASSERT_EQ(run(recipe, folder_ / "parts", true), Outcome::finished);
  for (const char* const file :
       {"model.safetensors", "above/first/model.safetensors", "above/second/model.safetensors",
        "checkpoints/step-00000008/modules.safetensors", "checkpoints/step-00000008/optimizer.safetensors"}) {
    EXPECT_TRUE(same_bytes(folder_ / "whole" / file, folder_ / "parts" / file));
  }
  // A checkpoint whose Dense modules are damaged or lost is none.
  const fs::path newest = folder_ / "parts/checkpoints/step-00000008";
  fs::remove(newest / "modules.safetensors");
  recipe.max_updates = 10;
  std::string said;
  const Callbacks callbacks{.message = [&](std::string_view text) { said += std::string(text) + "\n"; }};
  ASSERT_EQ(train(recipe, folder_ / "parts", true, callbacks), Outcome::finished);
  EXPECT_CONTAINS(said, "the newest checkpoint is damaged");
}

TEST_F(DenseTrainings, AnyNumberOfProcessesGivesTheSameBits) {
  Recipe recipe = short_recipe(family());
  recipe.shards = 4;
  recipe.compare_every = 1;
  recipe.average_last = 2;
  for (const int ranks : {1, 2, 3}) {
    ASSERT_EQ(train_on(ranks, recipe, folder_ / std::to_string(ranks), false), Outcome::finished);
  }
  expect_same(folder_ / "1", folder_ / "2");
  expect_same(folder_ / "1", folder_ / "3");
  EXPECT_TRUE(weights_in(folder_ / "1").contains("2_Dense/model.safetensors"));
}

void expect_mean(const Tensor& mean, const Tensor& a, const Tensor& b) {
  ASSERT_EQ(mean.shape(), a.shape());
  double moved = 0;
  for (int64_t i = 0; i < mean.numel(); ++i) {
    const auto x = static_cast<double>(a.data<float>()[i]), y = static_cast<double>(b.data<float>()[i]);
    EXPECT_EQ(mean.data<float>()[i], static_cast<float>((x + y) / 2));
    moved += std::abs(x - y);
  }
  EXPECT_GT(moved, 0);
}

TEST_F(DenseTrainings, MeansOfModelsHaveTheMeanOfTheirModules) {
  const fs::path from = with_other_names();
  Recipe recipe = short_recipe(from);
  recipe.average_last = 2;
  ASSERT_EQ(run(recipe, folder_ / "run"), Outcome::finished);
  const std::vector<fs::path> both = {folder_ / "run/checkpoints/step-00000004",
                                      folder_ / "run/checkpoints/step-00000008"};
  average_models(both, folder_ / "mean");
  const std::string name = "above/first/linear.weight";
  const Tensor mean = read_dense_tensors(folder_ / "mean").at(name);
  expect_mean(mean, read_dense_tensors(both[0]).at(name), read_dense_tensors(both[1]).at(name));
  EXPECT_TRUE(equal_bits(read_dense_tensors(folder_ / "run").at(name), mean));  // average_last
  for (const char* const file : {"modules.json", "sentence_bert_config.json", "tokenizer.json"}) {
    EXPECT_TRUE(same_bytes(folder_ / "run" / file, folder_ / "mean" / file));
  }
  EXPECT_TRUE(fs::exists(folder_ / "mean/pool/config.json"));
  EXPECT_EQ(read_layers(folder_ / "mean", 16).size(), 3U);
  for (const DType dtype : {DType::f16, DType::bf16}) {  // half precision is read as well
    const fs::path half = folder_ / (dtype == DType::f16 ? "f16" : "bf16");
    average_models(both, half, {.dtype = dtype});
    EXPECT_EQ(read_layers(half, 16).size(), 3U);
  }
  // Of folders, and with a module that only one of them has.
  average_models(std::vector<fs::path>{from, folder_ / "run"}, folder_ / "other");
  expect_mean(read_dense_tensors(folder_ / "other").at(name), read_dense_tensors(from).at(name), mean);
  fs::remove(folder_ / "run/modules.json");
  EXPECT_CONTAINS(message_of([&] {
                    average_models(std::vector<fs::path>{from, folder_ / "run"}, folder_ / "new");
                  }),
                  "parameters of");
}

TEST_F(DenseTrainings, ATrainingThatFailsTakesItsModulesBack) {
  Recipe recipe = short_recipe(with_other_names());
  recipe.schedule.peak = 1e30;
  EXPECT_CONTAINS(message_of([&] { (void)run(recipe, folder_ / "new/run"); }), "finite");
  EXPECT_FALSE(fs::exists(folder_ / "new"));
  // What was there before stays.
  fs::create_directories(folder_ / "used/above");
  write_text(folder_ / "used/above/config.json", "mine");
  EXPECT_CONTAINS(message_of([&] { (void)run(recipe, folder_ / "used"); }), "finite");
  EXPECT_EQ(read_text(folder_ / "used/above/config.json"), "mine");
  EXPECT_FALSE(fs::exists(folder_ / "used/pool"));
  EXPECT_FALSE(fs::exists(folder_ / "used/modules.json"));
}

TEST_F(DenseTrainings, WrongModulesAreRefused) {
  const auto error_with = [&](const char* key, const Json& value) {
    const fs::path from = family(), file = from / "3_Dense/config.json";
    const std::string before = read_text(file);
    Json config = Json::parse(before);
    config[key] = value;
    write_text(file, config.dump());
    const std::string message = message_of([&] { (void)run(recipe_for(from), folder_ / "new"); });
    write_text(file, before);
    EXPECT_FALSE(fs::exists(folder_ / "new"));
    return message;
  };
  EXPECT_CONTAINS(error_with("in_features", 13), "\"in_features\": 12, the size of what the module before gives");
  EXPECT_CONTAINS(error_with("activation_function", "torch.nn.modules.activation.Mish"), "\"activation_function\"");
  EXPECT_CONTAINS(error_with("bias", true), "linear.bias");
}

}  // namespace
}  // namespace heed::train
