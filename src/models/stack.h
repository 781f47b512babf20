// Stack: an embedding, layers one on top of the other, and a norm above the last where the configuration wants one.
// With relative positions, all its layers share one bias by distance.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/add_norm.h"
#include "models/distance_bias.h"
#include "models/token_embedding.h"

namespace heed::models {

template <class Layer>
class Stack : public nn::Module {
 public:
  // What its self-attention sees: all, or what stands before.
  enum class Sees { all, before };

  Stack(const Config& config, int64_t vocabulary, int64_t layers, Sees sees, const TokenEmbedding* shared,
        nn::Initializer& init)
      : embedding_(config, vocabulary, shared, init) {
    add_module("embedding", embedding_);
    const bool rotary = config.positions == Positions::rotary;
    const int64_t head_size = config.head_size > 0 ? config.head_size : config.width / config.heads;
    const auto angles = [&](float base) {
      return rotary ? ops::rotary_tables(config.max_length, head_size, 0, static_cast<double>(base))
                    : ops::RotaryTables{};
    };
    const ops::RotaryTables global = angles(config.rotary_base);
    const ops::RotaryTables local = config.window > 0 ? angles(config.local_rotary_base) : global;
    for (int64_t i = 0; i < layers; ++i) {
      const LayerSetup setup{.index = i, .rotary = has_window(config, i) ? local : global};
      layers_.push_back(std::make_unique<Layer>(config, setup, init));
      add_module("layers." + std::to_string(i), *layers_.back());
    }
    if (config.relative_buckets > 0) {
      distance_bias_ = std::make_unique<DistanceBias>(config, sees == Sees::all, init);
      add_module("distance_bias", *distance_bias_);
    }
    if (config.final_norm) {
      norm_ = std::make_unique<nn::Norm>(config.norm, config.width, config.norm_epsilon, config.bias);
      add_module("norm", *norm_);
    }
    if (config.final_dropout) dropout_ = config.dropout;
  }

  // run(layer, x, index) is one layer's step from x (B, L, E).
  template <class Run>
  [[nodiscard]] Value operator()(const Tokens& tokens, Run&& run) const {
    Value x = embedding_(tokens);
    for (size_t i = 0; i < layers_.size(); ++i) x = run(*layers_[i], x, i);
    return finish(x);
  }
  // The norm above the last layer, where there is one, and T5's dropout above it.
  [[nodiscard]] Value finish(const Value& x) const { return dropout(norm_ ? (*norm_)(x) : x, dropout_); }

  // (H, 2 R + 1), or undefined.
  [[nodiscard]] Value distance_bias() const { return distance_bias_ ? (*distance_bias_)() : Value(); }

  [[nodiscard]] const TokenEmbedding& embedding() const { return embedding_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Layer>>& layers() const { return layers_; }

 private:
  TokenEmbedding embedding_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::unique_ptr<DistanceBias> distance_bias_;
  std::unique_ptr<nn::Norm> norm_;
  float dropout_ = 0;
};

}  // namespace heed::models
