// What the files of a folder of others may say: keys that change nothing, other spellings, tensors twice. The golden
// folders with a few changes, against what transformers computes with the same changes.
#include <gtest/gtest.h>

#include <cmath>

#include "base/data.h"
#include "base/message.h"
#include "base/scratch.h"
#include "formats/json.h"
#include "heed/io.h"
#include "heed/models.h"
#include "models/families/classifier.h"

namespace heed::models::test {
namespace {

using heed::test::test_data;
using heed::testing::message_of;

// a x + b.
Tensor scaled(const Tensor& x, float a, float b = 0) {
  const Tensor from = x.contiguous(), to = Tensor::empty(x.shape());
  for (int64_t i = 0; i < from.numel(); ++i) to.data<float>()[i] = a * from.data<float>()[i] + b;
  return to;
}

// The first row of i64 ids.
Tensor first_row(const Tensor& golden) {
  const Tensor ids = Tensor::empty({1, golden.size(1)}, DType::i32);
  for (int64_t l = 0; l < golden.size(1); ++l) ids.data<int32_t>()[l] = static_cast<int32_t>(golden.at({0, l}));
  return ids;
}

// A folder of tests/data/families that can be changed before it is read.
struct Changed {
  explicit Changed(const char* name)
      : config(io::parse_json(heed::test::contents_of(test_data("families") / name / "config.json")).value),
        weights(io::read_safetensors(test_data("families") / name / "model.safetensors").tensors),
        golden(io::read_safetensors(test_data("families") / name / "golden.safetensors").tensors) {}

  io::Json config;
  io::Tensors weights, golden;

  [[nodiscard]] std::unique_ptr<Model> read() const {
    (void)scratch_.file("config.json", config.dump());
    io::write_safetensors(scratch_ / "model.safetensors", weights, {{"format", "pt"}});
    return load(scratch_.path());
  }
  void add_file(const char* name, const std::string& text) const { (void)scratch_.file(name, text); }
  [[nodiscard]] std::string error() const {
    return message_of([&] { (void)read(); });
  }
  void rename(const std::string& from, const std::string& to) {
    weights[to] = weights.at(from);
    weights.erase(from);
  }

  // Of the first text, which has no padding.
  [[nodiscard]] Tensor logits() const { return logits_of(*read()); }
  [[nodiscard]] Tensor logits_of(const Model& model) const {
    const NoGradScope no_grad;
    const Tensor ids = first_row(golden.at("input_ids")), length = Tensor::empty({1}, DType::i32);
    length.data<int32_t>()[0] = static_cast<int32_t>(ids.size(1));
    if (const auto* const translator = dynamic_cast<const Transformer*>(&model))
      return translator->forward(ids, length, first_row(golden.at("decoder_input_ids"))).data();
    const Tensor types = golden.contains("token_type_ids") ? first_row(golden.at("token_type_ids")) : Tensor();
    const auto& encoder = dynamic_cast<const Bert&>(model);
    const bool is_bare = model.config().head == Head::none;  // then its states are its result
    return (is_bare ? encoder.encode(ids, length, types) : encoder.forward(ids, length, types)).data();
  }
  [[nodiscard]] Tensor golden_logits() const { return golden.at("logits").slice(0, 0, 1); }

