// The data of a sentence encoder: pairs of texts that belong together, or have a score each.
#include <algorithm>

#include "heed/error.h"
#include "train/corpus.h"
#include "train/defaults.h"
#include "train/recipe_fields.h"
#include "train/text_data.h"
#include "train/training_text.h"

namespace heed::train {

namespace {

// Both sides as examples without labels, so that messages can name their lines.
struct TextPairs {
  Examples anchors, positives;
  std::vector<float> scores;  // none, or one a pair
  [[nodiscard]] bool empty() const { return anchors.all.empty(); }
  void add(std::string_view anchor, std::string_view positive, int64_t line) {
    for (const auto& [examples, text] : {std::pair{&anchors, anchor}, std::pair{&positives, positive}}) {
      examples->all.push_back({.text = std::string(text), .second = "", .label = "", .line = line});
      require(!text.empty(), "train", examples->place_of(examples->all.back()), ": two texts; one of them is empty");
    }
  }
};

TextPairs pairs_of_files(const std::string& anchors, const std::string& positives) {
  return {.anchors = {.file = anchors, .pairs = false, .all = {}},
          .positives = {.file = positives, .pairs = false, .all = {}},
          .scores = {}};
}

TextPairs read_two_files(const std::string& anchors, const std::string& positives) {
  TextPairs pairs = pairs_of_files(anchors, positives);
  const auto first = text::read_lines(anchors), second = text::read_lines(positives);
  require(first.size() == second.size(), "train", positives, ": as many lines as ", anchors, ", ", first.size(),
          "; found ", second.size());
  for (size_t i = 0; i < first.size(); ++i) pairs.add(first[i], second[i], static_cast<int64_t>(i) + 1);
  return pairs;
}

// The third column of a line that split_pair() has read.
std::string_view third_column(std::string_view line) {
  for (int column = 0; column < 2; ++column) {
    const size_t tab = line.find('\t');
    if (tab == std::string_view::npos) return {};
    line.remove_prefix(tab + 1);
  }
  return line.substr(0, line.find('\t'));
}

// Lines of anchor <tab> positive [<tab> anything], or of anchor <tab> positive <tab> score where the recipe has scores;
// those that are held back go to `valid`.
TextPairs read_one_file(const Recipe& recipe, TextPairs& valid, std::vector<std::string>& held_back) {
  TextPairs train = pairs_of_files(recipe.pairs, recipe.pairs);
  int64_t number = 0;
  for (const std::string& line : text::read_lines(recipe.pairs)) {
    const auto [anchor, positive] = split_pair(line, recipe.pairs, ++number);
    const bool is_valid = recipe.valid_source.empty() && is_held_back(anchor, recipe.valid_fraction);
    TextPairs& part = is_valid ? valid : train;
    part.add(anchor, positive, number);
    if (has_scores(recipe)) {
      const std::string place = part.anchors.place_of(part.anchors.all.back());
      part.scores.push_back(read_score(third_column(line), kCosines, place));
    }
    if (is_valid) held_back.push_back(line);
  }
  require(!train.empty(), "train", recipe.pairs, ": pairs to train on; found none outside valid_fraction");
  return train;
}

}  // namespace

void load_sentence_pairs(const Recipe& recipe, const Start& start, const std::function<void(std::string_view)>& message,
                         Corpus& corpus) {
  corpus.source = start.source;
  const bool one_file = !recipe.pairs.empty();
  require(one_file ? recipe.train_source.empty() && recipe.train_target.empty()
                   : !recipe.train_source.empty() && !recipe.train_target.empty(),
          "train", "either pairs, or train_source and train_target; found ", one_file ? "both" : "neither");
  require(recipe.valid_source.empty() == recipe.valid_target.empty(), "train",
          "valid_source and valid_target together; found one of them");
  require(!has_scores(recipe) || (one_file && recipe.valid_source.empty()), "train",
          "pairs and valid_fraction where loss is squared_error, because two files of texts have no scores; found "
          "two files");
  TextPairs valid = pairs_of_files(recipe.pairs, recipe.pairs);
  const TextPairs train = one_file ? read_one_file(recipe, valid, corpus.held_back)
                                   : read_two_files(recipe.train_source, recipe.train_target);
  if (!recipe.valid_source.empty()) valid = read_two_files(recipe.valid_source, recipe.valid_target);
  require(start.reading.longest > start.frames.source.size(), "train", "max_tokens_per_sentence: more than the ",
          start.frames.source.size(), " tokens around a text; found ", start.reading.longest);
  const auto data_of = [&](const TextPairs& pairs, std::string_view what, uint64_t seed) {
    TokenizedTexts anchors = tokenize(*corpus.source, pairs.anchors, start.reading);
    TokenizedTexts positives = tokenize(*corpus.source, pairs.positives, start.reading);
    if (const int64_t cut = anchors.cut + positives.cut; cut > 0) {
      message(std::to_string(cut) + " " + std::string(what) + " texts are cut to " +
              std::to_string(start.reading.longest) + " tokens");
    }
    int64_t tokens = 0;
    for (size_t i = 0; i < anchors.ids.size(); ++i) {
      tokens += std::max(std::ssize(anchors.ids[i]), std::ssize(positives.ids[i]));
    }
    if (corpus.batch_tokens == 0) corpus.batch_tokens = batch_tokens_for(tokens);
    return paired_data(std::move(anchors.ids), std::move(positives.ids), start.contrast, start.frames.source.padding,
                       {.tokens = corpus.batch_tokens, .sentences = recipe.batch_sentences, .seed = seed},
                       {.values = pairs.scores, .loss = ScoreLoss::squared_error});
  };
  corpus.train = data_of(train, "training", recipe.seed);
  if (!valid.empty()) corpus.valid = data_of(valid, "validation", 0);
}

}  // namespace heed::train
