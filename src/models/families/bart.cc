// BART: Lewis et al. 2020; mBART: Liu et al. 2020, which is pre-norm. Learned positions behind two unused rows, and a
// norm above the embeddings.
#include <cstring>

#include "models/families/family.h"

namespace heed::models {
namespace {

constexpr Rename kBartBody[] = {
    {"encoder.embedding.norm", "encoder.layernorm_embedding"},
    {"encoder.embedding.positions", "encoder.embed_positions.weight"},
    {"encoder.layers.{}.self_attention.query", "encoder.layers.{}.self_attn.q_proj"},
    {"encoder.layers.{}.self_attention.key", "encoder.layers.{}.self_attn.k_proj"},
    {"encoder.layers.{}.self_attention.value", "encoder.layers.{}.self_attn.v_proj"},
    {"encoder.layers.{}.self_attention.output", "encoder.layers.{}.self_attn.out_proj"},
    {"encoder.layers.{}.self_attention_norm", "encoder.layers.{}.self_attn_layer_norm"},
    {"encoder.layers.{}.feed_forward.inner", "encoder.layers.{}.fc1"},
    {"encoder.layers.{}.feed_forward.outer", "encoder.layers.{}.fc2"},
    {"encoder.layers.{}.feed_forward_norm", "encoder.layers.{}.final_layer_norm"},
    {"encoder.norm", "encoder.layer_norm"},
    {"decoder.embedding.norm", "decoder.layernorm_embedding"},
    {"decoder.embedding.positions", "decoder.embed_positions.weight"},
    {"decoder.layers.{}.self_attention.query", "decoder.layers.{}.self_attn.q_proj"},
    {"decoder.layers.{}.self_attention.key", "decoder.layers.{}.self_attn.k_proj"},
    {"decoder.layers.{}.self_attention.value", "decoder.layers.{}.self_attn.v_proj"},
    {"decoder.layers.{}.self_attention.output", "decoder.layers.{}.self_attn.out_proj"},
    {"decoder.layers.{}.self_attention_norm", "decoder.layers.{}.self_attn_layer_norm"},
    {"decoder.layers.{}.cross_attention.query", "decoder.layers.{}.encoder_attn.q_proj"},
    {"decoder.layers.{}.cross_attention.key", "decoder.layers.{}.encoder_attn.k_proj"},
    {"decoder.layers.{}.cross_attention.value", "decoder.layers.{}.encoder_attn.v_proj"},
    {"decoder.layers.{}.cross_attention.output", "decoder.layers.{}.encoder_attn.out_proj"},
    {"decoder.layers.{}.cross_attention_norm", "decoder.layers.{}.encoder_attn_layer_norm"},
    {"decoder.layers.{}.feed_forward.inner", "decoder.layers.{}.fc1"},
    {"decoder.layers.{}.feed_forward.outer", "decoder.layers.{}.fc2"},
    {"decoder.layers.{}.feed_forward_norm", "decoder.layers.{}.final_layer_norm"},
    {"decoder.norm", "decoder.layer_norm"},
};
constexpr Rename kBartShared[] = {{"encoder.embedding.tokens", "shared"}};
constexpr Rename kBartSharedOfEncoder[] = {{"encoder.embedding.tokens", "encoder.embed_tokens"}};
constexpr Rename kBartSharedOfDecoder[] = {{"encoder.embedding.tokens", "decoder.embed_tokens"}};
constexpr Rename kBartTwo[] = {{"encoder.embedding.tokens", "encoder.embed_tokens"},
                               {"decoder.embedding.tokens", "decoder.embed_tokens"}};
constexpr Rename kBartOutput[] = {{"output.weight", "lm_head.weight"}, {"output.bias", "final_logits_bias"}};

int64_t same_for_both(Keys& keys, const std::string& what) {
  const int64_t encoder = keys.whole("encoder_" + what), decoder = keys.whole("decoder_" + what);
  if (encoder != decoder) keys.refuse("decoder_" + what, "as the encoder has, " + std::to_string(encoder));
  return encoder;
}

}  // namespace

bool differs(const Weights& weights, const std::string& name, const std::string& other) {
  const auto a = weights.find(name), b = weights.find(other);
  if (a == weights.end()) return false;
  if (b == weights.end() || a->second.shape() != b->second.shape() || a->second.dtype() != b->second.dtype())
    return true;
  const Tensor x = a->second.contiguous(), y = b->second.contiguous();
  return x.numel() > 0 && std::memcmp(x.raw(), y.raw(), static_cast<size_t>(x.nbytes())) != 0;
}

Design bart_design(Keys& keys, const Weights& weights) {
  Config config;
  config.architecture = Architecture::encoder_decoder;
  config.source_vocabulary = keys.whole("vocab_size");
  config.target_vocabulary = keys.whole("decoder_vocab_size", config.source_vocabulary);
  config.encoder_layers = keys.whole("encoder_layers");
  config.decoder_layers = keys.whole("decoder_layers");
  (void)keys.value("num_hidden_layers");  // a copy of encoder_layers
  config.width = keys.whole("d_model");
  config.feed_forward = same_for_both(keys, "ffn_dim");
  config.heads = same_for_both(keys, "attention_heads");
  config.activation = keys.activation("activation_function", "gelu");
  config.norm_epsilon = 1e-5f;  // the families have no key for it
  config.max_length = keys.whole("max_position_embeddings", 1024);
  config.scale_embedding = keys.flag("scale_embedding", false);
  config.zero_padding = false;
  config.dropout = keys.number("dropout", 0.1f);
  config.attention_dropout = keys.number("attention_dropout", 0);
  config.activation_dropout = keys.number("activation_dropout", 0);
  config.padding_id = keys.whole("pad_token_id", 1);
  config.end_id = keys.whole("eos_token_id", 2);
  config.begin_id = keys.whole("decoder_start_token_id", config.end_id);
  config.unknown_id = -1;
  keys.expect("is_decoder", false);
  keys.expect("add_cross_attention", false);
  // What the fairseq models said about themselves; the family and its weights say it again.
  for (const char* const key :
       {"normalize_before", "normalize_embedding", "add_final_layer_norm", "static_position_embeddings",
        "extra_pos_embeddings", "add_bias_logits", "classif_dropout", "force_bos_token_to_be_generated"}) {
    (void)keys.value(key);
  }
  (void)keys.class_of({"Marian", "M2M100", "MBart", "Bart"}, {"MTModel", "ForConditionalGeneration"});

  const std::string prefix(prefix_in(weights, "model."));
  config.share_embeddings = keys.flag("share_encoder_decoder_embeddings", true);
  const bool tied = keys.flag("tie_word_embeddings", true);
  Design design{.config = config, .names = {}, .unused = {}};
  const std::string_view own = prefix.empty() ? "" : "model.";
  std::string table = prefix + "shared.weight";
  std::span<const Rename> names = kBartShared;
  if (!config.share_embeddings) {
    names = kBartTwo;
    table = prefix + "decoder.embed_tokens.weight";
  } else if (!weights.contains(table)) {
    const bool of_encoder = weights.contains(prefix + "encoder.embed_tokens.weight");
    names = of_encoder ? std::span<const Rename>(kBartSharedOfEncoder) : std::span<const Rename>(kBartSharedOfDecoder);
    table = prefix + (of_encoder ? "encoder" : "decoder") + ".embed_tokens.weight";
  }
  design.names = {{own, names}, {own, kBartBody}, {"", kBartOutput}};
  design.config.tie_output =
      (tied || !weights.contains("lm_head.weight")) && !differs(weights, "lm_head.weight", table);
  design.config.output_bias = weights.contains("final_logits_bias");
  if (config.share_embeddings) {
    for (const char* const copy : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}) {
      design.unused.push_back(prefix + copy);
    }
  }
  if (design.config.tie_output) design.unused.emplace_back("lm_head.weight");
  design.unused.push_back(prefix + "encoder.version");
  design.unused.push_back(prefix + "decoder.version");
  return design;
}

Design read_bart(Keys& keys, const Weights& weights) {
  Design design = bart_design(keys, weights);
  Config& config = design.config;
  config.positions = Positions::learned;
  config.first_position = 2;
  config.embedding_norm = true;
  if (keys.word("model_type", "bart") == "mbart") {
    config.norm_placement = NormPlacement::pre;
    config.final_norm = true;
  }
  return design;
}

}  // namespace heed::models
