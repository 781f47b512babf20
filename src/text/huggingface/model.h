// Models of tokenizer.json: what cuts a word into tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/huggingface/token_trie.h"
#include "text/huggingface/word_cache.h"

namespace heed::text::huggingface {

// What models need while they work. One call at a time uses it.
struct Workspace {
  struct Symbol {
    int32_t id = 0;
    uint32_t size = 0;  // bytes; 0: it was merged into the one before
    int32_t before = -1, next = -1;
  };
  struct Merge {
    int32_t rank = 0, place = 0, id = 0;
  };
  struct Step {
    int32_t id = 0;
    uint32_t begin = 0;
  };
  WordCache cache;
  std::vector<Symbol> symbols;
  std::vector<Merge> merges;
  std::vector<Step> steps;     // the best token that ends at each byte
  std::vector<double> scores;  // of the last bytes
};

class Model {
 public:
  explicit Model(TokenTable tokens) : tokens_(std::move(tokens)) {}
  virtual ~Model() = default;

  // The tokens of a word, which is not empty. Their bytes count from the word's beginning.
  virtual void cut(std::string_view word, std::vector<Cut>& cuts, Workspace& workspace) const = 0;
  // "wordpiece", "bpe", "unigram" or "wordlevel".
  [[nodiscard]] virtual std::string kind() const = 0;
  [[nodiscard]] virtual int32_t unknown() const = 0;  // or -1
  // Whether cutting takes long enough that words are worth keeping.
  [[nodiscard]] virtual bool keeps_words() const { return true; }
  [[nodiscard]] const TokenTable& tokens() const { return tokens_; }
  // No word has these tokens: "</s>" in a text is four characters.
  virtual void hide(const std::vector<int32_t>& /*ids*/) {}

 private:
  TokenTable tokens_;
};
using ModelPointer = std::unique_ptr<Model>;

struct WordPieceModelOptions {
  std::string unknown = "[UNK]";
  std::string prefix = "##";   // of tokens that go on with a word
  int64_t longest_word = 100;  // characters; longer words are unknown
};
[[nodiscard]] ModelPointer wordpiece_model(TokenTable tokens, const WordPieceModelOptions& options,
                                           const std::string& name);

[[nodiscard]] ModelPointer wordlevel_model(TokenTable tokens, const std::string& unknown, const std::string& name);

struct BpeOptions {
  std::optional<std::string> unknown = {};
  std::string prefix = {};  // of characters behind the first
  std::string suffix = {};  // of the last character
  bool fuse_unknown = false;
  bool byte_fallback = false;
  bool ignore_merges = false;  // a word that is a token stays whole
  bool as_bytes = false;       // words are bytes, and the vocabulary has the characters that stand for them
};
using MergePairs = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] ModelPointer bpe_model(TokenTable tokens, const MergePairs& merges, const BpeOptions& options,
                                     const std::string& name);
// The vocabulary has a character for each byte, so that words may be left as bytes.
[[nodiscard]] bool has_all_bytes(const TokenTable& tokens);

struct UnigramOptions {
  std::vector<double> scores = {};  // [id], logarithms of probabilities
  int32_t unknown = -1;             // none
  bool byte_fallback = false;
};
[[nodiscard]] ModelPointer unigram_model(TokenTable tokens, UnigramOptions options, const std::string& name);

}  // namespace heed::text::huggingface
