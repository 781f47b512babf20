#include "train/vocabulary_trainer.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/philox.h"

namespace heed::train {

bool LineSample::before(const Line& a, const Line& b) {
  return std::tie(a.hash, a.side, a.number) < std::tie(b.hash, b.side, b.number);
}

void LineSample::add(int side, int64_t number, std::string_view line) {
  constexpr uint64_t kSample = 0x5341'4D50'4C45'4C4E;  // so that the order of the data uses another key
  ++added_;
  const auto words = philox(seed_ ^ kSample, static_cast<uint64_t>(side), static_cast<uint64_t>(number));
  Line candidate{(uint64_t{words[0]} << 32) | words[1], number, side, {}};
  if (kept() == limit_) {
    if (!before(candidate, kept_.front())) return;
    std::pop_heap(kept_.begin(), kept_.end(), before);
    kept_.pop_back();
  }
  candidate.text = line;
  kept_.push_back(std::move(candidate));
  if (kept() == limit_ && added_ == limit_) {
    std::make_heap(kept_.begin(), kept_.end(), before);
  } else if (kept() == limit_) {
    std::push_heap(kept_.begin(), kept_.end(), before);
  }
}

std::vector<std::string> LineSample::take() {
  std::sort(kept_.begin(), kept_.end(),
            [](const Line& a, const Line& b) { return std::tie(a.side, a.number) < std::tie(b.side, b.number); });
  std::vector<std::string> lines;
  lines.reserve(kept_.size());
  for (Line& line : kept_) lines.push_back(std::move(line.text));
  kept_ = {};
  return lines;
}

VocabularyTrainer::VocabularyTrainer(const Recipe& recipe, Message message)
    : recipe_(recipe), message_(std::move(message)) {
  const size_t count = recipe.task == "translation" && !recipe.shared_vocabulary ? 2 : 1;
  for (size_t i = 0; i < count; ++i) sides_.emplace_back(LineSample(recipe.vocabulary_lines, recipe.seed));
}

void VocabularyTrainer::add(int side, int64_t number, std::string_view line) {
  Side& to = sides_[sides_.size() == 1 ? 0 : static_cast<size_t>(side)];
  if (recipe_.tokenizer == "characters") {
    to.characters.add(line);
    if (recipe_.task == "language_model") to.characters.add("\n");  // its stream has the line ends
  } else if (recipe_.tokenizer == "pieces") {
    to.pieces.add(line);
  } else {
    to.sample.add(side, number, line);
  }
}

std::shared_ptr<const text::Tokenizer> VocabularyTrainer::tokenizer_of(Side& side, const std::string& who) {
  if (recipe_.tokenizer == "characters") return side.characters.tokenizer();
  if (recipe_.tokenizer == "pieces") return side.pieces.tokenizer();
  if (side.sample.kept() < side.sample.added()) {
    sampled_ = true;
    message_(who + " a vocabulary from " + std::to_string(side.sample.kept()) + " of " +
             std::to_string(side.sample.added()) + " lines, drawn by the seed (vocabulary_lines)");
  }
  auto tokenizer = text::train_sentencepiece(
      side.sample.take(),
      {.vocabulary = recipe_.vocabulary, .bpe = recipe_.bpe, .seed = recipe_.seed, .nearest = true});
  if (const int64_t found = tokenizer->vocabulary(); found != recipe_.vocabulary) {
    message_(who + " a vocabulary of " + std::to_string(found) + ", " +
             (found < recipe_.vocabulary ? "the most that this text allows" : "the fewest that its characters need") +
             " (vocabulary = " + std::to_string(recipe_.vocabulary) + ")");
  }
  return tokenizer;
}

VocabularyTrainer::Tokenizers VocabularyTrainer::train() {
  Tokenizers result;
  if (recipe_.task == "language_model") {
    result.target = tokenizer_of(sides_[0], "the text gets");
  } else if (recipe_.task != "translation") {
    result.source = tokenizer_of(sides_[0], "the text gets");
  } else if (recipe_.shared_vocabulary) {
    result.source = result.target = tokenizer_of(sides_[0], "source and target get");
  } else {
    result.source = tokenizer_of(sides_[0], "the source gets");
    result.target = tokenizer_of(sides_[1], "the target gets");
  }
  result.sampled = sampled_;
  return result;
}

}  // namespace heed::train
