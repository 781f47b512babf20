// Validation while training.
#include "train/validation.h"

#include <algorithm>

#include "heed/generate.h"
#include "train/objective.h"

namespace heed::train {

namespace {

double bleu_of(const models::Transformer& model, const Corpus& corpus, const Recipe& recipe) {
  const auto found = generate::translate(
      model, corpus.bleu_sources,
      {.search = {.beam = recipe.valid_beam, .max_length = std::min<int64_t>(256, model.config().max_length - 1)}});
  std::vector<std::string> system;
  system.reserve(found.size());
  for (const auto& hypotheses : found) system.push_back(corpus.target->decode(hypotheses.front().ids));
  return bleu(system, corpus.references, {.tokenize = recipe.valid_tokenize}).score;
}

}  // namespace

Validation validate_model(const models::Model& model, Corpus& corpus, const Recipe& recipe) {
  Validation result{.loss = mean_loss(model, *corpus.valid).loss, .bleu = std::nullopt};
  const auto* transformer = dynamic_cast<const models::Transformer*>(&model);
  if (transformer != nullptr && recipe.valid_beam > 0 && !corpus.bleu_sources.empty()) {
    result.bleu = bleu_of(*transformer, corpus, recipe);
  }
  return result;
}

}  // namespace heed::train