 private:
  heed::test::Scratch scratch_;
};

double farthest(const Tensor& got, const Tensor& want) {
  EXPECT_EQ(got.shape(), want.shape());
  const Tensor a = got.contiguous(), b = want.contiguous();
  double most = 0;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double off = std::abs(static_cast<double>(a.data<float>()[i]) - static_cast<double>(b.data<float>()[i]));
    most = std::isnan(off) ? INFINITY : std::max(most, off);
  }
  return most;
}

// The last token's logits begin with these.
void expect_last(const Tensor& logits, const std::vector<double>& want) {
  for (size_t v = 0; v < want.size(); ++v) {
    EXPECT_NEAR(logits.at({0, logits.size(1) - 1, static_cast<int64_t>(v)}), want[v], 1e-4) << "token " << v;
  }
}

// Keys

TEST(FamilyFiles, MayHaveKeysOfOlderPrograms) {
  Changed bert("bert-masked");
  bert.config.update(io::parse_json(R"({"directionality": "bidi", "pooler_fc_size": 768, "pooler_type": "first_token",
      "pooler_num_attention_heads": 12, "pooler_num_fc_layers": 3, "pooler_size_per_head": 128, "name": "Bert",
      "emb_size": 768, "pre_trained": "", "training": "", "xla_device": true, "eos_token_ids": [0],
      "vocab_size_or_config_json_file": 30522, "save_step": 11, "replacing_rate": 0, "nothing": "",
      "author": "me", "license": "mit", "task": "x", "matryoshka_dimensions": [8], "model_max_length": 512,
      "max_seq_length": 256, "label_smoothing": 0.1, "unk_token_id": 100, "kobart_version": 2.0})")
                         .value);
  EXPECT_LT(farthest(bert.logits(), bert.golden_logits()), 1e-4);
  bert.config["embedding_size"] = bert.config["hidden_size"];  // MuRIL
  bert.config["pooling"] = "average";                          // Contriever
  bert.weights["fit_denses.0.bias"] = Tensor::zeros({3});      // TinyBERT
  EXPECT_LT(farthest(bert.logits(), bert.golden_logits()), 1e-4);
  bert.config["embedding_size"] = 128;
  EXPECT_CONTAINS(bert.error(), "\"embedding_size\": hidden_size; found 128");
  bert.config.erase("embedding_size");
  bert.config["pooling"] = "cls";
  EXPECT_CONTAINS(bert.error(), "\"pooling\": average; found \"cls\"");
  bert.config.erase("pooling");
  bert.config["pooling_size"] = 768;
  EXPECT_CONTAINS(bert.error(), "keys that heed understands; found \"pooling_size\": 768");
}

TEST(FamilyFiles, MayNameClassesByNumbers) {
  Changed bert("bert-classify");
  bert.config["id2label"] = io::parse_json(R"({"0": 0, "1": "one", "2": -2})").value;
  bert.config.erase("label2id");
  EXPECT_EQ(bert.read()->config().labels, (std::vector<std::string>{"0", "one", "-2"}));
  bert.config["id2label"]["1"] = 1.5;
  EXPECT_CONTAINS(bert.error(), "\"id2label\": a name for each number from 0");
}

TEST(FamilyFiles, MayBeThoseOfABareTranslator) {
  struct Bare {
    const char *name, *kind;
    std::vector<double> logits;
  };
  const std::vector<Bare> all = {{"bart", "BartModel", {5.264404, -5.816355, 5.031818, -1.111199}},
                                 {"mbart", "MBartModel", {-0.200328, -1.028464, -0.866939, 0.951069}},
                                 {"m2m100", "M2M100Model", {0.369962, -0.151303, 0.93309, 0.057375}},
                                 {"marian", "MarianModel", {0.575717, 0.098356, -0.609355, -0.459325}}};
  for (const Bare& bare : all) {
    SCOPED_TRACE(bare.name);
    Changed model(bare.name);
    model.config["architectures"] = io::Json::array({bare.kind});
    model.weights.erase("final_logits_bias");
    const io::Tensors named = model.weights;
    for (const auto& [name, tensor] : named) model.rename(name, name.substr(std::string("model.").size()));
    expect_last(model.logits(), bare.logits);
    model.config["architectures"] = io::Json::array({"BartForSequenceClassification"});
    const std::string family = std::string(bare.kind).substr(0, std::string(bare.kind).size() - 5);
    EXPECT_CONTAINS(model.error(), "\"architectures\": " + family + " followed by one of ");
  }
}

