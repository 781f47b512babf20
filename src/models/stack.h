// Stack: an embedding, layers one on top of the other, and a norm above the last where the configuration wants one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/token_embedding.h"

namespace heed::models {

template <class Layer>
class Stack : public nn::Module {
 public:
  Stack(const Config& config, int64_t vocabulary, int64_t layers, const TokenEmbedding* shared, nn::Initializer& init)
      : embedding_(config, vocabulary, shared, init) {
    add_module("embedding", embedding_);
    for (int64_t i = 0; i < layers; ++i) {
      layers_.push_back(std::make_unique<Layer>(config, init));
      add_module("layers." + std::to_string(i), *layers_.back());
    }
    if (config.final_norm) {
      norm_ = std::make_unique<nn::Norm>(config.norm, config.width, config.norm_epsilon, config.bias);
      add_module("norm", *norm_);
    }
  }

  // tokens (B, L) i32 at positions `first` and after; run(layer, x, index) is one layer's step from x (B, L, E).
  template <class Run>
  [[nodiscard]] Value operator()(const Tensor& tokens, int64_t first, Run&& run) const {
    Value x = embedding_(tokens, first);
    for (size_t i = 0; i < layers_.size(); ++i) x = run(*layers_[i], x, i);
    return finish(x);
  }
  // The norm above the last layer, where there is one.
  [[nodiscard]] Value finish(const Value& x) const { return norm_ ? (*norm_)(x) : x; }

  [[nodiscard]] const TokenEmbedding& embedding() const { return embedding_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Layer>>& layers() const { return layers_; }

 private:
  TokenEmbedding embedding_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::unique_ptr<nn::Norm> norm_;
};

}  // namespace heed::models
