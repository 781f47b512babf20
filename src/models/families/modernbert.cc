// ModernBERT: Warner et al. 2024. Pre-norm without biases, rotary positions, GeGLU; two of three layers see 64 tokens
// to each side.
#include "models/families/family.h"

namespace heed::models {
namespace {

constexpr Rename kModernbertBody[] = {
    {"encoder.embedding.tokens", "embeddings.tok_embeddings"},
    {"encoder.embedding.norm", "embeddings.norm"},
    {"encoder.layers.{}.self_attention.query", "layers.{}.attn.Wqkv", 0},
    {"encoder.layers.{}.self_attention.key", "layers.{}.attn.Wqkv", 1},
    {"encoder.layers.{}.self_attention.value", "layers.{}.attn.Wqkv", 2},
    {"encoder.layers.{}.self_attention.output", "layers.{}.attn.Wo"},
    {"encoder.layers.{}.self_attention_norm", "layers.{}.attn_norm"},
    {"encoder.layers.{}.feed_forward.inner", "layers.{}.mlp.Wi", 0},
    {"encoder.layers.{}.feed_forward.gate", "layers.{}.mlp.Wi", 1},
    {"encoder.layers.{}.feed_forward.outer", "layers.{}.mlp.Wo"},
    {"encoder.layers.{}.feed_forward_norm", "layers.{}.mlp_norm"},
    {"encoder.norm", "final_norm"},
};
constexpr Rename kModernbertMasked[] = {
    {"head.dense", "head.dense"}, {"head.norm", "head.norm"}, {"head.output", "decoder"}};
constexpr Rename kModernbertClassifier[] = {
    {"head.dense", "head.dense"}, {"head.norm", "head.norm"}, {"head.output", "classifier"}};

// Every how many layers one sees everything. Both spellings: a list with a word a layer, or the number.
int64_t global_every(Keys& keys, int64_t layers) {
  const int64_t every = keys.whole("global_attn_every_n_layers", 3);
  const io::Json& types = keys.value("layer_types");
  if (every < 1) keys.refuse("global_attn_every_n_layers", "1 or more");
  if (types.is_null()) return every;
  if (!types.is_array() || static_cast<int64_t>(types.size()) != layers) keys.refuse("layer_types", "a word a layer");
  int64_t found = layers;  // the second layer without a window, if there is one
  for (int64_t i = layers - 1; i > 0; --i) {
    if (types[static_cast<size_t>(i)] == "full_attention") found = i;
  }
  for (int64_t i = 0; i < layers; ++i) {
    if (types[static_cast<size_t>(i)] != (i % found == 0 ? "full_attention" : "sliding_attention")) {
      keys.refuse("layer_types",
                  "full_attention for the first layer and every n-th one, sliding_attention for the rest");
    }
  }
  return found;
}

// The base of the angles. Both spellings: nested by the kind of layer, or a key of its own.
float rotary_base(Keys& keys, const char* kind, const char* old_key, float usual) {
  const float old = keys.number(old_key, usual);
  const io::Json& all = keys.value("rope_parameters");
  for (const auto& [key, value] : all.items()) {
    if (key != "full_attention" && key != "sliding_attention")
      keys.refuse("rope_parameters", "full_attention and sliding_attention only");
  }
  if (!all.contains(kind)) return old;
  const io::Json& one = all[kind];
  if (!one.is_object() || one.value("rope_type", "default") != "default") {
    keys.refuse("rope_parameters", "rope_type default for every kind of layer");
  }
  for (const auto& [key, value] : one.items()) {
    if (key != "rope_type" && key != "rope_theta") keys.refuse("rope_parameters", "rope_type and rope_theta only");
    if (key == "rope_theta" && !value.is_number()) keys.refuse("rope_parameters", "a number as rope_theta");
  }
  return one.contains("rope_theta") ? static_cast<float>(one["rope_theta"].get<double>()) : old;
}

}  // namespace

Design read_modernbert(Keys& keys, const Weights& weights) {
  Config config = encoder_config(keys);
  config.activation = keys.activation("hidden_activation", "gelu");
  config.gated = true;
  config.norm_placement = NormPlacement::pre;
  config.norm_epsilon = keys.number("norm_eps", 1e-5f);
  config.final_norm = config.embedding_norm = true;
  config.first_norm = false;
  config.bias = keys.flag("attention_bias", false);  // one answer for all parts
  keys.expect("norm_bias", config.bias);
  keys.expect("mlp_bias", config.bias);
  const bool head_bias = keys.flag("classifier_bias", false);
  config.positions = Positions::rotary;
  config.max_length = keys.whole("max_position_embeddings", 8192);
  const int64_t local = keys.whole("local_attention", 128);
  if (local < 2) keys.refuse("local_attention", "2 or more");
  config.window = local / 2;
  config.global_every = global_every(keys, config.encoder_layers);
  config.rotary_base = rotary_base(keys, "full_attention", "global_rope_theta", 160000);
  // null is the other base, and a key that is not there 10,000.
  const bool one_base = keys.is_null("local_rope_theta") && !keys.has("rope_parameters");
  config.local_rotary_base =
      rotary_base(keys, "sliding_attention", "local_rope_theta", one_base ? config.rotary_base : 10000);
  config.output_bias = keys.flag("decoder_bias", true);
  config.dropout = keys.number("embedding_dropout", 0);
  config.activation_dropout = keys.number("mlp_dropout", 0);
  config.attention_dropout = keys.number("attention_dropout", 0);
  config.padding_id = keys.whole("pad_token_id", -1);
  keys.expect("position_embedding_type", {"rope", "sans_pos", "absolute"});  // the code reads none of them
  (void)keys.value("layer_norm_eps");                                        // likewise: norm_eps counts
  const std::string kind = encoder_class(
      keys, {"ModernBert"},
      {"Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"}, weights,
      HeadNames{.masked = "decoder.", .others = {"head."}});
  const std::string pooling = keys.word("classifier_pooling", "cls");
  if (pooling != "cls" && pooling != "mean") keys.refuse("classifier_pooling", "cls or mean");
  const Activation activation = keys.activation("classifier_activation", "gelu");
  const std::string_view prefix = prefix_in(weights, "model.");
  const bool tied =
                 is_tied(config, weights, "decoder.weight", std::string(prefix) + "embeddings.tok_embeddings.weight"),
             output_bias = config.output_bias;
  config.tie_output = tied;
  set_head(config, keys, kind);
  Design design{.config = config, .names = {{prefix, kModernbertBody}}, .unused = {}};
  if (config.head == Head::none) {
    design.unused = {"head.*", "decoder.*", "classifier.*"};
  } else {
    if (head_bias != config.bias) keys.refuse("classifier_bias", "as attention_bias");
    design.config.head_hidden = design.config.head_norm = true;
    design.config.head_activation = activation;
    design.config.head_pooling = pooling == "cls" ? Pooling::first : Pooling::mean;
    const bool masked = config.head == Head::masked_token;
    design.names.push_back(
        {"", masked ? std::span<const Rename>(kModernbertMasked) : std::span<const Rename>(kModernbertClassifier)});
    if (masked && tied) design.unused.emplace_back("decoder.weight");
    if (!masked || !output_bias) design.unused.emplace_back("decoder.*");
    if (masked) design.unused.emplace_back("classifier.*");
  }
  return design;
}

}  // namespace heed::models
