// The Dense module of sentence-transformers: a linear layer above a text's pooled states.
#pragma once

#include <filesystem>

#include "heed/nn.h"

namespace heed::models {

struct SentenceDense {
  Value weight, bias;  // (Out, In), (Out) or undefined
  Activation activation = Activation::none;
  bool sigmoid = false;  // which is no Activation

  // (B, In) -> (B, Out), with gradients. A row has the same bits whatever the other rows are.
  [[nodiscard]] Value operator()(const Value& rows) const;
  [[nodiscard]] int64_t size() const { return weight.shape()[0]; }
};

// As its folder says: config.json and the weights. `in` is the size of what the module before gives. Throws Error, with
// the file and the key, for what heed does not have.
[[nodiscard]] SentenceDense read_sentence_dense(const std::filesystem::path& folder, int64_t in);

}  // namespace heed::models
