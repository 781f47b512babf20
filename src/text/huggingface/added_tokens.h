// Tokens beside the model's own: found in the text before it is cut, and never cut themselves.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/huggingface/characters.h"
#include "text/huggingface/normalizers.h"
#include "text/huggingface/token_trie.h"

namespace heed::text::huggingface {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool single_word = false;  // only where no word goes on before or behind it
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space behind it
  bool normalized = true;    // looked for in the normalised text
  bool special = false;      // stands for something that no text says
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // `normalizers`: what a text goes through, one behind the other, before normalised tokens are looked for.
  AddedTokens(std::vector<AddedToken> tokens, const std::vector<const Normalizer*>& normalizers);

  [[nodiscard]] const std::vector<AddedToken>& all() const { return tokens_; }
  [[nodiscard]] const AddedToken* find(int32_t id) const;
  [[nodiscard]] const AddedToken* find(std::string_view content) const;

  // What is looked for: the content, normalised if the token is.
  [[nodiscard]] const std::string& pattern(const AddedToken& token) const {
    return patterns_[static_cast<size_t>(&token - tokens_.data())];
  }

  enum class When { before_normalization, after_normalization };
  // use(begin, end, token) for the stretches of `text` in their order: an added token, or nullptr for text between
  // them. Stretches are never empty. As in PyPI's `tokenizers`, a token that another one's white space reaches over
  // keeps its own place, so that two stretches share it.
  template <class Use>
  void split(std::string_view text, When when, bool parse_special, const Use& use) const {
    const Finder& finder = when == When::before_normalization ? raw_ : normalised_;
    size_t done = 0;
    size_t at = 0;
    while (finder.any && (at = next_candidate(finder, text, at)) < text.size()) {
      size_t size = 0;
      const AddedToken* const token = longest_at(finder, text, at, size);
      if (token == nullptr) {
        ++at;
        continue;
      }
      size_t begin = at, end = at + size;
      at = end;
      if (token->special && !parse_special) continue;
      if (token->single_word && inside_word(text, begin, end)) continue;
      if (token->lstrip) begin = before_space(text, begin, done);
      // Behind a token that white space reaches over, the rest of that white space was looked through with the first.
      if (token->rstrip) end = end <= done ? done : behind_space(text, end);
      if (begin >= end) continue;  // the white space before this token reaches over all of it
      if (done < begin) use(done, begin, nullptr);
      use(begin, end, token);
      done = end;
    }
    if (done < text.size()) use(done, text.size(), nullptr);
  }

 private:
  struct Finder {
    TokenTrie trie;  // the ids are places in tokens_
    bool any = false;
    bool begins[256] = {};  // [byte]: tokens begin with it
  };
  static size_t next_candidate(const Finder& finder, std::string_view text, size_t at) {
    while (at < text.size() && !finder.begins[static_cast<uint8_t>(text[at])]) ++at;
    return at;
  }
  [[nodiscard]] const AddedToken* longest_at(const Finder& finder, std::string_view text, size_t at,
                                             size_t& size) const;
  static bool inside_word(std::string_view text, size_t begin, size_t end);
  static size_t before_space(std::string_view text, size_t at, size_t least);
  static size_t behind_space(std::string_view text, size_t at);

  std::vector<AddedToken> tokens_;
  std::vector<std::string> patterns_;  // [token]: what is looked for
  std::unordered_map<int32_t, size_t> place_of_id_;
  std::unordered_map<std::string, size_t> place_of_content_;  // the first one
  Finder raw_, normalised_;
};

}  // namespace heed::text::huggingface
