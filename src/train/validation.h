// What a model is worth on the validation part: loss, and BLEU where asked.
#pragma once

#include <optional>

#include "train/corpus.h"

namespace heed::train {

struct Validation {
  double loss = 0;  // nats a token, nothing smoothed or dropped
  std::optional<double> bleu;
};

// `corpus.valid` is there.
[[nodiscard]] Validation validate_model(const models::Model& model, Corpus& corpus, const Recipe& recipe);

}  // namespace heed::train
