// AddNorm: the "Add & Norm" box of the paper's figure 1, around any sublayer.
#pragma once

#include "heed/models.h"

namespace heed::models {

class AddNorm : public nn::Norm {
 public:
  explicit AddNorm(const Config& config)
      : nn::Norm(config.norm, config.width, config.norm_epsilon, config.bias),
        placement_(config.norm_placement),
        dropout_(config.dropout) {}

  // post: Norm(x + Dropout(sublayer(x))), as in the paper; pre: x + Dropout(sublayer(Norm(x))).
  template <class Sublayer>
  [[nodiscard]] Value operator()(const Value& x, Sublayer&& sublayer) const {
    if (placement_ == NormPlacement::post) return of_sum(sublayer(x), x, dropout_);
    return dropout_add(sublayer(nn::Norm::operator()(x)), x, dropout_);
  }

 private:
  NormPlacement placement_;
  float dropout_;
};

// The sizes of every attention of a model. `dropout` on the weights as configured.
[[nodiscard]] inline nn::MultiHeadAttentionOptions attention_options(const Config& config) {
  return {.width = config.width,
          .heads = config.heads,
          .key_value_heads = config.key_value_heads,
          .head_size = config.head_size,
          .value_size = config.value_size,
          .bias = config.bias,
          .attention_dropout = config.attention_dropout};
}

}  // namespace heed::models
