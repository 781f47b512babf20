// The data of a classifier: examples, their classes or scores, and what is held back.
#include <algorithm>

#include "heed/error.h"
#include "text/tokenizers.h"
#include "train/corpus.h"
#include "train/defaults.h"
#include "train/text_data.h"

namespace heed::train {

namespace {

std::string line_of(const Examples& examples, const Example& example) {
  return example.text + '\t' + (examples.pairs ? example.second + '\t' : "") + example.label;
}

// Takes the held-back part out of `train`.
Examples hold_back(Examples& train, double fraction) {
  Examples valid{.file = train.file, .pairs = train.pairs, .all = {}};
  const auto is_kept = [&](const Example& example) { return !is_held_back(example.text, fraction); };
  const auto end = std::stable_partition(train.all.begin(), train.all.end(), is_kept);
  valid.all.assign(std::make_move_iterator(end), std::make_move_iterator(train.all.end()));
  train.all.erase(end, train.all.end());
  require(!train.all.empty(), "train", train.file.string(), ": examples outside valid_fraction; found none of ",
          valid.all.size());
  return valid;
}

}  // namespace

ClassifiedTexts classified_texts(const Examples& examples, const models::Model& model, const text::Tokenizer& tokenizer,
                                 const Reading& reading, const std::function<BatchLimits(int64_t tokens)>& limits) {
  require(!examples.pairs || model.origin() != nullptr || text::is_of_others(tokenizer), "train",
          examples.file.string(),
          ", line 1: text <tab> label, because this model's tokenizer has no form for a pair; found three columns");
  const models::Config& config = model.config();
  const Frame around = frames_of(model, tokenizer, nullptr).source;
  require(reading.longest > around.size(), "train", "max_tokens_per_sentence: more than the ", around.size(),
          " tokens around a text; found ", reading.longest);
  const bool has_scores = config.labels.size() == 1, with_types = config.token_types > 1;
  const bool are_raw = config.scores == models::Scores::raw;
  TextScores scores{.values = {}, .loss = are_raw ? ScoreLoss::squared_error : ScoreLoss::cross_entropy};
  std::vector<int32_t> classes;
  if (has_scores) {
    scores.values = scores_of(examples, scores.loss);
  } else {
    classes = classes_of(examples, config.labels);
  }
  TokenizedTexts texts = tokenize(tokenizer, examples, reading);
  ClassifiedTexts result{.data = nullptr, .tokens = 0, .cut = texts.cut};
  for (const Ids& ids : texts.ids) result.tokens += std::ssize(ids);
  const BatchLimits batches = limits(result.tokens);
  result.data = has_scores ? scored_data(std::move(texts), std::move(scores), with_types, around.padding, batches)
                           : classified_data(std::move(texts), std::move(classes), with_types, around.padding, batches);
  return result;
}

void load_classification(const Recipe& recipe, const Start& start, const std::function<void(std::string_view)>& message,
                         Corpus& corpus) {
  corpus.source = start.source;
  Examples train = read_examples(recipe.train_source), valid;
  if (!recipe.valid_source.empty()) {
    valid = read_examples(recipe.valid_source);
    require(valid.pairs == train.pairs, "train", recipe.valid_source, ", line 1: ", train.pairs ? 3 : 2,
            " columns, as the training text has; found ", valid.pairs ? 3 : 2);
  } else if (recipe.valid_fraction > 0) {
    valid = hold_back(train, recipe.valid_fraction);
    for (const Example& example : valid.all) corpus.held_back.push_back(line_of(valid, example));
  }
  const auto data_of = [&](const Examples& examples, std::string_view what, uint64_t seed) {
    ClassifiedTexts texts =
        classified_texts(examples, *start.model, *corpus.source, start.reading, [&](int64_t tokens) -> BatchLimits {
          if (corpus.batch_tokens == 0) corpus.batch_tokens = batch_tokens_for(tokens);
          return {.tokens = corpus.batch_tokens, .sentences = recipe.batch_sentences, .seed = seed};
        });
    if (texts.cut > 0) {
      message(std::to_string(texts.cut) + " " + std::string(what) + " texts are cut to " +
              std::to_string(start.reading.longest) + " tokens");
    }
    return std::move(texts.data);
  };
  corpus.train = data_of(train, "training", recipe.seed);
  if (!valid.all.empty()) corpus.valid = data_of(valid, "validation", 0);
}

}  // namespace heed::train
