// Config as JSON. The keys are the fields' names; enumerations are words. Fields that are absent keep their defaults.
#include <array>
#include <charconv>
#include <set>
#include <utility>

#include "formats/json.h"
#include "heed/error.h"
#include "heed/models.h"

namespace heed::models {
namespace {

using io::Json;

template <class E>
struct Word {
  std::string_view text;
  E value;
};

constexpr auto words(Architecture) {
  return std::array<Word<Architecture>, 3>{{{"encoder_decoder", Architecture::encoder_decoder},
                                            {"decoder_only", Architecture::decoder_only},
                                            {"encoder_only", Architecture::encoder_only}}};
}
constexpr auto words(NormPlacement) {
  return std::array<Word<NormPlacement>, 2>{{{"post", NormPlacement::post}, {"pre", NormPlacement::pre}}};
}
constexpr auto words(Positions) {
  return std::array<Word<Positions>, 5>{{{"sinusoidal", Positions::sinusoidal},
                                         {"learned", Positions::learned},
                                         {"alibi", Positions::alibi},
                                         {"rotary", Positions::rotary},
                                         {"none", Positions::none}}};
}
constexpr auto words(nn::NormKind) {
  return std::array<Word<nn::NormKind>, 2>{
      {{"layer_norm", nn::NormKind::layer_norm}, {"rms_norm", nn::NormKind::rms_norm}}};
}
constexpr auto words(nn::PositionLayout) {
  return std::array<Word<nn::PositionLayout>, 3>{{{"interleaved", nn::PositionLayout::interleaved},
                                                  {"halves", nn::PositionLayout::halves},
                                                  {"paper_halves", nn::PositionLayout::paper_halves}}};
}
constexpr auto words(Activation) {
  return std::array<Word<Activation>, 6>{{{"none", Activation::none},
                                          {"relu", Activation::relu},
                                          {"gelu", Activation::gelu},
                                          {"gelu_tanh", Activation::gelu_tanh},
                                          {"silu", Activation::silu},
                                          {"tanh", Activation::tanh}}};
}
constexpr auto words(Head) {
  return std::array<Word<Head>, 4>{{{"masked_token", Head::masked_token},
                                    {"text_class", Head::text_class},
                                    {"token_class", Head::token_class},
                                    {"none", Head::none}}};
}
constexpr auto words(Pooling) {
  return std::array<Word<Pooling>, 2>{{{"first", Pooling::first}, {"mean", Pooling::mean}}};
}
constexpr auto words(Scores) {
  return std::array<Word<Scores>, 3>{
      {{"probabilities", Scores::probabilities}, {"independent", Scores::independent}, {"raw", Scores::raw}}};
}

// The one list of fields: what is written, what may be read, and in which order; here those that are always written.
template <class AnyConfig, class Visit>
void for_each_common_field(AnyConfig& c, Visit&& visit) {
  visit("architecture", c.architecture);
  visit("source_vocabulary", c.source_vocabulary);
  visit("target_vocabulary", c.target_vocabulary);
  visit("encoder_layers", c.encoder_layers);
  visit("decoder_layers", c.decoder_layers);
  visit("width", c.width);
  visit("feed_forward", c.feed_forward);
  visit("heads", c.heads);
  visit("key_value_heads", c.key_value_heads);
  visit("head_size", c.head_size);
  visit("value_size", c.value_size);
  visit("activation", c.activation);
  visit("norm_placement", c.norm_placement);
  visit("norm", c.norm);
  visit("norm_epsilon", c.norm_epsilon);
  visit("final_norm", c.final_norm);
  visit("bias", c.bias);
  visit("positions", c.positions);
  visit("position_layout", c.position_layout);
  visit("first_position", c.first_position);
  visit("max_length", c.max_length);
  visit("scale_embedding", c.scale_embedding);
  visit("share_embeddings", c.share_embeddings);
  visit("tie_output", c.tie_output);
  visit("output_bias", c.output_bias);
  visit("dropout", c.dropout);
  visit("attention_dropout", c.attention_dropout);
  visit("activation_dropout", c.activation_dropout);
  visit("padding_id", c.padding_id);
  visit("begin_id", c.begin_id);
  visit("end_id", c.end_id);
  visit("unknown_id", c.unknown_id);
  visit("mask_id", c.mask_id);
}

// And those that are written where they differ from the defaults.
template <class AnyConfig, class Visit>
void for_each_rare_field(AnyConfig& c, Visit&& visit) {
  visit("zero_padding", c.zero_padding);
  visit("token_types", c.token_types);
  visit("embedding_norm", c.embedding_norm);
  visit("first_norm", c.first_norm);
  visit("final_dropout", c.final_dropout);
  visit("gated", c.gated);
  visit("attention_scale", c.attention_scale);
  visit("output_scale", c.output_scale);
  visit("relative_buckets", c.relative_buckets);
  visit("relative_distance", c.relative_distance);
  visit("rotary_base", c.rotary_base);
  visit("local_rotary_base", c.local_rotary_base);
  visit("window", c.window);
  visit("global_every", c.global_every);
  visit("head", c.head);
  visit("labels", c.labels);
  visit("head_hidden", c.head_hidden);
  visit("head_activation", c.head_activation);
  visit("head_norm", c.head_norm);
  visit("head_pooling", c.head_pooling);
  visit("scores", c.scores);
}

// A float as the shortest decimal that reads back as the same float: 0.1, not 0.10000000149011612.
Json written(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  double shortest = 0;
  std::from_chars(text, end, shortest);
  return shortest;
}
Json written(int64_t value) { return value; }
Json written(bool value) { return value; }
Json written(const std::vector<std::string>& value) { return value; }
template <class E>
requires std::is_enum_v<E> Json written(E value) {
  for (const auto& word : words(value)) {
    if (word.value == value) return std::string(word.text);
  }
  fail("to_json", "a word for every value; found number ", static_cast<int>(value));
}

constexpr const char* kReader = "config_from_json";

[[noreturn]] void refuse(const std::string& where, std::string_view key, std::string_view expected, const Json& found) {
  std::string text = io::json_ascii(found);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  fail(kReader, where, ": key \"", key, "\": ", expected, "; found ", text);
}

void read(const Json& from, const std::string& where, std::string_view key, int64_t& to) {
  const bool whole = from.is_number_unsigned() ? from.get<uint64_t>() <= uint64_t{INT64_MAX} : from.is_number_integer();
  if (!whole) refuse(where, key, "a whole number", from);
  to = from.get<int64_t>();
}
void read(const Json& from, const std::string& where, std::string_view key, float& to) {
  if (!from.is_number()) refuse(where, key, "a number", from);
  to = static_cast<float>(from.get<double>());
}
void read(const Json& from, const std::string& where, std::string_view key, bool& to) {
  if (!from.is_boolean()) refuse(where, key, "true or false", from);
  to = from.get<bool>();
}
void read(const Json& from, const std::string& where, std::string_view key, std::vector<std::string>& to) {
  if (!from.is_array()) refuse(where, key, "a list of names", from);
  to.clear();
  for (const Json& name : from) {
    if (!name.is_string()) refuse(where, key, "a list of names", name);
    to.push_back(name.get<std::string>());
  }
}
template <class E>
requires std::is_enum_v<E>
void read(const Json& from, const std::string& where, std::string_view key, E& to) {
  std::string expected = "one of";
  for (const auto& word : words(to)) {
    if (from.is_string() && from.get_ref<const std::string&>() == word.text) {
      to = word.value;
      return;
    }
    expected.append(" \"").append(word.text).append("\"");
  }
  refuse(where, key, expected, from);
}

}  // namespace

std::string to_json(const Config& config) {
  Json object = Json::object();
  for_each_common_field(config, [&](const char* key, const auto& value) { object[key] = written(value); });
  Json defaults = Json::object();
  const Config usual;
  for_each_rare_field(usual, [&](const char* key, const auto& value) { defaults[key] = written(value); });
  for_each_rare_field(config, [&](const char* key, const auto& value) {
    Json text = written(value);
    if (text != defaults[key]) object[key] = std::move(text);
  });
  return io::json_text(object, 2) + "\n";
}

Config config_from_json(std::string_view json, const std::string& where) {
  const io::ParsedJson parsed = io::parse_json(json);
  require(parsed.problem.empty(), kReader, where, ": ", parsed.problem);
  const Json& object = parsed.value;
  require(object.is_object(), kReader, where, ": a JSON object; found ", object.type_name());
  Config config;
  std::set<std::string> known;
  const auto take = [&](const char* key, auto& field) {
    known.insert(key);
    if (const auto at = object.find(key); at != object.end()) read(*at, where, key, field);
  };
  for_each_common_field(config, take);
  for_each_rare_field(config, take);
  for (const auto& [key, value] : object.items()) {
    require(known.contains(key), kReader, where, ": known keys",
            object.contains("architecture") ? "" : ", or a model_type, as Hugging Face writes it", "; found \"", key,
            "\"");
  }
  try {
    config.validate();
  } catch (const Error& error) {
    fail(kReader, where, ": ", error.what());
  }
  return config;
}

}  // namespace heed::models
