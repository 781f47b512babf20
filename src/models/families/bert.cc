// BERT: Devlin et al. 2019. MiniLM, E5, BGE, GTE and most cross-encoders are BERTs.
#include <algorithm>

#include "heed/error.h"
#include "models/families/classifier.h"
#include "models/families/family.h"

namespace heed::models {
namespace {

constexpr Rename kBertBody[] = {
    {"encoder.embedding.tokens", "embeddings.word_embeddings"},
    {"encoder.embedding.positions", "embeddings.position_embeddings.weight"},
    {"encoder.embedding.types", "embeddings.token_type_embeddings.weight"},
    {"encoder.embedding.norm", "embeddings.LayerNorm"},
    {"encoder.layers.{}.self_attention.query", "encoder.layer.{}.attention.self.query"},
    {"encoder.layers.{}.self_attention.key", "encoder.layer.{}.attention.self.key"},
    {"encoder.layers.{}.self_attention.value", "encoder.layer.{}.attention.self.value"},
    {"encoder.layers.{}.self_attention.output", "encoder.layer.{}.attention.output.dense"},
    {"encoder.layers.{}.self_attention_norm", "encoder.layer.{}.attention.output.LayerNorm"},
    {"encoder.layers.{}.feed_forward.inner", "encoder.layer.{}.intermediate.dense"},
    {"encoder.layers.{}.feed_forward.outer", "encoder.layer.{}.output.dense"},
    {"encoder.layers.{}.feed_forward_norm", "encoder.layer.{}.output.LayerNorm"},
};
constexpr Rename kBertPooler[] = {{"head.dense", "pooler.dense"}};
constexpr Rename kBertMasked[] = {
    {"head.dense", "cls.predictions.transform.dense"},
    {"head.norm", "cls.predictions.transform.LayerNorm"},
    {"head.output.weight", "cls.predictions.decoder.weight"},
};
constexpr Rename kBertBias[] = {{"head.output.bias", "cls.predictions.bias"}};
constexpr Rename kBertDecoderBias[] = {{"head.output.bias", "cls.predictions.decoder.bias"}};
constexpr Rename kBertClassifier[] = {{"head.output", "classifier"}};
constexpr Rename kBertAnswer[] = {{"head.output", "qa_outputs"}};
constexpr HeadNames kBertHeads{.masked = "cls.predictions."};

}  // namespace

std::string_view prefix_in(const Weights& weights, std::string_view prefix) {
  const auto at = weights.lower_bound(std::string(prefix));
  return at != weights.end() && at->first.starts_with(prefix) ? prefix : std::string_view();
}

Config encoder_config(Keys& keys) {
  Config config;
  config.architecture = Architecture::encoder_only;
  config.source_vocabulary = keys.whole("vocab_size");
  config.encoder_layers = keys.whole("num_hidden_layers");
  config.width = keys.whole("hidden_size");
  config.feed_forward = keys.whole("intermediate_size");
  config.heads = keys.whole("num_attention_heads");
  config.scale_embedding = false;
  config.zero_padding = false;
  config.tie_output = keys.flag("tie_word_embeddings", true);
  config.output_bias = true;
  config.begin_id = config.end_id = config.unknown_id = -1;  // the tokenizer's business
  (void)keys.value("eos_token_id");
  return config;
}

std::span<const Rename> bert_body() { return kBertBody; }

Config bert_config(Keys& keys) {
  Config config = encoder_config(keys);
  config.activation = keys.activation("hidden_act", "gelu");
  config.norm_epsilon = keys.number("layer_norm_eps", 1e-12f);
  config.positions = Positions::learned;
  config.max_length = keys.whole("max_position_embeddings", 512);
  config.dropout = keys.number("hidden_dropout_prob", 0.1f);
  config.attention_dropout = keys.number("attention_probs_dropout_prob", 0.1f);
  config.padding_id = keys.whole("pad_token_id", 0);
  keys.expect("position_embedding_type", {std::string_view("absolute")});
  if (keys.whole("embedding_size", config.width) != config.width) keys.refuse("embedding_size", "hidden_size");
  keys.expect("pooling", {std::string_view("average")});  // Contriever's, whose vectors are means of the states
  keys.expect("is_decoder", false);
  keys.expect("add_cross_attention", false);
  if (!keys.value("pruned_heads").empty()) keys.refuse("pruned_heads", "none");
  return config;
}

namespace {

// What the numbers of several classes are, as in the pipeline of transformers.
Scores scores_of_classes(Keys& keys) {
  const std::string problem = keys.word("problem_type", "");
  for (const Scores scores : {Scores::raw, Scores::independent}) {
    if (problem == problem_type(scores)) return scores;
  }
  return Scores::probabilities;
}

// What a head's one number is. sentence-transformers writes the name of a class of torch.nn, and takes Sigmoid where
// there is none; transformers takes the number as it is where the problem is a regression.
Scores scores_of_one(Keys& keys) {
  std::string name = keys.word("sbert_ce_default_activation_function", "");
  if (const io::Json& newer = keys.value("sentence_transformers"); newer.is_object()) {
    Keys inner(newer, keys.where() + ", sentence_transformers");
    name = inner.word("activation_fn", name);
  }
  if (!name.starts_with("torch.")) name.clear();  // sentence-transformers imports no other
  if (name.empty()) return scores_of_classes(keys) == Scores::raw ? Scores::raw : Scores::probabilities;
  require(name.ends_with(".Identity") || name.ends_with(".Sigmoid"), "load", keys.where(),
          ": an activation of scores, Sigmoid or Identity of torch.nn; found \"", name, "\"");
  return name.ends_with(".Identity") ? Scores::raw : Scores::probabilities;
}

}  // namespace

bool is_tied(const Config& config, const Weights& weights, const std::string& output, const std::string& table) {
  return config.tie_output && !differs(weights, output, table);
}

bool has_decoder_bias(Keys& keys, const Weights& weights, const std::string& decoder, const std::string& head) {
  return differs(weights, decoder, head) || (!keys.flag("tie_word_embeddings", true) && weights.contains(decoder));
}

std::string encoder_class(Keys& keys, std::initializer_list<std::string_view> families,
                          std::initializer_list<std::string_view> known, const Weights& weights,
                          const HeadNames& heads) {
  const auto has = [&weights](std::string_view head) { return !prefix_in(weights, head).empty(); };
  const bool is_bare = !has(heads.masked) && std::ranges::none_of(heads.others, has);
  if (is_bare) return "Model";
  if (keys.value("architectures").is_null()) {
    if (has(heads.masked)) return "ForMaskedLM";
    if (has(kAnswerName)) return "ForQuestionAnswering";
    if (has(kClassifierName))
      keys.refuse("architectures",
                  "ForSequenceClassification or ForTokenClassification of the family, because the "
                  "weights have a head that tells classes");
  }
  const std::string name = keys.class_of(families, known, true);
  if (name.empty()) keys.refuse("architectures", "a class of this family, because the weights have a head");
  return name == "ForNextSentencePrediction" ? "Model" : name;
}

void ignore_other_heads(Design& design, const HeadNames& heads, std::string_view kind) {
  std::string_view used = kClassifierName;
  if (kind == "Model") used = {};
  if (kind == "ForMaskedLM" || kind == "ForPreTraining") used = heads.masked;
  if (kind == "ForQuestionAnswering") used = kAnswerName;
  if (heads.masked != used) design.unused.push_back(std::string(heads.masked) + '*');
  for (const std::string_view head : heads.others) {
    if (!head.empty() && head != used) design.unused.push_back(std::string(head) + '*');
  }
}

void set_head(Config& config, Keys& keys, std::string_view class_name) {
  if (class_name == "ForMaskedLM" || class_name == "ForPreTraining") return;
  config.head_hidden = false;
  config.tie_output = true;
  config.output_bias = false;
  if (class_name == "Model") {
    config.head = Head::none;
  } else if (class_name == "ForQuestionAnswering") {
    config.head = Head::token_class;
    config.labels = {"start", "end"};
  } else {
    config.head = class_name == "ForTokenClassification" ? Head::token_class : Head::text_class;
    config.labels = keys.labels();
    if (config.head == Head::text_class)
      config.scores = config.labels.size() == 1 ? scores_of_one(keys) : scores_of_classes(keys);
  }
}

Design read_bert(Keys& keys, const Weights& weights) {
  Design design{.config = bert_config(keys), .names = {}, .unused = {}};
  Config& config = design.config;
  config.token_types = keys.whole("type_vocab_size", 2);
  const std::string kind =
      encoder_class(keys, {"Bert"},
                    {"Model", "ForMaskedLM", "ForPreTraining", "ForNextSentencePrediction", "ForSequenceClassification",
                     "ForTokenClassification", "ForQuestionAnswering"},
                    weights, kBertHeads);
  const std::string_view prefix = prefix_in(weights, "bert.");
  config.tie_output = is_tied(config, weights, "cls.predictions.decoder.weight",
                              std::string(prefix) + "embeddings.word_embeddings.weight");
  set_head(config, keys, kind);
  const bool has_pooler = weights.contains(std::string(prefix) + "pooler.dense.weight");
  if (kind == "ForSequenceClassification" || (kind == "Model" && has_pooler)) {
    config.head_hidden = true;
    config.head_activation = Activation::tanh;
  }
  design.names = {{prefix, kBertBody}};
  // Of models that heed has trained, whose tokenizers have no token for it. Others find it in their tokenizer.
  const int64_t mask = keys.whole("mask_token_id", -1);
  if (mask >= 0 && mask < config.source_vocabulary) config.mask_id = mask;
  if (config.head == Head::masked_token) {
    design.names.push_back({"", kBertMasked});
  } else {
    if (config.head_hidden) design.names.push_back({prefix, kBertPooler});
    design.names.push_back({"", kind == "ForQuestionAnswering" ? std::span<const Rename>(kBertAnswer)
                                                               : std::span<const Rename>(kBertClassifier)});
  }
  ignore_other_heads(design, kBertHeads, kind);
  const std::string body(prefix);
  design.unused.insert(design.unused.end(),
                       {body + "embeddings.position_ids", body + "embeddings.token_type_ids", "cls.seq_relationship.*",
                        "fit_denses.*"});  // TinyBERT learned from a wider model through them
  if (config.head == Head::masked_token) {
    const bool of_decoder = has_decoder_bias(keys, weights, "cls.predictions.decoder.bias", "cls.predictions.bias");
    design.names.push_back(
        {"", of_decoder ? std::span<const Rename>(kBertDecoderBias) : std::span<const Rename>(kBertBias)});
    design.unused.emplace_back(of_decoder ? "cls.predictions.bias" : "cls.predictions.decoder.bias");
    if (config.tie_output) design.unused.emplace_back("cls.predictions.decoder.weight");
  }
  if (!config.head_hidden || config.head == Head::masked_token) design.unused.push_back(body + "pooler.*");
  return design;
}

}  // namespace heed::models
