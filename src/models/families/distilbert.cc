// DistilBERT: Sanh et al. 2019. BERT without token types and pooler, in half as many layers.
#include "models/families/family.h"

namespace heed::models {
namespace {

constexpr Rename kDistilbertBody[] = {
    {"encoder.embedding.tokens", "embeddings.word_embeddings"},
    {"encoder.embedding.positions", "embeddings.position_embeddings.weight"},
    {"encoder.embedding.norm", "embeddings.LayerNorm"},
    {"encoder.layers.{}.self_attention.query", "transformer.layer.{}.attention.q_lin"},
    {"encoder.layers.{}.self_attention.key", "transformer.layer.{}.attention.k_lin"},
    {"encoder.layers.{}.self_attention.value", "transformer.layer.{}.attention.v_lin"},
    {"encoder.layers.{}.self_attention.output", "transformer.layer.{}.attention.out_lin"},
    {"encoder.layers.{}.self_attention_norm", "transformer.layer.{}.sa_layer_norm"},
    {"encoder.layers.{}.feed_forward.inner", "transformer.layer.{}.ffn.lin1"},
    {"encoder.layers.{}.feed_forward.outer", "transformer.layer.{}.ffn.lin2"},
    {"encoder.layers.{}.feed_forward_norm", "transformer.layer.{}.output_layer_norm"},
};
constexpr Rename kDistilbertMasked[] = {
    {"head.dense", "vocab_transform"},
    {"head.norm", "vocab_layer_norm"},
    {"head.output", "vocab_projector"},
};
constexpr Rename kDistilbertClassifier[] = {{"head.dense", "pre_classifier"}, {"head.output", "classifier"}};
constexpr Rename kDistilbertAnswer[] = {{"head.output", "qa_outputs"}};
constexpr HeadNames kDistilbertHeads{.masked = "vocab_", .others = {kClassifierName, kAnswerName, "pre_classifier."}};

}  // namespace

Design read_distilbert(Keys& keys, const Weights& weights) {
  Config config;
  config.architecture = Architecture::encoder_only;
  config.source_vocabulary = keys.whole("vocab_size");
  config.encoder_layers = keys.whole(keys.has("n_layers") ? "n_layers" : "num_hidden_layers");
  config.width = keys.whole(keys.has("dim") ? "dim" : "hidden_size");
  config.feed_forward = keys.whole("hidden_dim");
  config.heads = keys.whole(keys.has("n_heads") ? "n_heads" : "num_attention_heads");
  config.activation = keys.activation("activation", "gelu");
  config.norm_epsilon = 1e-12f;  // the family has no key for it
  config.positions = Positions::learned;
  config.max_length = keys.whole("max_position_embeddings", 512);
  (void)keys.flag("sinusoidal_pos_embds", false);  // the file has the table in any case
  config.scale_embedding = false;
  config.zero_padding = false;
  config.tie_output = keys.flag("tie_word_embeddings", true);
  config.output_bias = true;
  config.dropout = keys.number("dropout", 0.1f);
  config.attention_dropout = keys.number("attention_dropout", 0.1f);
  config.padding_id = keys.whole("pad_token_id", 0);
  config.begin_id = config.end_id = config.unknown_id = -1;
  (void)keys.flag("tie_weights_", true);  // of files from 2019; the weights say it again
  (void)keys.value("eos_token_id");
  if (!keys.value("pruned_heads").empty()) keys.refuse("pruned_heads", "none");
  const std::string kind = encoder_class(
      keys, {"DistilBert"},
      {"Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"}, weights,
      kDistilbertHeads);
  const std::string_view prefix = prefix_in(weights, "distilbert.");
  const bool tied =
      is_tied(config, weights, "vocab_projector.weight", std::string(prefix) + "embeddings.word_embeddings.weight");
  config.tie_output = tied;
  set_head(config, keys, kind);
  if (config.head == Head::text_class) {
    config.head_hidden = true;
    config.head_activation = Activation::relu;
  }
  Design design{.config = config, .names = {{prefix, kDistilbertBody}}, .unused = {}};
  if (config.head == Head::masked_token) {
    design.names.push_back({"", kDistilbertMasked});
    if (tied) design.unused.emplace_back("vocab_projector.weight");
  } else {
    design.names.push_back({"", kind == "ForQuestionAnswering" ? std::span<const Rename>(kDistilbertAnswer)
                                                               : std::span<const Rename>(kDistilbertClassifier)});
  }
  ignore_other_heads(design, kDistilbertHeads, kind);
  design.unused.push_back(std::string(prefix) + "embeddings.position_ids");
  return design;
}

}  // namespace heed::models
