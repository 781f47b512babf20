// heed's own translators and encoders in the layouts of others, loaded again as models of others: the same numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/data.h"
#include "base/message.h"
#include "base/scratch.h"
#include "heed/error.h"
#include "heed/io.h"
#include "heed/models.h"
#include "models/helpers.h"

namespace heed::models::test {
namespace {

using heed::test::contents_of;
using heed::test::Scratch;
using heed::testing::message_of;

Tensor some_ids(int64_t rows, int64_t length, int64_t vocabulary) {
  const Tensor ids = Tensor::empty({rows, length}, DType::i32);
  for (int64_t i = 0; i < ids.numel(); ++i)
    ids.data<int32_t>()[i] = static_cast<int32_t>(4 + (7 * i + i / 3) % (vocabulary - 4));
  return ids;
}

Tensor full_lengths(int64_t rows, int64_t length) {
  const Tensor lengths = Tensor::empty({rows}, DType::i32);
  for (int64_t b = 0; b < rows; ++b) lengths.data<int32_t>()[b] = static_cast<int32_t>(length);
  return lengths;
}

double apart(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  double most = 0;
  for (int64_t i = 0; i < a.numel(); ++i) {
    most = std::max(most,
                    std::abs(static_cast<double>(a.contiguous().data<float>()[i] - b.contiguous().data<float>()[i])));
  }
  return most;
}

// Biases and norms that are not those of a new model.
void stir(const Model& model) {
  nn::Initializer init(77);
  for (const auto& [path, value] : model.named_parameters()) {
    const Tensor noise = init.normal(value.shape(), 0.2f);
    const Tensor changed = value.data().clone();
    for (int64_t i = 0; i < changed.numel(); ++i) changed.data<float>()[i] += noise.data<float>()[i];
    value.set_data(changed);
  }
}

TEST(SaveHuggingface, ATranslatorIsAMarian) {
  for (const bool shared : {false, true}) {
    for (const bool tied : {true, false}) {
      Config config = small(Architecture::encoder_decoder);
      config.positions = Positions::sinusoidal;
      config.position_layout = nn::PositionLayout::interleaved;
      config.norm_placement = NormPlacement::post;
      config.final_norm = false;
      config.share_embeddings = shared;
      config.tie_output = tied;
      config.bias = shared == tied;
      config.key_value_heads = tied ? 1 : 0;
      if (shared) config.target_vocabulary = config.source_vocabulary;
      const Transformer model(config, 5);
      stir(model);
      const Scratch folder;
      save_huggingface(model, folder.path());
      const auto back = load(folder.path());
      ASSERT_NE(back->origin(), nullptr);
      // Where nothing is tied, transformers 5 reads a table for each side.
      const io::Tensors written = io::read_safetensors(folder / "model.safetensors").tensors;
      for (const char* const side : {"encoder", "decoder"})
        EXPECT_EQ(written.contains(std::string("model.") + side + ".embed_tokens.weight"), !shared || !tied) << side;
      const NoGradScope no_grad;
      const Tensor source = some_ids(2, 5, config.source_vocabulary), target = some_ids(2, 4, config.target_vocabulary);
      const Tensor lengths = full_lengths(2, 5);
      EXPECT_LT(apart(model.forward(source, lengths, target).data(),
                      dynamic_cast<const Transformer&>(*back).forward(source, lengths, target).data()),
                1e-4);
    }
  }
}

Config small_bert() {
  Config config = small(Architecture::encoder_only);
  config.positions = Positions::learned;
  config.norm_placement = NormPlacement::post;
  config.final_norm = false;
  config.scale_embedding = false;
  return config;
}

Config bert_with_head(Head head, std::vector<std::string> labels) {
  Config config = small_bert();
  config.head = head;
  config.labels = std::move(labels);
  config.output_bias = false;
  config.head_hidden = head != Head::token_class;
  config.head_activation = Activation::tanh;
  return config;
}

TEST(SaveHuggingface, AnEncoderIsABert) {
  Config score = bert_with_head(Head::text_class, {"LABEL_0"});
  score.scores = Scores::raw;
  Config scaled = small_bert();
  scaled.scale_embedding = true;
  scaled.positions = Positions::sinusoidal;
  scaled.bias = false;
  scaled.key_value_heads = 1;
  Config untied = small_bert();
  untied.tie_output = false;
  untied.output_bias = true;
  untied.first_position = 2;
  const std::vector<std::pair<std::string, Config>> cases = {
      {"BertForMaskedLM", small_bert()},
      {"BertForMaskedLM", scaled},
      {"BertForMaskedLM", untied},
      {"BertForSequenceClassification", bert_with_head(Head::text_class, {"no", "yes", "perhaps"})},
      {"BertForSequenceClassification", bert_with_head(Head::text_class, {"LABEL_0"})},
      {"BertForSequenceClassification", score},
      {"BertForTokenClassification", bert_with_head(Head::token_class, {"O", "B"})},
      {"BertForQuestionAnswering", bert_with_head(Head::token_class, {"start", "end"})},
      {"BertModel", bert_with_head(Head::none, {})},
  };
  for (const auto& [name, config] : cases) {
    SCOPED_TRACE(name);
    const Bert model(config, 6);
    stir(model);
    const Scratch folder;
    save_huggingface(model, folder.path());
    const auto json = nlohmann::json::parse(contents_of(folder / "config.json"));
    EXPECT_EQ(json["architectures"], nlohmann::json::array({name}));
    const auto loaded = load(folder.path());
    const auto& back = dynamic_cast<const Bert&>(*loaded);
    EXPECT_EQ(back.config().head, config.head);
    EXPECT_EQ(back.config().labels, config.labels);
    EXPECT_EQ(back.config().scores, config.scores);
    const NoGradScope no_grad;
    const Tensor ids = some_ids(2, 5, config.source_vocabulary), lengths = full_lengths(2, 5);
    const auto result = [&](const Bert& bert) {
      return (config.head == Head::none ? bert.pooled(ids, lengths) : bert.forward(ids, lengths)).data();
    };
    EXPECT_LT(apart(result(model), result(back)), 1e-5);
  }
}

// Where nothing is tied, transformers 5 reads the bias of the decoder and not the head's.
TEST(SaveHuggingface, AnUntiedHeadKeepsTheBiasOfItsDecoder) {
  Config config = small_bert();
  config.tie_output = false;
  config.output_bias = true;
  const Bert model(config, 6);
  stir(model);
  const Scratch folder;
  save_huggingface(model, folder / "first");
  save(*load(folder / "first"), folder / "second");
  const io::Tensors first = io::read_safetensors(folder / "first" / "model.safetensors").tensors,
                    second = io::read_safetensors(folder / "second" / "model.safetensors").tensors;
  const Tensor& bias = first.at("cls.predictions.bias");
  EXPECT_EQ(apart(bias, first.at("cls.predictions.decoder.bias")), 0);
  EXPECT_EQ(apart(bias, second.at("cls.predictions.decoder.bias")), 0);
  EXPECT_GT(apart(bias, Tensor::zeros(bias.shape())), 0);
}

TEST(SaveHuggingface, NamesWhatOthersCannotExpress) {
  const auto message = [](void (*change)(Config&), Architecture architecture) {
    Config config = small(architecture);
    change(config);
    const auto model = create(config);
    const Scratch folder;
    return message_of([&] { save_huggingface(*model, folder / "out"); });
  };
  EXPECT_NE(
      message([](Config& c) { c.norm = nn::NormKind::rms_norm; }, Architecture::encoder_decoder).find("layer_norm"),
      std::string::npos);
  EXPECT_NE(message([](Config& c) { c.norm_placement = NormPlacement::pre; }, Architecture::encoder_decoder)
                .find("norm_placement post"),
            std::string::npos);
  const auto of_head = [&](void (*change)(Config&)) {
    Config config = bert_with_head(Head::text_class, {"a", "b"});
    change(config);
    const Scratch folder;
    return message_of([&] { save_huggingface(Bert(config, 1), folder / "out"); });
  };
  for (void (*const change)(Config&) :
       {+[](Config& c) { c.head_pooling = Pooling::mean; }, +[](Config& c) { c.head_hidden = false; },
        +[](Config& c) { c.head_activation = Activation::gelu; }, +[](Config& c) { c.head_norm = true; }}) {
    EXPECT_NE(of_head(change).find("through a layer with tanh"), std::string::npos);
  }
}

}  // namespace
}  // namespace heed::models::test
