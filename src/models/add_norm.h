// AddNorm: the "Add & Norm" box of the paper's figure 1, around any sublayer.
#pragma once

#include <string_view>

#include "heed/models.h"
#include "nn/probing.h"

namespace heed::models {

class AddNorm : public nn::Norm {
 public:
  explicit AddNorm(const Config& config, bool normalises = true)
      : nn::Norm(normalises ? config.norm : nn::NormKind::none, config.width, config.norm_epsilon, config.bias),
        placement_(config.norm_placement),
        dropout_(config.dropout) {}

  // post: Norm(x + Dropout(sublayer(x))), as in the paper; pre: x + Dropout(sublayer(Norm(x))).
  template <class Sublayer>
  [[nodiscard]] Value operator()(const Value& x, Sublayer&& sublayer) const {
    const bool post = placement_ == NormPlacement::post;
    const Value added = post ? sublayer(x) : sublayer(nn::Norm::operator()(x));
    if (nn::Probe* const probe = nn::active_probe()) probe->on_added(sublayer_path(), added.data());
    return nn::probed_state(sublayer_path(), post ? of_sum(added, x, dropout_) : dropout_add(added, x, dropout_));
  }

 private:
  // "decoder.layers.2.feed_forward": the sublayer's own path is that of its norm, "..._norm", without the ending.
  [[nodiscard]] std::string_view sublayer_path() const {
    return std::string_view(path()).substr(0, path().rfind("_norm"));
  }

  NormPlacement placement_;
  float dropout_;
};

// What a layer has from its place in the stack.
struct LayerSetup {
  int64_t index = 0;
  ops::RotaryTables rotary = {};  // undefined where positions are not rotary
};

// The encoder layers that do not see all of a long text.
[[nodiscard]] inline bool has_window(const Config& config, int64_t layer) {
  return config.window > 0 && layer % config.global_every != 0;
}

[[nodiscard]] inline nn::FeedForwardOptions feed_forward_options(const Config& config) {
  return {.width = config.width,
          .inner = config.feed_forward,
          .activation = config.activation,
          .bias = config.bias,
          .gated = config.gated,
          .dropout = config.activation_dropout};
}

// Of attention to an encoder's output.
[[nodiscard]] inline nn::MultiHeadAttentionOptions attention_options(const Config& config) {
  return {.width = config.width,
          .heads = config.heads,
          .key_value_heads = config.key_value_heads,
          .head_size = config.head_size,
          .value_size = config.value_size,
          .bias = config.bias,
          .alibi = config.positions == Positions::alibi,
          .scale = config.attention_scale,
          .attention_dropout = config.attention_dropout};
}

// Of self-attention.
[[nodiscard]] inline nn::MultiHeadAttentionOptions attention_options(const Config& config, const LayerSetup& setup) {
  nn::MultiHeadAttentionOptions options = attention_options(config);
  if (has_window(config, setup.index)) options.window = config.window;
  options.rotary = setup.rotary;
  return options;
}

}  // namespace heed::models
