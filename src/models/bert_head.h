// What stands above an encoder-only model's last layer, and the poolings of its states.
#pragma once

#include <memory>

#include "heed/models.h"

namespace heed::models {

class Output;

// x (B, L, E), lengths (B) i32 -> (B, E): the mean of the first lengths[b] states, 0 where there are none. One sum in
// the order of the positions, so that padding behind a sentence does not change a bit of its mean.
[[nodiscard]] Value mean_of_states(const Value& x, const Tensor& lengths);

// A layer of its own, a norm, and the output: (tied) logits of tokens, or those of classes. Each is there where the
// configuration says so.
class BertHead : public nn::Module {
 public:
  BertHead(const Config& config, const Value& embedding, nn::Initializer& init);
  ~BertHead() override;

  // Of every state (..., E): logits (..., V) or (..., labels).
  [[nodiscard]] Value operator()(const Value& x) const;
  [[nodiscard]] Value loss(const Value& x, const Tensor& targets, const CrossEntropyOptions& options) const;
  // x (B, L, E), lengths (B) -> (B, E): the state that stands for each text, through the layer and the norm.
  [[nodiscard]] Value pooled(const Value& x, const Tensor& lengths) const;
  // Of states that have gone through the layer and the norm.
  [[nodiscard]] Value logits(const Value& states) const;

 private:
  [[nodiscard]] Value states(const Value& x) const;

  Pooling pooling_;
  Activation activation_;
  float dropout_;
  std::unique_ptr<nn::Linear> dense_;
  std::unique_ptr<nn::Norm> norm_;
  std::unique_ptr<Output> tokens_;
  std::unique_ptr<nn::Linear> classes_;
};

}  // namespace heed::models
