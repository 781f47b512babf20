// Config: what fits together, and the presets.
#include <algorithm>
#include <cmath>

#include "heed/error.h"
#include "heed/models.h"

namespace heed::models {
namespace {

// Far beyond any real model, and small enough that the parameters of a model can be counted in 63 bits.
constexpr int64_t kMostTokens = int64_t{1} << 30;
constexpr int64_t kWidest = int64_t{1} << 20;
constexpr int64_t kMostHeads = 4096;  // and layers, and the largest head

void check_size(std::string_view field, int64_t value, int64_t least, int64_t most) {
  require(value >= least && value <= most, "Config", field, " from ", least, " to ", most, "; found ", value);
}

void check_rate(std::string_view field, float value) {
  require(value >= 0 && value < 1, "Config", field, " in [0, 1); found ", value);
}

void check_id(std::string_view field, int64_t id, int64_t least, int64_t vocabulary) {
  require(id >= least && id < vocabulary, "Config", field, " from ", least, " and below the vocabulary of ", vocabulary,
          "; found ", id);
}

Config sized(int64_t layers, int64_t width, int64_t feed_forward, int64_t heads, float dropout) {
  Config config;
  config.encoder_layers = layers;
  config.decoder_layers = layers;
  config.width = width;
  config.feed_forward = feed_forward;
  config.heads = heads;
  config.dropout = dropout;
  return config;
}

Config sized(std::string_view name) {
  if (name == "tiny") return sized(4, 128, 256, 4, 0.1f);
  if (name == "small") return sized(3, 256, 1024, 8, 0.1f);
  if (name == "base") return sized(6, 512, 2048, 8, 0.1f);
  if (name == "big") return sized(6, 1024, 4096, 16, 0.3f);
  fail("preset", "tiny, small, base or big; found \"", name, "\"");
}

}  // namespace

std::string_view to_string(Architecture architecture) {
  switch (architecture) {
    case Architecture::encoder_decoder: return "encoder_decoder";
    case Architecture::decoder_only: return "decoder_only";
    case Architecture::encoder_only: return "encoder_only";
  }
  return "unknown";
}

void Config::validate() const {
  const bool has_source = architecture != Architecture::decoder_only;
  const bool has_target = architecture != Architecture::encoder_only;
  if (has_source) check_size("source_vocabulary", source_vocabulary, 1, kMostTokens);
  if (has_target) check_size("target_vocabulary", target_vocabulary, 1, kMostTokens);
  if (has_source) check_size("encoder_layers", encoder_layers, 0, kMostHeads);
  if (has_target) check_size("decoder_layers", decoder_layers, 0, kMostHeads);
  check_size("width", width, 1, kWidest);
  check_size("feed_forward", feed_forward, 1, 16 * kWidest);
  check_size("heads", heads, 1, kMostHeads);
  check_size("key_value_heads", key_value_heads, 0, heads);
  check_size("head_size", head_size, 0, kMostHeads);
  check_size("value_size", value_size, 0, kMostHeads);
  check_size("max_length", max_length, 1, kMostTokens);
  check_size("first_position", first_position, 0, kMostTokens);
  require(head_size > 0 || width % heads == 0, "Config", "width as a multiple of heads, or a head_size; found width ",
          width, " and heads ", heads);
  require(key_value_heads == 0 || heads % key_value_heads == 0, "Config",
          "heads as a multiple of key_value_heads; found ", heads, " and ", key_value_heads);
  require(positions != Positions::sinusoidal || width % 2 == 0, "Config",
          "an even width for sinusoidal positions; found ", width);
  require(positions != Positions::rotary || (head_size > 0 ? head_size : width / heads) % 2 == 0, "Config",
          "an even head_size for rotary positions; found ", head_size > 0 ? head_size : width / heads);
  // Without a causal mask, distances would depend on the padding: the offset of attention() is the sequence's own.
  require(positions != Positions::alibi || architecture == Architecture::decoder_only, "Config",
          "architecture decoder_only where positions are alibi; found ", architecture);
  check_size("token_types", token_types, 0, kMostTokens);
  check_size("relative_distance", relative_distance, 1, kWidest);
  // Half of the buckets are for each side, and half of those are one distance each.
  require(
      relative_buckets == 0 || (relative_buckets >= 4 && relative_buckets % 2 == 0 && relative_buckets <= kMostHeads),
      "Config", "relative_buckets 0, or even and from 4 to ", kMostHeads, "; found ", relative_buckets);
  require(relative_buckets == 0 || relative_distance > relative_buckets / 2, "Config",
          "relative_distance above half of relative_buckets, ", relative_buckets / 2, "; found ", relative_distance);
  check_size("window", window, 0, kMostTokens);
  check_size("global_every", global_every, 1, kMostHeads);
  require(window == 0 || architecture == Architecture::encoder_only, "Config",
          "a window only in an encoder_only model; found one in ", architecture);
  require(global_every == 1 || window > 0, "Config", "global_every 1 where layers have no window; found ",
          global_every);
  constexpr float kUsualBase = 10000;
  require(positions == Positions::rotary || (rotary_base == kUsualBase && local_rotary_base == kUsualBase), "Config",
          "rotary_base and local_rotary_base only where positions are rotary; found ", rotary_base, " and ",
          local_rotary_base);
  require(rotary_base > 0 && std::isfinite(rotary_base) && local_rotary_base > 0 && std::isfinite(local_rotary_base),
          "Config", "rotary_base and local_rotary_base above 0; found ", rotary_base, " and ", local_rotary_base);
  require(attention_scale >= 0 && std::isfinite(attention_scale), "Config", "attention_scale of 0 or more; found ",
          attention_scale);
  require(output_scale > 0 && std::isfinite(output_scale), "Config", "output_scale above 0; found ", output_scale);
  const bool classifies = head == Head::text_class || head == Head::token_class;
  check_size("labels", static_cast<int64_t>(labels.size()), classifies ? 1 : 0, classifies ? kWidest : 0);
  require(scores == Scores::probabilities || head == Head::text_class, "Config",
          "scores other than probabilities only in a model that tells classes of texts; found another head");
  require(head == Head::masked_token || architecture == Architecture::encoder_only, "Config",
          "head masked_token except in an encoder_only model; found another in ", architecture);
  const bool has_head = head_norm || head_activation != Activation::none || head_pooling != Pooling::first;
  require(!has_head || architecture == Architecture::encoder_only, "Config",
          "head_norm, head_activation and head_pooling only in an encoder_only model; found one in ", architecture);
  require(norm_epsilon > 0 && std::isfinite(norm_epsilon), "Config", "norm_epsilon above 0; found ", norm_epsilon);
  check_rate("dropout", dropout);
  check_rate("attention_dropout", attention_dropout);
  check_rate("activation_dropout", activation_dropout);
  if (architecture == Architecture::encoder_decoder) {
    require(!share_embeddings || source_vocabulary == target_vocabulary, "Config",
            "source_vocabulary equal to target_vocabulary where embeddings are shared; found ", source_vocabulary,
            " and ", target_vocabulary);
  }
  const int64_t smallest = !has_target   ? source_vocabulary
                           : !has_source ? target_vocabulary
                                         : std::min(source_vocabulary, target_vocabulary);
  const int64_t least = architecture == Architecture::encoder_decoder ? 0 : -1;  // -1: no such token
  check_id("padding_id", padding_id, -1, smallest);
  check_id("begin_id", begin_id, least, has_target ? target_vocabulary : source_vocabulary);
  check_id("end_id", end_id, least, has_target ? target_vocabulary : source_vocabulary);
  check_id("unknown_id", unknown_id, -1, std::max(source_vocabulary, target_vocabulary));
  if (architecture == Architecture::encoder_only) check_id("mask_id", mask_id, -1, source_vocabulary);
}

Config preset(std::string_view name, Architecture architecture) {
  Config config = sized(name);
  config.architecture = architecture;
  if (architecture != Architecture::encoder_decoder) {  // as GPT-2 and BERT
    config.activation = Activation::gelu;
    config.positions = Positions::learned;
    config.scale_embedding = false;
  }
  if (architecture == Architecture::decoder_only) {
    config.norm_placement = NormPlacement::pre;
    config.final_norm = true;
  }
  if (architecture == Architecture::encoder_only) {
    config.norm_epsilon = 1e-12f;
    config.output_bias = true;
    config.attention_dropout = 0.1f;
  }
  return config;
}

}  // namespace heed::models
