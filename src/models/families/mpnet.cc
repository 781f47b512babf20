// MPNet: Song et al. 2020. RoBERTa without token types, with a bias by distance that all layers share.
#include "models/families/family.h"

namespace heed::models {
namespace {

constexpr Rename kMpnetBody[] = {
    {"encoder.embedding.tokens", "embeddings.word_embeddings"},
    {"encoder.embedding.positions", "embeddings.position_embeddings.weight"},
    {"encoder.embedding.norm", "embeddings.LayerNorm"},
    {"encoder.distance_bias.table", "encoder.relative_attention_bias.weight"},
    {"encoder.layers.{}.self_attention.query", "encoder.layer.{}.attention.attn.q"},
    {"encoder.layers.{}.self_attention.key", "encoder.layer.{}.attention.attn.k"},
    {"encoder.layers.{}.self_attention.value", "encoder.layer.{}.attention.attn.v"},
    {"encoder.layers.{}.self_attention.output", "encoder.layer.{}.attention.attn.o"},
    {"encoder.layers.{}.self_attention_norm", "encoder.layer.{}.attention.LayerNorm"},
    {"encoder.layers.{}.feed_forward.inner", "encoder.layer.{}.intermediate.dense"},
    {"encoder.layers.{}.feed_forward.outer", "encoder.layer.{}.output.dense"},
    {"encoder.layers.{}.feed_forward_norm", "encoder.layer.{}.output.LayerNorm"},
};

}  // namespace

Design read_mpnet(Keys& keys, const Weights& weights) {
  Design design{.config = bert_config(keys), .names = {}, .unused = {}};
  Config& config = design.config;
  config.padding_id = keys.whole("pad_token_id", 1);
  if (config.padding_id != 1)
    keys.refuse("pad_token_id", "1, which transformers takes for padding whatever the key says");
  config.first_position = 2;  // whatever the padding's id
  config.max_length -= config.first_position;
  config.relative_buckets = keys.whole("relative_attention_num_buckets", 32);
  if (config.relative_buckets != 32) keys.refuse("relative_attention_num_buckets", "32");
  config.relative_distance = 128;
  const std::string kind = encoder_class(
      keys, {"MPNet"},
      {"Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"}, weights,
      kRobertaHeads);
  const std::string_view prefix = prefix_in(weights, "mpnet.");
  design.names = {{prefix, kMpnetBody}};
  set_roberta_head(design, keys, kind, prefix, weights);
  return design;
}

}  // namespace heed::models
