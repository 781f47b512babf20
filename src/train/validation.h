// Loss, accuracy and, on request, BLEU of a model on the validation part.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "formats/json.h"
#include "heed/distributed.h"
#include "train/corpus.h"

namespace heed::train {

struct Validation {
  double loss = 0;  // nats a token, or a text, without smoothing and dropout
  std::optional<double> bleu, accuracy;
  std::optional<Correlation> correlation;  // of scores

  // recipe.best_by: "loss", "bleu", "accuracy", "pearson" or "spearman".
  [[nodiscard]] double by(std::string_view measure) const;
  // Loss and accuracy, loss and correlations, or loss, perplexity and BLEU, as members of a line of the log.
  void write(io::Json& line) const;
  void write(Progress& progress) const;
  // "validation loss of the model: 0.1234"
  [[nodiscard]] std::string text() const;
};

struct ValidationStopped {};

// Needs `corpus.valid`. The ranks share the work; all get the result, which has the bits of one rank's. Throws
// ValidationStopped once stop() says true, which only one process alone may pass.
[[nodiscard]] Validation validate_model(const models::Model& model, Corpus& corpus, const Recipe& recipe,
                                        distributed::Communicator& ranks, const std::function<bool()>& stop = {});

}  // namespace heed::train
