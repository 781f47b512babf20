// Loss and, on request, BLEU of a model on the validation part.
#pragma once

#include <optional>

#include "heed/distributed.h"
#include "train/corpus.h"

namespace heed::train {

struct Validation {
  double loss = 0;  // nats a token, without smoothing and dropout
  std::optional<double> bleu;
};

// Needs `corpus.valid`. The ranks share the work; all get the result, which has the bits of one rank's.
[[nodiscard]] Validation validate_model(const models::Model& model, Corpus& corpus, const Recipe& recipe,
                                        distributed::Communicator& ranks);

}  // namespace heed::train
