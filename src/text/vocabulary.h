// Vocabularies of texts that are read line by line: what train_characters() and train_pieces() do with lines in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "heed/text.h"

namespace heed::text {

class CharacterVocabulary {
 public:
  void add(std::string_view text);  // throws Error for invalid UTF-8
  [[nodiscard]] std::shared_ptr<const Tokenizer> tokenizer() const;

 private:
  std::set<std::string, std::less<>> seen_;  // UTF-8 sorts by code point
};

class PieceVocabulary {
 public:
  void add(std::string_view text);  // throws Error for invalid UTF-8
  // Of pieces that were seen `minimum` times or more.
  [[nodiscard]] std::shared_ptr<const Tokenizer> tokenizer(int64_t minimum = 1) const;

 private:
  std::unordered_map<std::string, int64_t> counts_;
};

}  // namespace heed::text
