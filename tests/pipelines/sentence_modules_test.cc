// Vectors of texts as sentence-transformers makes them: its own results, any batch, and wrong folders.
#include "pipelines/sentence_modules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "base/message.h"
#include "heed/error.h"
#include "pipelines/hugging_face.h"

namespace heed::pipelines {
namespace {

namespace fs = std::filesystem;
using heed::test::Golden;
using heed::test::Scratch;
using heed::test::test_data;
using heed::testing::message_of;

constexpr const char* kFolders[] = {"st-mean",     "st-cls-dense",        "st-lasttoken", "st-max-mean",
                                    "st-mean-old", "st-weightedmean-old", "st-no-prompt"};

// The prompt's tokens in front of each golden text.
int64_t prompt_of(const Golden& golden) {
  const auto length = golden.tensors.find("prompt_length");
  return length == golden.tensors.end() ? 0 : static_cast<int64_t>(length->second.at({0}));
}

struct SentenceModel {
  explicit SentenceModel(const fs::path& folder)
      : loaded(models::load(folder)),
        model(dynamic_cast<const models::Bert&>(*loaded)),
        modules(SentenceModules::load(folder, model.config().width)) {}
  std::unique_ptr<models::Model> loaded;
  const models::Bert& model;
  SentenceModules modules;
};

TEST(SentenceModules, GiveWhatSentenceTransformersGives) {
  double worst = 0;
  for (const char* const name : kFolders) {
    const SentenceModel m(test_data("families") / name);
    const Golden golden(name);
    const Tensor& want = golden.tensors.at("sentence_embedding");
    const int64_t prompt = prompt_of(golden);
    EXPECT_EQ(prompt == 0, m.modules.pools_prompts()) << name;
    const Tensor got = embed_sequences(m.model, m.modules, golden.sequences, 4096, {}, prompt);
    ASSERT_EQ(got.shape(), want.shape()) << name;
    EXPECT_EQ(m.modules.size(), want.size(1)) << name;
    for (int64_t b = 0; b < want.size(0); ++b) {
      // Nothing is left of a text that is no longer than the prompt. There sentence-transformers gives -inf as the
      // largest value; heed gives zeros.
      const bool empty = std::ssize(golden.sequences[static_cast<size_t>(b)].ids) <= prompt;
      for (int64_t e = 0; e < want.size(1); ++e) {
        const double off = std::abs(got.at({b, e}) - (empty ? 0 : want.at({b, e})));
        EXPECT_LT(off, 1e-5) << name << " row " << b << " column " << e;
        worst = std::max(worst, off);
      }
    }
  }
  RecordProperty("largest_deviation", std::to_string(worst));
}

// What modules.json can say and no golden folder says: against the formula, in double precision.
TEST(SentenceModules, OtherPoolingsAndActivations) {
  const Scratch scratch;
  fs::create_directories(scratch / "1_Pooling");
  fs::create_directories(scratch / "2_Dense");
  scratch.file("modules.json",
               R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}])");
  scratch.file(
      "1_Pooling/config.json",
      R"({"embedding_dimension": 2, "pooling_mode": ["mean_sqrt_len_tokens", "lasttoken", "cls", "weightedmean"],
          "word_embedding_dimension": 3, "pooling_mode_max_tokens": true})");  // the older names then say nothing
  // Columns 0 (mean by root), 3 (last), 4 (first) and 6 (weighted mean).
  std::vector<float> weight(4 * 8);
  weight[0] = weight[8 + 3] = weight[16 + 4] = weight[24 + 6] = 1;
  io::write_safetensors(scratch / "2_Dense/model.safetensors",
                        {{"linear.weight", Tensor::from(std::span<const float>(weight), {4, 8})}});
  const float numbers[] = {1, -2, 3, 4, 0.5f, 7, 9, 9, /* the second text */ -1, -3, 8, 8, 8, 8, 8, 8};
  const Tensor states = Tensor::from(std::span<const float>(numbers), {2, 4, 2});
  const int32_t counts[] = {3, 1};
  const Tensor lengths = Tensor::from(std::span<const int32_t>(counts), {2});
  const double rows[2][4] = {{4.5 / std::sqrt(3.0), 7, 1, 8.5 / 6}, {-1, -3, -1, -1}};
  const std::pair<const char*, double (*)(double)> activations[] = {
      {"torch.nn.modules.activation.Sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"torch.nn.modules.activation.ReLU", [](double x) { return std::max(x, 0.0); }},
      {"torch.nn.modules.activation.GELU", [](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); }},
      {"torch.nn.modules.activation.SiLU", [](double x) { return x / (1 + std::exp(-x)); }},
      {"torch.nn.modules.linear.Identity", [](double x) { return x; }},
      {"Identity", [](double x) { return std::tanh(x); }},  // sentence-transformers imports nothing but PyTorch's
  };
  for (const auto& [name, function] : activations) {
    scratch.file(
        "2_Dense/config.json",
        std::string(R"({"in_features": 8, "out_features": 4, "bias": false, "activation_function": ")") + name + "\"}");
    const Tensor got = SentenceModules::load(scratch.path(), 2)(states, lengths);
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t e = 0; e < 4; ++e) EXPECT_NEAR(got.at({b, e}), function(rows[b][e]), 1e-5) << name << b << e;
    }
  }
}