// sentence-transformers' folders: all-mpnet-base-v2, for example.
TEST(FamilyFiles, MayNameTheClassThatTheEncoderWasTrainedAs) {
  struct Trained {
    const char *name, *bare, *kind, *body;
    std::vector<std::string> heads;
  };
  const std::vector<Trained> all = {
      {"mpnet-masked", "MPNetModel", "MPNetForMaskedLM", "mpnet.", {"lm_head."}},
      {"roberta-masked", "RobertaModel", "RobertaForMaskedLM", "roberta.", {"lm_head."}},
      {"xlm-roberta-masked", "XLMRobertaModel", "XLMRobertaForMaskedLM", "roberta.", {"lm_head."}},
      {"bert-masked", "BertModel", "BertForPreTraining", "bert.", {"cls."}},
      {"distilbert-masked", "DistilBertModel", "DistilBertForMaskedLM", "distilbert.", {"vocab_"}},
      {"modernbert-masked", "ModernBertModel", "ModernBertForMaskedLM", "model.", {"head.", "decoder."}}};
  for (const Trained& trained : all) {
    SCOPED_TRACE(trained.name);
    Changed model(trained.name);
    const io::Tensors named = model.weights;
    for (const auto& [name, tensor] : named) {
      for (const std::string& head : trained.heads)
        if (name.starts_with(head)) model.weights.erase(name);
    }
    model.config["architectures"] = io::Json::array({trained.bare});
    const Tensor states = model.logits();
    model.config["architectures"] = io::Json::array({trained.kind});
    EXPECT_EQ(model.read()->config().head, Head::none);
    EXPECT_EQ(farthest(model.logits(), states), 0);
    std::string classifier = trained.bare;
    classifier.replace(classifier.size() - 5, 5, "ForTokenClassification");
    model.config["architectures"] = io::Json::array({classifier});
    EXPECT_EQ(farthest(model.logits(), states), 0);
    model.config["architectures"] = io::Json::array({"Contriever"});  // its author's own class
    EXPECT_EQ(farthest(model.logits(), states), 0);
    std::string unknown = trained.bare;  // of the family's name, and of no class that is known
    unknown.replace(unknown.size() - 5, 5, "ForCL");
    model.config["architectures"] = io::Json::array({unknown});
    EXPECT_EQ(farthest(model.logits(), states), 0);
    const io::Tensors bodies = model.weights;
    for (const auto& [name, tensor] : bodies) {
      if (name.starts_with(trained.body)) model.rename(name, name.substr(std::string(trained.body).size()));
    }
    model.config["architectures"] = io::Json::array({trained.kind});
    EXPECT_EQ(farthest(model.logits(), states), 0) << "names without " << trained.body;
    model.weights["classifier.weight"] = Tensor::zeros({2});  // what such a class computes with it nobody knows
    model.config["architectures"] = io::Json::array({"Contriever"});
    if (std::string(trained.name) != "modernbert-masked") {
      EXPECT_CONTAINS(model.error(), "\"architectures\": a class of this family, because the weights have a head");
    }
    model.config["architectures"] = io::Json::array({trained.kind});
    model.weights.erase("classifier.weight");
    model.weights["more"] = Tensor::zeros({2});
    EXPECT_CONTAINS(model.error(), "only tensors of this model; found");
  }
}

TEST(FamilyFiles, MayLeaveOutTheNameOfTheirClass) {
  for (const char* const name :
       {"bert-masked", "bert-answer", "roberta-masked", "distilbert-answer", "mpnet-masked", "modernbert-masked"}) {
    SCOPED_TRACE(name);
    Changed model(name);
    const Tensor named = model.logits();
    const bool answers = finds_answers(*model.read());
    model.config.erase("architectures");
    EXPECT_EQ(farthest(model.logits(), named), 0);
    EXPECT_EQ(finds_answers(*model.read()), answers);
  }
  Changed classes("bert-classify");
  classes.config.erase("architectures");
  EXPECT_CONTAINS(classes.error(), "\"architectures\": ForSequenceClassification or ForTokenClassification");
}

