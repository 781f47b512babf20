// Loss and, on request, BLEU of a model on the validation part.
#pragma once

#include <optional>

#include "train/corpus.h"

namespace heed::train {

struct Validation {
  double loss = 0;  // nats a token, without smoothing and dropout
  std::optional<double> bleu;
};

// Needs `corpus.valid`.
[[nodiscard]] Validation validate_model(const models::Model& model, Corpus& corpus, const Recipe& recipe);

}  // namespace heed::train
