// What the models that heed writes in the layouts of others have in common.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "heed/error.h"
#include "models/families/export.h"

namespace heed::models {
namespace {

using io::Json;

// Of a layer's linear maps, a head's dense layer, or a norm: what may have a bias beside it.
bool may_have_bias(const std::string& path) {
  const bool linear =
      path.ends_with(".weight") && (path.find("_attention.") != std::string::npos ||
                                    path.find(".feed_forward.") != std::string::npos || path == "head.dense.weight");
  return linear || path.ends_with(".gain");
}

}  // namespace

void need(bool condition, std::string_view family, std::string_view what) {
  const char* const article = family == "MPT" ? ", as an " : ", as a ";
  require(condition, kExporter, what, article, family, " has; found a model with something else");
}

void check_plain(const Config& c, std::string_view family) {
  need(c.norm == nn::NormKind::layer_norm, family, "layer_norm");
  need((c.head_size == 0 || c.head_size == c.width / c.heads) &&
           (c.value_size == 0 || c.value_size * c.heads == c.width),
       family, "heads of width / heads");
  need(!c.gated && c.relative_buckets == 0 && c.attention_scale == 0 && c.output_scale == 1, family,
       "none of gated, relative_buckets, attention_scale and output_scale");
}

const char* activation_word(Activation activation) {
  switch (activation) {
    case Activation::relu: return "relu";
    case Activation::gelu: return "gelu";
    case Activation::gelu_tanh: return "gelu_new";
    case Activation::silu: return "silu";
    case Activation::tanh: return "tanh";
    case Activation::none: break;
  }
  fail(kExporter, "an activation that transformers knows; found none");
}

Json common_config(const Config& c, const char* model_type, const char* class_name) {
  Json json = Json::object();
  json["architectures"] = Json::array({class_name});
  json["model_type"] = model_type;
  json["dtype"] = "float32";
  json["pad_token_id"] = c.padding_id;
  return json;
}

Tensor position_table(const Config& c, const io::Tensors& own, const std::string& path, std::string_view family) {
  if (c.positions == Positions::learned) {
    return own.at(path).slice(0, c.first_position, c.first_position + c.max_length).contiguous();
  }
  constexpr int64_t kMostPositions = int64_t{1} << 20;
  need(c.max_length <= kMostPositions, family, "a table of at most 1048576 positions (max_length)");
  if (c.positions == Positions::none) return Tensor::zeros({c.max_length, c.width});
  need(c.positions == Positions::sinusoidal, family, "positions that are learned, sinusoidal or none");
  return nn::sinusoidal_positions(c.max_length, c.width, c.position_layout, c.first_position);
}

void put_scale_into_table(Config& c, io::Tensors& own, const std::string& path, const std::string& output) {
  if (!c.scale_embedding) return;
  Tensor& table = own.at(path);
  if (c.tie_output && !output.empty()) own[output] = table;
  c.tie_output = c.tie_output && output.empty();
  table = table.clone();
  const float root = std::sqrt(static_cast<float>(c.width));
  for (int64_t i = 0; i < table.numel(); ++i) table.data<float>()[i] *= root;
  c.scale_embedding = false;
}

void put_zero_biases(io::Tensors& own) {
  io::Tensors zeros;
  for (const auto& [path, tensor] : own) {
    if (may_have_bias(path)) zeros[path.substr(0, path.rfind('.')) + ".bias"] = Tensor::zeros({tensor.size(0)});
  }
  own.merge(zeros);  // keeps what there is
}

void repeat_key_value_heads(Config& c, io::Tensors& own) {
  if (c.key_value_heads == 0 || c.key_value_heads == c.heads) return;
  const int64_t copies = c.heads / c.key_value_heads;
  for (auto& [path, tensor] : own) {
    if (path.find("attention.key.") == std::string::npos && path.find("attention.value.") == std::string::npos)
      continue;
    const Tensor from = tensor.contiguous();
    Shape shape = from.shape();
    shape[0] *= copies;
    const Tensor to = Tensor::empty(shape);
    const int64_t head = from.numel() / c.key_value_heads;  // numbers of one
    for (int64_t h = 0; h < c.heads; ++h) {
      std::memcpy(to.data<float>() + h * head, from.data<float>() + h / copies * head,
                  static_cast<size_t>(head) * sizeof(float));
    }
    tensor = to;
  }
  c.key_value_heads = 0;
}

}  // namespace heed::models
