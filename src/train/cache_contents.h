// What every rank knows of a token cache: its plan, the tokenizers of its text, and what follows from them.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "train/cache_plan.h"
#include "train/corpus.h"
#include "train/token_file.h"

namespace heed::train {

inline constexpr const char* kCachePlanFile = "corpus.json";
inline constexpr const char* kHeldBackFile = "held_back.txt";
inline constexpr int64_t kMostPlanBytes = int64_t{1} << 28;

struct TextTokenizers {
  std::shared_ptr<const text::Tokenizer> source, target;  // as in Corpus
};
[[nodiscard]] TextTokenizers load_tokenizers(const Recipe& recipe, const std::filesystem::path& folder);

// Of all parts. Its fingerprint is that of the tokens that belong to the recipe; plan.fingerprint is not read.
[[nodiscard]] TokenFileKind kind_of_tokens(const Recipe& recipe, const CachePlan& plan,
                                           const TextTokenizers& tokenizers);

[[nodiscard]] inline bool is_stream(const Recipe& recipe) { return recipe.task == "language_model"; }
// Tokens of a sentence: the model must have room for its begin and end.
[[nodiscard]] int64_t longest_sentence(const Recipe& recipe);

// The files of the training text: pairs, or the source and, for translation, the target.
[[nodiscard]] std::vector<std::filesystem::path> training_files(const Recipe& recipe);

// The lines of a text that are trained on; valid_fraction holds the others back.
class TrainedLines {
 public:
  TrainedLines(const Recipe& recipe, int64_t lines);

  // Of pairs a hash of the source decides, of other texts the line's number. Null where no line is held back.
  [[nodiscard]] const io::Json& rule() const { return rule_; }
  [[nodiscard]] bool contains(const TrainingText& text) const {
    return by_hash_ ? !is_held_back(text.source(), valid_fraction_) : text.number() < end_;
  }

 private:
  io::Json rule_;
  bool by_hash_;
  double valid_fraction_;
  int64_t end_;  // lines before this one are trained on (not of pairs)
};

// Throws Interrupted where the process is asked to stop.
void require_no_interrupt(const CorpusOptions& options, const std::filesystem::path& cache);

}  // namespace heed::train