TEST(FamilyFiles, MayHaveHeadsOfOtherTrainings) {
  struct Beside {
    const char* name;
    std::vector<const char*> heads;
  };
  const std::vector<Beside> all = {{"bert-classify", {"cls.predictions.bias", "qa_outputs.weight"}},
                                   {"bert-tokens", {"cls.predictions.bias", "qa_outputs.weight"}},
                                   {"bert-masked", {"classifier.weight", "qa_outputs.bias"}},
                                   {"bert-answer", {"classifier.weight", "cls.predictions.decoder.bias"}},
                                   {"roberta-classify", {"lm_head.bias", "qa_outputs.weight"}},
                                   {"distilbert-masked", {"pre_classifier.bias", "classifier.bias"}},
                                   {"distilbert-answer", {"vocab_transform.bias", "classifier.bias"}}};
  for (const Beside& beside : all) {
    SCOPED_TRACE(beside.name);
    Changed model(beside.name);
    const Tensor alone = model.logits();
    for (const char* const head : beside.heads) model.weights[head] = Tensor::full({3}, 7.0f);
    EXPECT_EQ(farthest(model.logits(), alone), 0);
    model.weights["linear.weight"] = Tensor::zeros({3});
    EXPECT_CONTAINS(model.error(), "only tensors of this model; found \"linear.weight\"");
  }
}

TEST(FamilyFiles, MayBeTrainedToTellNextSentences) {
  Changed model("bert-model");
  const Tensor states = model.logits();
  model.config["architectures"] = io::Json::array({"BertForNextSentencePrediction"});
  model.weights["cls.seq_relationship.weight"] = Tensor::zeros({2, 16});
  model.weights["cls.seq_relationship.bias"] = Tensor::zeros({2});
  EXPECT_EQ(farthest(model.logits(), states), 0);
  model.config["architectures"] = io::Json::array({"BertForMultipleChoice"});
  model.weights["classifier.weight"] = Tensor::zeros({1, 16});
  EXPECT_CONTAINS(model.error(), "\"architectures\": Bert followed by one of ");
}

TEST(FamilyFiles, MayLeaveOutWhatTheirClassesHave) {
  Changed bart("bart");
  for (const char* const key : {"pad_token_id", "eos_token_id", "decoder_start_token_id"}) bart.config.erase(key);
  EXPECT_EQ(bart.read()->config().padding_id, 1);
  EXPECT_EQ(bart.read()->config().end_id, 2);
  bart.config["eos_token_id"] = io::Json::array({3});
  EXPECT_EQ(bart.read()->config().end_id, 3);
  EXPECT_EQ(bart.read()->config().begin_id, 2);  // whatever the end
  bart.config["eos_token_id"] = io::Json::array({2, 3});
  EXPECT_CONTAINS(bart.error(), "\"eos_token_id\": the id of one token; found [2,3]");

  Changed marian("marian");
  const Tensor small = marian.weights.at("model.shared.weight"), table = Tensor::zeros({58101, small.size(1)});
  marian.weights["model.shared.weight"] = table;
  marian.weights["final_logits_bias"] = Tensor::zeros({1, 58101});
  marian.config["vocab_size"] = marian.config["decoder_vocab_size"] = 58101;
  for (const char* const key : {"pad_token_id", "eos_token_id", "decoder_start_token_id"}) marian.config.erase(key);
  const Config config = marian.read()->config();
  EXPECT_EQ(config.padding_id, 58100);
  EXPECT_EQ(config.begin_id, 58100);
  EXPECT_EQ(config.end_id, 0);

  Changed mt5("mt5");
  for (const char* const key : {"feed_forward_proj", "dense_act_fn", "is_gated_act"}) mt5.config.erase(key);
  mt5.config["scale_decoder_outputs"] = true;  // of T5 alone
  EXPECT_LT(farthest(mt5.logits(), mt5.golden_logits()), 1e-4);
}

TEST(FamilyFiles, OfT5MayNameTheActivation) {
  Changed t5("t5"), gated("t5-v1.1");
  t5.config["dense_act_fn"] = "tanh";
  gated.config["dense_act_fn"] = "gelu";  // "gated-gelu" is the other one
  expect_last(t5.logits(), {-0.842562, -1.497762, 0.988383, -0.759071});
  expect_last(gated.logits(), {1.170737, 0.130314, -0.292373, -1.005177});
  t5.config["is_gated_act"] = true;
  EXPECT_CONTAINS(t5.error(), "\"is_gated_act\": as feed_forward_proj says; found true");
}

