// The vocabularies of a recipe, from its training text line by line. A text in memory and one that is read from a file
// give the same vocabularies.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heed/train.h"
#include "text/vocabulary.h"

namespace heed::train {

// At most `limit` of the lines that are added: those whose numbers have the smallest hashes, so that lines may come in
// any order, and none has to be kept that is not drawn.
class LineSample {
 public:
  LineSample(int64_t limit, uint64_t seed) : limit_(limit), seed_(seed) {}

  void add(int side, int64_t number, std::string_view line);
  [[nodiscard]] int64_t added() const { return added_; }
  [[nodiscard]] int64_t kept() const { return static_cast<int64_t>(kept_.size()); }
  // The lines in the order of their sides and numbers. Leaves the sample empty.
  [[nodiscard]] std::vector<std::string> take();

 private:
  struct Line {
    uint64_t hash;
    int64_t number;
    int side;
    std::string text;
  };
  [[nodiscard]] static bool before(const Line& a, const Line& b);

  int64_t limit_;
  uint64_t seed_;
  int64_t added_ = 0;
  std::vector<Line> kept_;  // a heap with the largest hash on top, once it is full
};

class VocabularyTrainer {
 public:
  using Message = std::function<void(std::string_view)>;
  VocabularyTrainer(const Recipe& recipe, Message message);

  // Side 0 is the source or the only text, side 1 the target.
  void add(int side, int64_t number, std::string_view line);

  struct Tokenizers {
    std::shared_ptr<const text::Tokenizer> source, target;  // as in Corpus
    bool sampled = false;                                   // the seed chose lines
  };
  [[nodiscard]] Tokenizers train();

 private:
  struct Side {
    explicit Side(LineSample lines) : sample(std::move(lines)) {}
    LineSample sample;
    text::CharacterVocabulary characters;
    text::PieceVocabulary pieces;
  };
  [[nodiscard]] std::shared_ptr<const text::Tokenizer> tokenizer_of(Side& side, const std::string& who);

  const Recipe& recipe_;
  Message message_;
  std::vector<Side> sides_;  // one, where both share a vocabulary
  bool sampled_ = false;
};

}  // namespace heed::train