// Against the formula: what follows the prompt, whatever fills the rest, and nothing of a text that is no longer.
TEST(SentenceModules, LeavePromptsOut) {
  const float numbers[] = {9, 9, 1, -2, 3, 4, 7, 7, /* a prompt alone */ 8, 8, 6, 6, 6, 6, 6, 6};
  const int32_t counts[] = {3, 1};
  const Tensor states = Tensor::from(std::span<const float>(numbers), {2, 4, 2});
  const Tensor lengths = Tensor::from(std::span<const int32_t>(counts), {2});
  const SentenceModules means(2);
  const Tensor got = means(states, lengths, 1), all = means(states, lengths);
  const double want[] = {2, 1, 0, 0}, with_prompt[] = {13.0 / 3, 11.0 / 3, 8, 8};
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(got.at({i / 2, i % 2}), want[i], 1e-6) << i;
    EXPECT_NEAR(all.at({i / 2, i % 2}), with_prompt[i], 1e-6) << i;
  }
}

// Every text in thousands of batches of random neighbours.
TEST(SentenceModules, NoNeighbourChangesABit) {
  std::mt19937 random(7);
  for (const char* const name : kFolders) {
    const SentenceModel m(test_data("families") / name);
    std::vector<Sequence> texts;
    for (int64_t i = 0; i < 40; ++i) {
      Sequence text;
      for (int64_t l = 0; l < 1 + i % 21; ++l) {
        text.ids.push_back(static_cast<int32_t>(random() % 61));
        text.types.push_back(static_cast<int32_t>(random() % 2));
      }
      texts.push_back(text);
    }
    const int64_t size = m.modules.size(), prompt = m.modules.pools_prompts() ? 0 : 2;
    std::vector<Tensor> alone;
    for (const Sequence& text : texts) alone.push_back(embed_sequences(m.model, m.modules, {&text, 1}, 1, {}, prompt));
    for (int round = 0; round < 1429; ++round) {  // 10,003 batches of seven models
      std::vector<size_t> order(texts.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), random);
      order.resize(1 + random() % 12);
      std::vector<Sequence> some;
      for (const size_t i : order) some.push_back(texts[i]);
      const auto batch_tokens = 1 + static_cast<int64_t>(random() % 120);
      const Tensor got = embed_sequences(m.model, m.modules, some, batch_tokens, {}, prompt);
      for (size_t i = 0; i < order.size(); ++i) {
        ASSERT_EQ(std::memcmp(got.data<float>() + static_cast<int64_t>(i) * size, alone[order[i]].data<float>(),
                              static_cast<size_t>(size) * sizeof(float)),
                  0)
            << name << ", round " << round << ", text " << order[i];
      }
    }
  }
}

struct Wrong {
  const char* what;
  const char* file;
  const char* contents;
  const char* message;
};