TEST(FamilyFiles, OfModernbertMayLeaveOutABase) {
  Changed model("modernbert-old-keys");  // its bases are 5000 and 300
  model.config.erase("local_rope_theta");
  expect_last(model.logits(), {-0.708349, -0.41348, -0.645512, 2.051731});
  model.config["local_rope_theta"] = nullptr;
  expect_last(model.logits(), {-0.705459, -0.416519, -0.648075, 2.055655});
  model.config["rope_parameters"] = io::parse_json(R"({"rope_type": "default", "rope_theta": 500.0})").value;
  EXPECT_CONTAINS(model.error(), "\"rope_parameters\": full_attention and sliding_attention only");
}

TEST(FamilyFiles, OfMpnetPadWithOne) {
  Changed model("mpnet-masked");
  model.config["pad_token_id"] = 0;
  EXPECT_CONTAINS(model.error(), "\"pad_token_id\": 1, which transformers takes for padding whatever the key says");
}

// Tensors that others are copies of, as a rule

struct Masked {
  const char *name, *bias, *decoder_bias, *decoder, *table;
};
const Masked kMaskedHeads[] = {
    {"bert-masked", "cls.predictions.bias", "cls.predictions.decoder.bias", "cls.predictions.decoder.weight",
     "bert.embeddings.word_embeddings.weight"},
    {"roberta-masked", "lm_head.bias", "lm_head.decoder.bias", "lm_head.decoder.weight",
     "roberta.embeddings.word_embeddings.weight"},
    {"mpnet-masked", "lm_head.bias", "lm_head.decoder.bias", "lm_head.decoder.weight",
     "mpnet.embeddings.word_embeddings.weight"},
    {"distilbert-masked", "vocab_projector.bias", nullptr, "vocab_projector.weight",
     "distilbert.embeddings.word_embeddings.weight"},
    {"modernbert-masked", "decoder.bias", nullptr, "decoder.weight", "model.embeddings.tok_embeddings.weight"}};

TEST(FamilyFiles, MayHaveABiasOfTheDecoder) {
  for (const Masked& head : kMaskedHeads) {
    if (head.decoder_bias == nullptr) continue;
    for (const bool tied : {true, false}) {
      SCOPED_TRACE(std::string(head.name) + (tied ? ", tied" : ", untied"));
      Changed model(head.name);
      model.config["tie_word_embeddings"] = tied;
      if (!tied) model.weights[head.decoder] = model.weights.at(head.table);
      model.weights[head.decoder_bias] = scaled(model.weights.at(head.bias), 1, 1);
      EXPECT_LT(farthest(model.logits(), scaled(model.golden_logits(), 1, 1)), 1e-4);
      // Written, it is the only one.
      const heed::test::Scratch saved;
      save(*model.read(), saved.path());
      EXPECT_FALSE(io::read_weights(saved.path()).tensors.contains(head.bias));
      EXPECT_LT(farthest(model.logits_of(*load(saved.path())), scaled(model.golden_logits(), 1, 1)), 1e-4);

      model.weights.erase(head.decoder_bias);
      model.rename(head.bias, head.decoder_bias);
      EXPECT_LT(farthest(model.logits(), model.golden_logits()), 1e-4);
    }
  }
}

TEST(FamilyFiles, MayHaveAnOutputOfTheirOwn) {
  for (const Masked& head : kMaskedHeads) {
    SCOPED_TRACE(head.name);
    Changed model(head.name);
    ASSERT_EQ(model.config["tie_word_embeddings"], true);
    model.weights[head.decoder] = model.weights.at(head.table);
    EXPECT_TRUE(model.read()->config().tie_output);
    model.weights[head.decoder] = scaled(model.weights.at(head.table), 2);
    const Tensor logits = model.logits(), golden = model.golden_logits(), want = Tensor::empty(golden.shape());
    for (int64_t l = 0; l < golden.size(1); ++l) {
      for (int64_t v = 0; v < golden.size(2); ++v) {
        want.data<float>()[l * golden.size(2) + v] =
            static_cast<float>(2 * golden.at({0, l, v}) - model.weights.at(head.bias).at({v}));
      }
    }
    EXPECT_LT(farthest(logits, want), 1e-4);
  }
}

