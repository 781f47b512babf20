// From a recipe's files to tokenizers and data sets.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/distributed.h"
#include "heed/train.h"
#include "train/data.h"
#include "train/examples.h"
#include "train/start.h"

namespace heed::train {

struct Corpus {
  std::shared_ptr<const text::Tokenizer> source;  // translation, masked language models
  std::shared_ptr<const text::Tokenizer> target;  // translation (the same as source where shared), language models
  int32_t mask_id = -1;                           // masked language models: one behind the tokenizer's vocabulary
  std::unique_ptr<DataSet> train;
  std::unique_ptr<DataSet> valid;                    // none: no validation
  std::vector<Ids> bleu_sources;                     // each distinct source of the validation part, with its end
  Ids prefix;                                        // what every translation begins with
  std::optional<generate::BeamOptions> search;       // what the folder of recipe.from says of searches
  std::vector<std::vector<std::string>> references;  // [r][i]; empty text where sentence i has fewer
  std::vector<std::string> held_back;                // lines of a tab-separated text that are not trained on
  uint32_t checksum = 0;
  int64_t batch_tokens = 0;  // the recipe's, or where it leaves them open those that suit the text
};

struct CorpusOptions {
  const Start* start = nullptr;                // recipe.from: its tokenizers, and what they put around texts
  distributed::Communicator* ranks = nullptr;  // several share the work of token_cache
  const std::atomic<bool>* stop = nullptr;     // set: making the tokens ends with an Error, and keeps what is done
  int64_t part_bytes = int64_t{64} << 20;      // of text, in a part of token_cache
};

// Tokenizers are loaded from `folder` where `continued`, and trained on the training text otherwise. Writes nothing but
// recipe.token_cache.
[[nodiscard]] Corpus load_corpus(const Recipe& recipe, const std::filesystem::path& folder, bool continued,
                                 const std::function<void(std::string_view)>& message,
                                 const CorpusOptions& options = {});

// Whether a sentence belongs to the held-back part: by a hash of its letters and digits in lower case, so that no
// wording of it is on both sides whatever its case, spaces and (ASCII) punctuation.
[[nodiscard]] bool is_held_back(std::string_view sentence, double fraction);

// load_corpus() for sequence_classification and sequence_regression. `corpus` has its tokenizer.
void load_classification(const Recipe& recipe, const Start& start, const std::function<void(std::string_view)>& message,
                         Corpus& corpus);

// load_corpus() for sentence_embedding.
void load_sentence_pairs(const Recipe& recipe, const Start& start, const std::function<void(std::string_view)>& message,
                         Corpus& corpus);

// Examples as a data set for a classifier, or with scores for a model of one label. `cut`: how many texts were longer
// than reading.longest.
struct ClassifiedTexts {
  std::unique_ptr<DataSet> data;
  int64_t tokens = 0, cut = 0;
};
[[nodiscard]] ClassifiedTexts classified_texts(const Examples& examples, const models::Model& model,
                                               const text::Tokenizer& tokenizer, const Reading& reading,
                                               const std::function<BatchLimits(int64_t tokens)>& limits);

// Tokens of many lines, in parallel.
[[nodiscard]] std::vector<Ids> encode_all(const text::Tokenizer& tokenizer, std::span<const std::string> lines);

// The configuration's vocabularies and special ids, as the tokenizers have them.
void fill_vocabulary(models::Config& config, const Corpus& corpus);

}  // namespace heed::train
