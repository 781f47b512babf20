// BART: Lewis et al. 2020; mBART: Liu et al. 2020, which is pre-norm. Learned positions behind two unused rows, and a
// norm above the embeddings.
#include <cstring>

#include "heed/error.h"
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

// The model's own classes; a folder may name those of another family of the same design.
void check_class(Keys& keys, std::string_view family) {
  if (family == "marian") {
    (void)keys.class_of({"Marian", "Bart"}, {"MTModel", "ForConditionalGeneration", "Model"});
    return;
  }
  const std::string_view own = family == "m2m_100" ? "M2M100" : family == "mbart" ? "MBart" : "Bart";
  (void)keys.class_of({own, "M2M100", "MBart", "Bart"}, {"ForConditionalGeneration", "Model"});
}

// The first token of an output where the file names none (generation_config.json may). mBART's classes have none
// either; Marian's have the padding token of OPUS-MT.
int64_t usual_start(std::string_view family, const Config& config) {
  constexpr int64_t kOfMarian = 58100;
  if (family == "marian") return kOfMarian < config.target_vocabulary ? kOfMarian : config.padding_id;
  return family == "mbart" ? config.end_id : 2;
}

bool has_encoder_table(const Weights& weights, const std::string& prefix) {
  return weights.contains(prefix + kEncoderTable);
}

// The table that all parts of a model share.
std::string one_table(const Weights& weights, const std::string& prefix) {
  if (weights.contains(prefix + kSharedTable)) return prefix + kSharedTable;
  return prefix + (has_encoder_table(weights, prefix) ? kEncoderTable : kDecoderTable);
}

// Whether encoder and decoder have tables of their own although the family's models share one: transformers writes and
// reads them so where nothing is tied. Where it ties them its versions differ: 4 reads the shared one, 5 the file's.
bool has_two_tables(const Keys& keys, const Weights& weights, const std::string& prefix, bool tied) {
  const std::string table = one_table(weights, prefix), encoder = prefix + kEncoderTable,
                    decoder = prefix + kDecoderTable;
  // Copies, too, where nothing is tied: transformers 5 reads each of them.
  if (!tied && weights.contains(encoder) && weights.contains(decoder)) return true;
  const bool encoder_differs = differs(weights, encoder, table);
  if (!encoder_differs && !differs(weights, decoder, table)) return false;
  require(!tied, "load", keys.where(), ": \"", table, "\" and \"", encoder_differs ? encoder : decoder,
          "\" with the same values where \"tie_word_embeddings\" is true, because versions of transformers differ on "
          "which one they read; found other values");
  require(weights.contains(encoder) && weights.contains(decoder), "load", keys.where(), ": \"", encoder, "\" and \"",
          decoder, "\" where one of them has other values than \"", table, "\"; found one of them");
  return true;
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
  const std::string family = keys.word("model_type", "bart");
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
  config.padding_id = keys.whole("pad_token_id", family == "marian" ? 58100 : 1);
  config.end_id = keys.token("eos_token_id", family == "marian" ? 0 : 2);
  config.begin_id = keys.whole("decoder_start_token_id", usual_start(family, config));
  config.unknown_id = -1;
  keys.expect("is_decoder", false);
  keys.expect("add_cross_attention", false);
  // What the fairseq models said about themselves; the family and its weights say it again.
  for (const char* const key :
       {"normalize_before", "normalize_embedding", "add_final_layer_norm", "static_position_embeddings",
        "extra_pos_embeddings", "add_bias_logits", "classif_dropout", "force_bos_token_to_be_generated"}) {
    (void)keys.value(key);
  }
  check_class(keys, family);

  const std::string prefix(prefix_in(weights, "model."));
  const bool tied = keys.flag("tie_word_embeddings", true);
  config.share_embeddings =
      keys.flag("share_encoder_decoder_embeddings", true) && !has_two_tables(keys, weights, prefix, tied);
  Design design{.config = config, .names = {}, .unused = {}};
  const std::string_view own = prefix.empty() ? "" : "model.";
  const std::string table = config.share_embeddings ? one_table(weights, prefix) : prefix + kDecoderTable;
  std::span<const Rename> names = kBartShared;
  if (!config.share_embeddings) {
    names = kBartTwo;
  } else if (!weights.contains(prefix + kSharedTable)) {
    names = has_encoder_table(weights, prefix) ? std::span<const Rename>(kBartSharedOfEncoder)
                                               : std::span<const Rename>(kBartSharedOfDecoder);
  }
  design.names = {{own, names}, {own, kBartBody}, {"", kBartOutput}};
  if (!tied && !weights.contains("lm_head.weight"))
    keys.refuse("tie_word_embeddings", "true, because there is no \"lm_head.weight\"");
  design.config.tie_output = tied && !differs(weights, "lm_head.weight", table);
  design.config.output_bias = weights.contains("final_logits_bias");
  if (config.share_embeddings) {
    for (const char* const copy : {kEncoderTable, kDecoderTable}) design.unused.push_back(prefix + copy);
  } else {
    design.unused.push_back(prefix + kSharedTable);
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
