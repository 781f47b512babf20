// WordPiece: the longest token that a word begins with, then the longest one that goes on, and so forth. A word that
// cannot be cut so is unknown as a whole.
#include "base/files.h"
#include "heed/error.h"
#include "text/huggingface/characters.h"
#include "text/huggingface/model.h"

namespace heed::text::huggingface {

namespace {

class WordPiece : public Model {
 public:
  WordPiece(TokenTable table, const WordPieceModelOptions& options, const std::string& name)
      : Model(std::move(table)), longest_word_(options.longest_word), unknown_(tokens().find(options.unknown)) {
    require(unknown_ >= 0, "load_tokenizer", name, ": a vocabulary with the unknown token ",
            files::quoted(options.unknown), "; found none");
    going_on_ = tokens().trie().walk(TokenTrie::kRoot, options.prefix);
  }

  std::string kind() const override { return "wordpiece"; }
  int32_t unknown() const override { return unknown_; }

  void cut(std::string_view word, std::vector<Cut>& cuts, Workspace& /*workspace*/) const override {
    const size_t before = cuts.size();
    if (!cut_known(word, cuts)) {
      cuts.resize(before);
      cuts.push_back({unknown_, 0, static_cast<uint32_t>(word.size())});
    }
  }

 private:
  bool cut_known(std::string_view word, std::vector<Cut>& cuts) const {
    if (static_cast<int64_t>(word.size()) > longest_word_ &&
        static_cast<int64_t>(count_characters(word)) > longest_word_) {
      return false;
    }
    const TokenTrie& trie = tokens().trie();
    for (size_t begin = 0; begin < word.size();) {
      uint32_t node = begin == 0 ? TokenTrie::kRoot : going_on_;
      int32_t id = -1;
      size_t end = begin;
      for (size_t at = begin; node != TokenTrie::kNowhere && at < word.size();) {
        node = trie.step(node, static_cast<uint8_t>(word[at++]));
        if (node != TokenTrie::kNowhere && trie.id(node) >= 0) {
          id = trie.id(node);
          end = at;
        }
      }
      if (id < 0) return false;
      cuts.push_back({id, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
      begin = end;
    }
    return true;
  }

  int64_t longest_word_;
  int32_t unknown_;
  uint32_t going_on_ = TokenTrie::kNowhere;  // the trie's node behind the prefix
};

// Each word is a token, or unknown.
class WordLevel : public Model {
 public:
  WordLevel(TokenTable table, const std::string& unknown, const std::string& name)
      : Model(std::move(table)), unknown_(tokens().find(unknown)), name_(name) {}
  std::string kind() const override { return "wordlevel"; }
  int32_t unknown() const override { return unknown_; }
  bool keeps_words() const override { return false; }
  void cut(std::string_view word, std::vector<Cut>& cuts, Workspace& /*workspace*/) const override {
    const int32_t found = tokens().find(word);
    const int32_t id = found >= 0 ? found : unknown_;
    if (id < 0) {
      fail("encode", "words of the vocabulary, which has no unknown one (", name_, "); found ",
           files::quoted(std::string(word.substr(0, 100))));
    }
    cuts.push_back({id, 0, static_cast<uint32_t>(word.size())});
  }

 private:
  int32_t unknown_;
  std::string name_;
};

}  // namespace

ModelPointer wordpiece_model(TokenTable tokens, const WordPieceModelOptions& options, const std::string& name) {
  return std::make_unique<WordPiece>(std::move(tokens), options, name);
}

ModelPointer wordlevel_model(TokenTable tokens, const std::string& unknown, const std::string& name) {
  return std::make_unique<WordLevel>(std::move(tokens), unknown, name);
}

}  // namespace heed::text::huggingface
