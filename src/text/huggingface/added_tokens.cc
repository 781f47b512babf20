#include "text/huggingface/added_tokens.h"

#include <algorithm>

namespace heed::text::huggingface {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const std::vector<const Normalizer*>& normalizers)
    : tokens_(std::move(tokens)) {
  for (const AddedToken& token : tokens_) {
    AlignedText pattern(token.content, 0, false);
    if (token.normalized)
      for (const Normalizer* const normalizer : normalizers) normalizer->apply(pattern);
    patterns_.push_back(pattern.text());
  }
  std::vector<TokenTrie::Entry> raw, normalised;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    place_of_id_[tokens_[i].id] = i;
    place_of_content_.emplace(tokens_[i].content, i);
    if (patterns_[i].empty()) continue;
    (tokens_[i].normalized ? normalised : raw).push_back({patterns_[i], static_cast<int32_t>(i)});
    Finder& finder = tokens_[i].normalized ? normalised_ : raw_;
    finder.any = true;
    finder.begins[static_cast<uint8_t>(patterns_[i][0])] = true;
  }
  raw_.trie = TokenTrie(std::move(raw));
  normalised_.trie = TokenTrie(std::move(normalised));
}

const AddedToken* AddedTokens::find(int32_t id) const {
  const auto found = place_of_id_.find(id);
  return found == place_of_id_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto found = place_of_content_.find(std::string(content));
  return found == place_of_content_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::longest_at(const Finder& finder, std::string_view text, size_t at, size_t& size) const {
  uint32_t node = TokenTrie::kRoot;
  const AddedToken* longest = nullptr;
  for (size_t i = at; i < text.size(); ++i) {
    node = finder.trie.step(node, static_cast<uint8_t>(text[i]));
    if (node == TokenTrie::kNowhere) break;
    if (const int32_t place = finder.trie.id(node); place >= 0) {
      longest = &tokens_[static_cast<size_t>(place)];
      size = i + 1 - at;
    }
  }
  return longest;
}

bool AddedTokens::inside_word(std::string_view text, size_t begin, size_t end) {
  return (begin > 0 && is_word(character_at(text, last_character_before(text, begin)).code_point)) ||
         (end < text.size() && is_word(character_at(text, end).code_point));
}

size_t AddedTokens::before_space(std::string_view text, size_t at, size_t least) {
  while (at > least) {
    const size_t last = last_character_before(text, at);
    if (!is_whitespace(character_at(text, last).code_point)) break;
    at = last;
  }
  return std::max(at, least);
}

size_t AddedTokens::behind_space(std::string_view text, size_t at) {
  while (at < text.size()) {
    const Character c = character_at(text, at);
    if (!is_whitespace(c.code_point)) break;
    at += c.size;
  }
  return at;
}

}  // namespace heed::text::huggingface
