// T5: Raffel et al. 2020; its version 1.1, Flan-T5 and mT5; and their encoder alone, as sentence-t5 and GTR have it.
// RMS norms, no biases, no scale of the scores, positions as a bias by distance.
#include <cmath>

#include "heed/error.h"
#include "models/families/family.h"

namespace heed::models {
namespace {

constexpr Rename kT5Body[] = {
    {"encoder.distance_bias.table", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"},
    {"encoder.layers.{}.self_attention.query", "encoder.block.{}.layer.0.SelfAttention.q"},
    {"encoder.layers.{}.self_attention.key", "encoder.block.{}.layer.0.SelfAttention.k"},
    {"encoder.layers.{}.self_attention.value", "encoder.block.{}.layer.0.SelfAttention.v"},
    {"encoder.layers.{}.self_attention.output", "encoder.block.{}.layer.0.SelfAttention.o"},
    {"encoder.layers.{}.self_attention_norm", "encoder.block.{}.layer.0.layer_norm"},
    {"encoder.layers.{}.feed_forward.outer", "encoder.block.{}.layer.1.DenseReluDense.wo"},
    {"encoder.layers.{}.feed_forward_norm", "encoder.block.{}.layer.1.layer_norm"},
    {"encoder.norm", "encoder.final_layer_norm"},
    {"decoder.distance_bias.table", "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"},
    {"decoder.layers.{}.self_attention.query", "decoder.block.{}.layer.0.SelfAttention.q"},
    {"decoder.layers.{}.self_attention.key", "decoder.block.{}.layer.0.SelfAttention.k"},
    {"decoder.layers.{}.self_attention.value", "decoder.block.{}.layer.0.SelfAttention.v"},
    {"decoder.layers.{}.self_attention.output", "decoder.block.{}.layer.0.SelfAttention.o"},
    {"decoder.layers.{}.self_attention_norm", "decoder.block.{}.layer.0.layer_norm"},
    {"decoder.layers.{}.cross_attention.query", "decoder.block.{}.layer.1.EncDecAttention.q"},
    {"decoder.layers.{}.cross_attention.key", "decoder.block.{}.layer.1.EncDecAttention.k"},
    {"decoder.layers.{}.cross_attention.value", "decoder.block.{}.layer.1.EncDecAttention.v"},
    {"decoder.layers.{}.cross_attention.output", "decoder.block.{}.layer.1.EncDecAttention.o"},
    {"decoder.layers.{}.cross_attention_norm", "decoder.block.{}.layer.1.layer_norm"},
    {"decoder.layers.{}.feed_forward.outer", "decoder.block.{}.layer.2.DenseReluDense.wo"},
    {"decoder.layers.{}.feed_forward_norm", "decoder.block.{}.layer.2.layer_norm"},
    {"decoder.norm", "decoder.final_layer_norm"},
    {"output.weight", "lm_head.weight"},
};
constexpr Rename kT5Plain[] = {
    {"encoder.layers.{}.feed_forward.inner", "encoder.block.{}.layer.1.DenseReluDense.wi"},
    {"decoder.layers.{}.feed_forward.inner", "decoder.block.{}.layer.2.DenseReluDense.wi"},
};
constexpr Rename kT5Gated[] = {
    {"encoder.layers.{}.feed_forward.inner", "encoder.block.{}.layer.1.DenseReluDense.wi_0"},
    {"encoder.layers.{}.feed_forward.gate", "encoder.block.{}.layer.1.DenseReluDense.wi_1"},
    {"decoder.layers.{}.feed_forward.inner", "decoder.block.{}.layer.2.DenseReluDense.wi_0"},
    {"decoder.layers.{}.feed_forward.gate", "decoder.block.{}.layer.2.DenseReluDense.wi_1"},
};
constexpr Rename kT5Shared[] = {{"encoder.embedding.tokens", "shared"}};
constexpr Rename kT5SharedOfEncoder[] = {{"encoder.embedding.tokens", "encoder.embed_tokens"}};
constexpr Rename kT5SharedOfDecoder[] = {{"encoder.embedding.tokens", "decoder.embed_tokens"}};

bool is_mt5(Keys& keys) { return keys.word("model_type", "t5") == "mt5"; }

// "gated-gelu" is the tanh form, unlike "gelu". A file may name the activation by itself, which then counts.
void set_feed_forward(Config& config, Keys& keys, std::string_view usual) {
  const std::string words = keys.word("feed_forward_proj", usual);
  const std::string name = words.starts_with("gated-") ? words.substr(6) : words;
  config.gated = name != words;
  if (name == "relu") {
    config.activation = Activation::relu;
  } else if (name == "silu") {
    config.activation = Activation::silu;
  } else if (words == "gated-gelu" || name == "gelu_new") {
    config.activation = Activation::gelu_tanh;
  } else if (name == "gelu") {
    config.activation = Activation::gelu;
  } else {
    keys.refuse("feed_forward_proj", "relu, gelu, gelu_new or silu, or one of them behind \"gated-\"");
  }
  if (keys.has("dense_act_fn")) config.activation = keys.activation("dense_act_fn", "");
  if (keys.flag("is_gated_act", config.gated) != config.gated) keys.refuse("is_gated_act", "as feed_forward_proj says");
}

// The embeddings, which both sides share. MADLAD-400's files have the decoder's copy alone.
std::string one_table(const Weights& weights, bool has_decoder) {
  if (weights.contains(kSharedTable)) return kSharedTable;
  const bool of_decoder = has_decoder && !weights.contains(kEncoderTable) && weights.contains(kDecoderTable);
  return of_decoder ? kDecoderTable : kEncoderTable;
}

// transformers 4 reads `table` whatever its copy is, 5 reads the copy.
void check_copy(const Keys& keys, const Weights& weights, const std::string& table, const char* copy) {
  require(
      !differs(weights, copy, table), "load", keys.where(), ": \"", table, "\" and \"", copy,
      "\" with the same values, because versions of transformers differ on which one they read; found other values");
}

// What the encoder has alone and beside a decoder.
Config read_encoder(Keys& keys) {
  Config config;
  config.source_vocabulary = keys.whole("vocab_size");
  config.encoder_layers = keys.whole("num_layers");
  config.width = keys.whole("d_model");
  config.feed_forward = keys.whole("d_ff");
  config.heads = keys.whole("num_heads");
  config.head_size = keys.whole("d_kv");
  config.attention_scale = 1;
  config.norm_placement = NormPlacement::pre;
  config.norm = nn::NormKind::rms_norm;
  config.norm_epsilon = keys.number("layer_norm_epsilon", 1e-6f);
  config.final_norm = config.final_dropout = true;
  config.bias = false;
  config.positions = Positions::none;
  config.relative_buckets = keys.whole("relative_attention_num_buckets", 32);
  config.relative_distance = keys.whole("relative_attention_max_distance", 128);
  config.max_length = int64_t{1} << 20;  // distances have no end
  config.scale_embedding = false;
  config.zero_padding = false;
  config.dropout = config.attention_dropout = config.activation_dropout = keys.number("dropout_rate", 0.1f);
  config.padding_id = keys.whole("pad_token_id", 0);
  config.end_id = keys.token("eos_token_id", 1);
  config.unknown_id = -1;
  set_feed_forward(config, keys, is_mt5(keys) ? "gated-gelu" : "relu");
  keys.expect("is_decoder", false);
  keys.expect("add_cross_attention", false);
  (void)keys.value("n_positions");
  return config;
}

// Above `config`, that of the encoder. `table`: the file's name of the embeddings.
void add_decoder(Config& config, Keys& keys, const Weights& weights, const std::string& table) {
  check_copy(keys, weights, table, kDecoderTable);
  config.architecture = Architecture::encoder_decoder;
  config.target_vocabulary = config.source_vocabulary;
  config.decoder_layers = keys.whole("num_decoder_layers", config.encoder_layers);
  config.share_embeddings = true;
  config.begin_id = keys.whole("decoder_start_token_id", config.padding_id);
  const bool tied_in_file = keys.flag("tie_word_embeddings", true);
  const bool scaled = keys.flag("scale_decoder_outputs", tied_in_file);
  if (scaled && !is_mt5(keys)) config.output_scale = 1.0f / std::sqrt(static_cast<float>(config.width));
  config.tie_output = tied_in_file && !differs(weights, "lm_head.weight", table);
  if (!tied_in_file && !weights.contains("lm_head.weight"))
    keys.refuse("tie_word_embeddings", "true, because there is no \"lm_head.weight\"");
}

// The states of the encoder are the result: whatever the file says about a decoder does not count.
void leave_alone(Config& config, Keys& keys) {
  config.architecture = Architecture::encoder_only;
  config.head = Head::none;
  config.head_hidden = false;
  config.begin_id = -1;
  for (const char* const key :
       {"num_decoder_layers", "decoder_start_token_id", "tie_word_embeddings", "scale_decoder_outputs"}) {
    (void)keys.value(key);
  }
}

}  // namespace

Design read_t5(Keys& keys, const Weights& weights) {
  // sentence-transformers saves the encoder alone, of whatever class the model was, its author's own too.
  const bool has_decoder = !prefix_in(weights, "decoder.").empty();
  const std::string named = keys.class_of(
      {"T5", "MT5"}, {"ForConditionalGeneration", "WithLMHeadModel", "EncoderModel", "Model"}, !has_decoder);
  const std::string kind = has_decoder ? named : "EncoderModel";
  Config config = read_encoder(keys);
  const std::string table = one_table(weights, has_decoder && named != "EncoderModel");
  check_copy(keys, weights, table, kEncoderTable);
  if (kind == "EncoderModel") {
    leave_alone(config, keys);
  } else {
    add_decoder(config, keys, weights, table);
  }
  Design design{.config = config, .names = {}, .unused = {}};
  design.names = {{"", kT5Body},
                  {"", config.gated ? std::span<const Rename>(kT5Gated) : std::span<const Rename>(kT5Plain)},
                  {"", table == kSharedTable    ? std::span<const Rename>(kT5Shared)
                       : table == kEncoderTable ? std::span<const Rename>(kT5SharedOfEncoder)
                                                : std::span<const Rename>(kT5SharedOfDecoder)}};
  design.unused = {kEncoderTable, kDecoderTable,
                   "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"};
  if (kind == "EncoderModel") {
    design.unused.insert(design.unused.end(), {"decoder.*", "lm_head.weight"});
  } else if (config.tie_output) {
    design.unused.emplace_back("lm_head.weight");
  }
  return design;
}

}  // namespace heed::models
