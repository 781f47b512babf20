// Names that other tools give to the same tensors.
#include <array>
#include <utility>

#include "heed/error.h"
#include "heed/models.h"

namespace heed::models {
namespace {

using Source = NameMapping::Source;

struct Rename {
  std::string_view ours, theirs;
};

// Of a whole stack, and of a layer: every path in a CTranslate2 file but those of the attentions.
constexpr std::array kStackNames = {
    Rename{"embedding.tokens.weight", "embeddings/weight"},
    Rename{"embedding.positions", "position_encodings/encodings"},
    Rename{"norm.gain", "layer_norm/gamma"},
    Rename{"norm.bias", "layer_norm/beta"},
};
constexpr std::array kLayerNames = {
    Rename{"self_attention_norm.gain", "self_attention/layer_norm/gamma"},
    Rename{"self_attention_norm.bias", "self_attention/layer_norm/beta"},
    Rename{"cross_attention_norm.gain", "attention/layer_norm/gamma"},
    Rename{"cross_attention_norm.bias", "attention/layer_norm/beta"},
    Rename{"feed_forward_norm.gain", "ffn/layer_norm/gamma"},
    Rename{"feed_forward_norm.bias", "ffn/layer_norm/beta"},
    Rename{"feed_forward.inner.weight", "ffn/linear_0/weight"},
    Rename{"feed_forward.inner.bias", "ffn/linear_0/bias"},
    Rename{"feed_forward.outer.weight", "ffn/linear_1/weight"},
    Rename{"feed_forward.outer.bias", "ffn/linear_1/bias"},
};

[[noreturn]] void refuse(const std::string& path) {
  fail("ctranslate2_names", "a parameter of an encoder-decoder; found \"", path, "\"");
}

// What stands before the first `separator`, which is taken off `text` with it.
std::string_view take_until(std::string_view& text, char separator, const std::string& path) {
  const size_t at = text.find(separator);
  if (at == std::string_view::npos) refuse(path);
  const std::string_view head = text.substr(0, at);
  text.remove_prefix(at + 1);
  return head;
}

// "query.weight" and the like. Self-attention: linear_0 holds query, key and value, one below the other, linear_1 the
// output. Cross-attention: linear_0 the query, linear_1 key and value, linear_2 the output.
Source attention_source(std::string_view rest, bool self, const Config& config, const std::string& path) {
  const int64_t head_size = config.head_size > 0 ? config.head_size : config.width / config.heads;
  const int64_t query_rows = config.heads * head_size;
  const int64_t key_rows = (config.key_value_heads > 0 ? config.key_value_heads : config.heads) * head_size;
  const std::string_view projection = take_until(rest, '.', path);
  const std::string kind = "/" + std::string(rest);
  if (projection == "query") return {.name = "linear_0" + kind};
  if (projection == "key") return {.name = (self ? "linear_0" : "linear_1") + kind, .first_row = self ? query_rows : 0};
  if (projection == "value") {
    return {.name = (self ? "linear_0" : "linear_1") + kind, .first_row = (self ? query_rows : 0) + key_rows};
  }
  if (projection == "output") return {.name = (self ? "linear_1" : "linear_2") + kind};
  refuse(path);
}

Source ctranslate2_source(const std::string& path, const Config& config) {
  std::string_view rest = path;
  const std::string stack(take_until(rest, '.', path));
  if (stack == "output") return {.name = "decoder/projection/" + std::string(rest)};
  if (stack != "encoder" && stack != "decoder") refuse(path);
  for (const auto& [ours, theirs] : kStackNames) {
    if (rest == ours) return {.name = stack + "/" + std::string(theirs)};
  }
  if (take_until(rest, '.', path) != "layers") refuse(path);
  const std::string layer = stack + "/layer_" + std::string(take_until(rest, '.', path)) + "/";
  for (const auto& [ours, theirs] : kLayerNames) {
    if (rest == ours) return {.name = layer + std::string(theirs)};
  }
  const std::string_view part = take_until(rest, '.', path);
  if (part != "self_attention" && part != "cross_attention") refuse(path);
  const bool self = part == "self_attention";
  Source source = attention_source(rest, self, config, path);
  source.name = layer + (self ? "self_attention/" : "attention/") + source.name;
  return source;
}

}  // namespace

NameMapping ctranslate2_names() { return {.find = ctranslate2_source}; }

}  // namespace heed::models
