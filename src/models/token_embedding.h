// TokenEmbedding: what enters a stack: token vectors, plus those of their types and positions, then dropout.
#pragma once

#include <memory>
#include <vector>

#include "heed/models.h"

namespace heed::models {

[[nodiscard]] bool has_embedding_norm(const Config& config);

// What a stack reads.
struct Tokens {
  Tensor ids;             // (B, L) i32
  int64_t first = 0;      // the position of the first of each row
  Tensor positions = {};  // (1, L) i32, in place of `first`: of rows in which sequences follow each other
  Tensor types = {};      // (B, L) i32; undefined: all of type 0
};

class TokenEmbedding : public nn::Module {
 public:
  // `shared`: the embedding whose token vectors are used instead of own ones, or null.
  TokenEmbedding(const Config& config, int64_t vocabulary, const TokenEmbedding* shared, nn::Initializer& init);

  // -> (B, L, E). Of a part of longer sequences (SequencePartScope) the ids stand at that part's positions.
  [[nodiscard]] Value operator()(const Tokens& tokens) const;
  [[nodiscard]] const Value& weight() const { return tokens_->weight; }  // (V, E)

 private:
  [[nodiscard]] Value positions(const Tokens& tokens) const;           // (L, E)
  [[nodiscard]] Value positions(int64_t first, int64_t length) const;  // likewise
  [[nodiscard]] Value with_types(const Value& x, const Tensor& types) const;
  [[nodiscard]] Value positions(const std::vector<distributed::Run>& runs) const;  // of one run after the other

  const nn::Embedding* tokens_;
  std::unique_ptr<nn::Embedding> own_tokens_;
  Value types_;        // (types, E) or undefined
  Value learned_;      // (first_position + max_length, E) or undefined
  Tensor sinusoidal_;  // (kTableLength at most, E) or undefined
  std::unique_ptr<nn::Norm> norm_;
  Positions kind_;
  nn::PositionLayout layout_;
  int64_t first_position_, max_length_;
  float dropout_;
};

}  // namespace heed::models