// safetensors' save_model() writes a tensor with two names under the first one, in the order of the alphabet.
TEST(FamilyFiles, MayHaveATiedTableUnderTheOutputsNameAlone) {
  const struct {
    const char *folder, *table, *output;
  } cases[] = {{"bart", "model.shared.weight", "lm_head.weight"},
               {"marian", "model.shared.weight", "lm_head.weight"},
               {"nllb", "model.shared.weight", "lm_head.weight"},
               {"t5", "shared.weight", "lm_head.weight"},
               {"bert-masked", "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"},
               {"distilbert-masked", "distilbert.embeddings.word_embeddings.weight", "vocab_projector.weight"},
               {"roberta-masked", "roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"},
               {"mpnet-masked", "mpnet.embeddings.word_embeddings.weight", "lm_head.decoder.weight"},
               {"modernbert-masked", "model.embeddings.tok_embeddings.weight", "decoder.weight"}};
  for (const auto& [folder, table, output] : cases) {
    SCOPED_TRACE(folder);
    Changed changed(folder);
    changed.rename(table, output);
    EXPECT_LT(farthest(changed.logits(), changed.golden_logits()), 1e-4);
    changed.config["tie_word_embeddings"] = false;
    EXPECT_CONTAINS(changed.error(), "found none of that name");
  }
}

TEST(FamilyFiles, OfMarianMayHaveTheDecodersTableUnderTheOutputsNameAlone) {
  Changed marian("marian-apart");
  marian.config["tie_word_embeddings"] = true;
  marian.weights.erase("lm_head.weight");
  const Tensor expected = marian.logits();
  marian.rename("model.decoder.embed_tokens.weight", "lm_head.weight");
  EXPECT_EQ(farthest(marian.logits(), expected), 0);
}

TEST(FamilyFiles, OfMarianMayLeaveTheFirstTokenToAnotherFile) {
  Changed marian("marian");
  const int64_t padding = marian.config["pad_token_id"];
  marian.config.erase("decoder_start_token_id");
  EXPECT_EQ(marian.read()->config().begin_id, padding);  // 58100, that of OPUS-MT, is beyond these 61 rows
  EXPECT_LT(farthest(marian.logits(), marian.golden_logits()), 1e-4);
}

TEST(FamilyFiles, OfT5MayHaveAListOfOneEnd) {
  Changed t5("t5");
  const int64_t end = t5.config["eos_token_id"];
  t5.config["eos_token_id"] = {end};
  EXPECT_EQ(t5.read()->config().end_id, end);
}

TEST(FamilyFiles, MayHaveATableForEachSide) {
  struct Sides {
    const char* name;
    std::vector<double> logits;
  };
  // As transformers 5 computes; 4 does too, but for Marian, whose tables it never writes apart.
  const std::vector<Sides> all = {{"bart", {13.035309, -8.423224, 12.272292, 0.832165}},
                                  {"mbart", {-2.404868, -3.263394, 0.507889, 0.295738}},
                                  {"m2m100", {-0.101752, 0.000697, 0.639483, 0.638613}},
                                  {"marian", {3.553587, -0.126389, -2.381137, 2.009958}}};
  for (const Sides& sides : all) {
    SCOPED_TRACE(sides.name);
    Changed model(sides.name);
    const Tensor table = model.weights.at("model.shared.weight");
    model.weights["model.encoder.embed_tokens.weight"] = scaled(table, 0.5f);
    model.weights["model.decoder.embed_tokens.weight"] = scaled(table, -1);
    model.weights["lm_head.weight"] = scaled(table, 2);
    model.config["tie_word_embeddings"] = false;
    expect_last(model.logits(), sides.logits);
    const heed::test::Scratch saved;
    save(*model.read(), saved.path());
    expect_last(model.logits_of(*load(saved.path())), sides.logits);

    model.config["tie_word_embeddings"] = true;
    EXPECT_CONTAINS(model.error(),
                    "\"model.shared.weight\" and \"model.encoder.embed_tokens.weight\" with the same values where "
                    "\"tie_word_embeddings\" is true");
    model.weights["model.encoder.embed_tokens.weight"] = table;
    EXPECT_CONTAINS(model.error(), "\"model.shared.weight\" and \"model.decoder.embed_tokens.weight\" with the same");
    model.config["tie_word_embeddings"] = false;
    model.weights.erase("model.encoder.embed_tokens.weight");
    EXPECT_CONTAINS(model.error(), "found one of them");
  }
}

