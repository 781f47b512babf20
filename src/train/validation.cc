// Validation while training.
#include "train/validation.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "generate/settings.h"
#include "heed/generate.h"
#include "train/objective.h"

namespace heed::train {

namespace {

double bleu_of(const models::Transformer& model, const Corpus& corpus, const Recipe& recipe,
               distributed::Communicator& ranks, const std::function<bool()>& stop) {
  // Every P-th sentence: they have about the same lengths for each rank.
  const auto size = static_cast<size_t>(ranks.size());
  std::vector<Ids> mine;
  for (auto i = static_cast<size_t>(ranks.rank()); i < corpus.bleu_sources.size(); i += size) {
    mine.push_back(corpus.bleu_sources[i]);
  }
  std::string lines;  // one a sentence: tokenizers decode to text without line ends
  if (!mine.empty()) {
    // As `heed translate` searches with the new folder.
    generate::BeamOptions search{.beam = recipe.valid_beam,
                                 .scores = false,
                                 .max_length = std::min<int64_t>(256, model.config().max_length - 1),
                                 .prefix = corpus.prefix,
                                 .stop = stop};
    if (corpus.search) search = generate::with_settings(std::move(search), *corpus.search);
    generate::leave_out_rows(search, corpus.target->vocabulary(), model.config().target_vocabulary);
    const auto found = generate::translate(model, mine, {.search = std::move(search)});
    if (stop && stop()) throw ValidationStopped();
    for (const auto& hypotheses : found) {
      std::string line = corpus.target->decode(hypotheses.front().ids);
      std::replace(line.begin(), line.end(), '\n', ' ');
      lines += line + "\n";
    }
  }
  const std::vector<std::string> all = ranks.gather_text(lines, 0);
  double score = 0;
  if (ranks.rank() == 0) {
    std::vector<std::string> system(corpus.bleu_sources.size());
    for (size_t rank = 0; rank < size; ++rank) {
      size_t begin = 0;
      for (size_t i = rank; i < system.size(); i += size) {
        const size_t end = all[rank].find('\n', begin);
        system[i] = all[rank].substr(begin, end - begin);
        begin = end + 1;
      }
    }
    score = bleu(system, corpus.references, {.tokenize = recipe.valid_tokenize}).score;
  }
  ranks.broadcast(std::as_writable_bytes(std::span(&score, 1)), 0);
  return score;
}

}  // namespace

double Validation::by(std::string_view measure) const {
  if (measure == "loss") return loss;
  if (measure == "accuracy") return accuracy.value_or(0.0);
  const Correlation of_scores = correlation.value_or(Correlation());
  if (measure == "pearson") return of_scores.pearson;
  return measure == "spearman" ? of_scores.spearman : bleu.value_or(0.0);
}

void Validation::write(io::Json& line) const {
  line["loss"] = loss;
  if (accuracy) {
    line["accuracy"] = *accuracy;
  } else if (correlation) {
    line["pearson"] = correlation->pearson;
    line["spearman"] = correlation->spearman;
  } else {
    line["perplexity"] = std::exp(loss);
  }
  if (bleu) line["bleu"] = *bleu;
}

void Validation::write(Progress& progress) const {
  progress.valid_loss = loss;
  progress.valid_bleu = bleu;
  progress.valid_accuracy = accuracy;
  if (!correlation) return;
  progress.valid_pearson = correlation->pearson;
  progress.valid_spearman = correlation->spearman;
}

std::string Validation::text() const {
  const auto figure = [](const char* format, double value) {
    char text[64];
    std::snprintf(text, sizeof text, format, value);
    return std::string(text);
  };
  std::string text = "validation loss of the model: " + figure("%.4f", loss);
  if (accuracy) text += figure(", accuracy %.4f", *accuracy);
  if (correlation) {
    text += figure(", Pearson %.4f", correlation->pearson) + figure(", Spearman %.4f", correlation->spearman);
  }
  return text;
}

Validation validate_model(const models::Model& model, Corpus& corpus, const Recipe& recipe,
                          distributed::Communicator& ranks, const std::function<bool()>& stop) {
  const MeanLoss mean = mean_loss(model, *corpus.valid, ranks, [&] {
    if (stop && stop()) throw ValidationStopped();
  });
  Validation result{
      .loss = mean.loss, .bleu = std::nullopt, .accuracy = mean.accuracy, .correlation = mean.correlation};
  const auto* transformer = dynamic_cast<const models::Transformer*>(&model);
  if (transformer != nullptr && recipe.valid_beam > 0 && !corpus.bleu_sources.empty()) {
    result.bleu = bleu_of(*transformer, corpus, recipe, ranks, stop);
  }
  return result;
}

}  // namespace heed::train