TEST(SentenceModules, WrongFoldersAreErrorsWithFileAndKey) {
#define HEED_TRANSFORMER R"({"path": "", "type": "sentence_transformers.models.Transformer"})"
#define HEED_POOLING R"({"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"})"
  const Wrong cases[] = {
      {"no list", "modules.json", "{}", "modules.json: a list of modules; found object"},
      {"an empty list", "modules.json", "[]", "found an empty one"},
      {"no JSON", "modules.json", "[", "modules.json: "},
      {"no objects", "modules.json", "[1]", "modules.json, module 1: a JSON object"},
      {"one module", "modules.json", "[" HEED_TRANSFORMER "]", "found one module"},
      {"an unknown module", "modules.json",
       "[" HEED_TRANSFORMER "," HEED_POOLING R"(, {"path": "3_CNN", "type": "sentence_transformers.models.CNN"}])",
       "module 3: key \"type\": Transformer, Pooling, Dense or Normalize at its end; found "
       "\"sentence_transformers.models.CNN\""},
      {"a class of others", "modules.json", R"([{"path": "", "type": "other.Transformer"}])",
       "module 1: key \"type\": a class of sentence_transformers"},
      {"no Transformer first", "modules.json", "[" HEED_POOLING "," HEED_TRANSFORMER "]", "module 1: key \"type\""},
      {"two poolings", "modules.json", "[" HEED_TRANSFORMER "," HEED_POOLING "," HEED_POOLING "]",
       "module 3: key \"type\": one Pooling; found a second"},
      {"no folder", "modules.json", "[" HEED_TRANSFORMER R"(, {"type": "sentence_transformers.models.Pooling"}])",
       "module 2: key \"path\": the folder of the module; found none"},
      {"a folder above", "modules.json",
       "[" HEED_TRANSFORMER R"(, {"path": "../other", "type": "sentence_transformers.models.Pooling"}])",
       "module 2: key \"path\": a folder inside of the model's; found \"../other\""},
      {"a folder by way of another", "modules.json",
       "[" HEED_TRANSFORMER R"(, {"path": "1_Pooling/../../x", "type": "sentence_transformers.models.Pooling"}])",
       "key \"path\""},
      {"a folder elsewhere", "modules.json",
       "[" HEED_TRANSFORMER R"(, {"path": "/tmp", "type": "sentence_transformers.models.Pooling"}])", "key \"path\""},
      {"a folder that is not there", "modules.json",
       "[" HEED_TRANSFORMER R"(, {"path": "9_Pooling", "type": "sentence_transformers.models.Pooling"}])",
       "9_Pooling/config.json"},
      {"another width", "1_Pooling/config.json", R"({"embedding_dimension": 17, "pooling_mode": "mean"})",
       "1_Pooling/config.json: key \"embedding_dimension\": 16, the width of the model; found 17"},
      {"no width", "1_Pooling/config.json", R"({"pooling_mode": "mean"})", "key \"word_embedding_dimension\""},
      {"an unknown pooling", "1_Pooling/config.json", R"({"embedding_dimension": 16, "pooling_mode": "sum"})",
       "key \"pooling_mode\": cls, max,"},
      {"an unknown key", "1_Pooling/config.json", R"({"embedding_dimension": 16, "pooling_mode_sum": true})",
       "\"pooling_mode_sum\""},
      {"another size", "2_Dense/config.json", R"({"in_features": 15, "out_features": 12})",
       "2_Dense/config.json: key \"in_features\": 16"},
      {"an unknown activation", "2_Dense/config.json",
       R"({"in_features": 16, "out_features": 12, "activation_function": "torch.nn.modules.activation.SELU"})",
       "key \"activation_function\": Tanh, Identity, ReLU, GELU, SiLU or Sigmoid of torch.nn; found "
       "\"torch.nn.modules.activation.SELU\""},
      {"other weights", "2_Dense/config.json", R"({"in_features": 16, "out_features": 11})",
       "2_Dense: shape (11, 16) of tensor \"linear.weight\""},
      {"a bias too many", "2_Dense/config.json", R"({"in_features": 16, "out_features": 12, "bias": false})",
       "2_Dense: tensors linear.weight only"},
  };
  for (const Wrong& wrong : cases) {
    const Scratch scratch;
    fs::copy(test_data("families") / "st-cls-dense", scratch.path(),
             fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    scratch.file(wrong.file, wrong.contents);
    const std::string message = message_of([&] { (void)SentenceModules::load(scratch.path(), 16); });
    EXPECT_CONTAINS(message, wrong.message) << "\nfor " << wrong.what;
  }
}

}  // namespace
}  // namespace heed::pipelines