// transformers 5 reads each table of its own where nothing is tied, also one that is a copy: all are written back.
TEST(FamilyFiles, KeepCopiesOfTablesWhereNothingIsTied) {
  for (const char* const name : {"bart", "mbart", "m2m100", "marian"}) {
    SCOPED_TRACE(name);
    Changed model(name);
    model.config["tie_word_embeddings"] = false;
    const Tensor table = model.weights.at("model.shared.weight");
    model.weights.erase("lm_head.weight");
    EXPECT_CONTAINS(model.error(),
                    "\"tie_word_embeddings\": true, because there is no \"lm_head.weight\"; found false");
    for (const char* const copy :
         {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"})
      model.weights[copy] = table;
    EXPECT_LT(farthest(model.logits(), model.golden_logits()), 1e-4);
    const heed::test::Scratch saved;
    save(*model.read(), saved.path());
    const io::Tensors written = io::read_safetensors(saved / "model.safetensors").tensors;
    for (const char* const copy :
         {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"})
      EXPECT_TRUE(written.contains(copy)) << copy;
  }
}

TEST(FamilyFiles, OfModernbertHaveARateForEachPlace) {
  Changed model("modernbert-masked");
  model.config["embedding_dropout"] = 0.1;
  model.config["mlp_dropout"] = 0.2;
  model.config["attention_dropout"] = 0.3;
  const Config config = model.read()->config();
  EXPECT_EQ(std::tuple(config.dropout, config.activation_dropout, config.attention_dropout),
            std::tuple(0.1f, 0.2f, 0.3f));
}

// T5 drops states above the final norm as well: half of them are zero then. Other families do not.
TEST(FamilyFiles, OfT5DropStatesAboveTheFinalNorm) {
  const auto share_of_zeros = [](const char* name) {
    Changed model(name);
    for (const char* const key : {"dropout_rate", "dropout"})
      if (model.config.contains(key)) model.config[key] = 0.5;
    const TrainingScope training(3, 1);
    const Tensor states = model.logits().contiguous();
    const auto* const values = states.data<float>();
    return static_cast<double>(std::count(values, values + states.numel(), 0.0f)) / static_cast<double>(states.numel());
  };
  EXPECT_NEAR(share_of_zeros("t5-encoder"), 0.5, 0.15);
  EXPECT_NEAR(share_of_zeros("mt5-encoder"), 0.5, 0.15);
  EXPECT_EQ(share_of_zeros("modernbert-model"), 0);
}

TEST(FamilyFiles, OfT5HaveOneTable) {
  for (const char* const copy : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}) {
    Changed t5("t5");
    t5.weights[copy] = t5.weights.at("shared.weight");
    EXPECT_LT(farthest(t5.logits(), t5.golden_logits()), 1e-4);
    t5.weights[copy] = scaled(t5.weights.at("shared.weight"), 2);
    EXPECT_CONTAINS(t5.error(), "\"shared.weight\" and \"" + std::string(copy) + "\" with the same values");
  }
}

// MADLAD-400's files have the decoder's table, and an output of its own.
TEST(FamilyFiles, OfT5MayHaveTheTableOfTheDecoderAlone) {
  Changed t5("t5-v1.1");
  const Tensor table = t5.weights.at("shared.weight");
  t5.weights.erase("shared.weight");
  t5.weights.erase("encoder.embed_tokens.weight");
  t5.weights["decoder.embed_tokens.weight"] = table;
  EXPECT_LT(farthest(t5.logits(), t5.golden_logits()), 1e-4);
}

TEST(FamilyFiles, OfT5sEncoderMayHaveADecoderThatNobodyAsksFor) {
  Changed alone("t5-encoder");
  const Changed both("t5");
  const auto states_of = [&] {
    const auto model = alone.read();
    const Tensor ids = first_row(alone.golden.at("input_ids")), length = Tensor::empty({1}, DType::i32);
    length.data<int32_t>()[0] = static_cast<int32_t>(ids.size(1));
    return dynamic_cast<const Bert&>(*model).encode(ids, length).data();
  };
  for (const auto& [name, tensor] : both.weights) {
    if (name.starts_with("decoder.")) alone.weights[name] = tensor;
  }
  alone.weights["lm_head.weight"] = alone.weights["decoder.embed_tokens.weight"] =
      scaled(both.weights.at("shared.weight"), 2);
  const Tensor want = alone.golden.at("hidden_states.2").slice(0, 0, 1);
  EXPECT_LT(farthest(states_of(), want), 1e-4);
  for (const char* const key : {"decoder_start_token_id", "num_decoder_layers", "tie_word_embeddings"})
    alone.config.erase(key);
  EXPECT_LT(farthest(states_of(), want), 1e-4);
  alone.weights["encoder.embed_tokens.weight"] = scaled(both.weights.at("shared.weight"), 2);
  EXPECT_CONTAINS(alone.error(), "\"shared.weight\" and \"encoder.embed_tokens.weight\" with the same values");
  alone.config["architectures"] = {"T5ForTokenClassification"};
  EXPECT_CONTAINS(alone.error(), "EncoderModel");
}

// Where a file has both sides, sentence-transformers reads the encoder.
TEST(FamilyFiles, OfT5AreItsEncoderInAFolderOfSentenceTransformers) {
  const Changed t5("t5");
  t5.add_file("modules.json", "[]");
  EXPECT_EQ(t5.read()->config().architecture, Architecture::encoder_only);
  EXPECT_LT(farthest(t5.logits(), t5.golden.at("encoder_hidden_states.2").slice(0, 0, 1)), 1e-4);
  Changed bart("bart");  // with the names of a bare model, as T5 has them
  io::Tensors bare;
  for (const auto& [name, tensor] : bart.weights) bare[name.starts_with("model.") ? name.substr(6) : name] = tensor;
  bart.weights = bare;
  bart.add_file("modules.json", "[]");
  EXPECT_EQ(bart.read()->config().architecture, Architecture::encoder_decoder);
}

TEST(FamilyFiles, OfT5MayNameOtherClasses) {
  Changed alone("t5-encoder"), both("t5");
  alone.config["architectures"] = io::Json::array({"T5ForConditionalGeneration"});  // as sentence-transformers saves it
  EXPECT_EQ(alone.read()->config().architecture, Architecture::encoder_only);
  alone.config["architectures"] = io::Json::array({"InstructorModel"});  // its author's own
  EXPECT_EQ(alone.read()->config().architecture, Architecture::encoder_only);
  both.config["architectures"] = io::Json::array({"InstructorModel"});
  EXPECT_CONTAINS(both.error(), "key \"architectures\": T5 followed by one of");
  both.config["architectures"] = io::Json::array({"T5Model"});
  EXPECT_LT(farthest(both.logits(), both.golden_logits()), 1e-4);
  Changed untied("t5-v1.1");
  untied.config["architectures"] = io::Json::array({"T5Model"});
  untied.weights.erase("lm_head.weight");
  EXPECT_CONTAINS(untied.error(), "\"tie_word_embeddings\": true, because there is no \"lm_head.weight\"");
}

}  // namespace
}  // namespace heed::models::test
