// TokenEmbedding: what enters a stack: token vectors, plus positions, then dropout.
#pragma once

#include <memory>

#include "heed/models.h"

namespace heed::models {

class TokenEmbedding : public nn::Module {
 public:
  // `shared`: the embedding whose token vectors are used instead of own ones, or null.
  TokenEmbedding(const Config& config, int64_t vocabulary, const TokenEmbedding* shared, nn::Initializer& init);

  // ids (B, L) i32, the first of each row at position `first` -> (B, L, E). Of a part of longer sequences
  // (SequencePartScope) the ids stand at that part's positions.
  [[nodiscard]] Value operator()(const Tensor& ids, int64_t first) const;
  [[nodiscard]] const Value& weight() const { return tokens_->weight; }  // (V, E)

 private:
  [[nodiscard]] Value positions(int64_t first, int64_t length) const;              // (L, E)
  [[nodiscard]] Value positions(const std::vector<distributed::Run>& runs) const;  // of one run after the other

  const nn::Embedding* tokens_;
  std::unique_ptr<nn::Embedding> own_tokens_;
  Value learned_;      // (max_length, E) or undefined
  Tensor sinusoidal_;  // (kTableLength at most, E) or undefined
  std::unique_ptr<nn::Norm> norm_;
  Positions kind_;
  nn::PositionLayout layout_;
  int64_t first_position_, max_length_;
  float dropout_;
};

}  // namespace heed::models
