// The tokens of a vocabulary: from an id to its text, and from texts to ids through a trie.
//
// The trie is a double array. From node n, the byte b leads to node base[n] ^ b, if that one's parent is n. A token is
// found in as many steps as it has bytes, and all tokens that a text begins with in as many as the longest has.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heed::text::huggingface {

class TokenTrie {
 public:
  struct Entry {
    std::string_view text;
    int32_t id = 0;
  };
  TokenTrie() = default;
  // Texts may repeat: the last one counts.
  explicit TokenTrie(std::vector<Entry> entries);

  static constexpr uint32_t kRoot = 0;
  static constexpr uint32_t kNowhere = UINT32_MAX;
  // The node behind `node` and a byte, or kNowhere.
  [[nodiscard]] uint32_t step(uint32_t node, uint8_t byte) const {
    const uint32_t next = units_[node].base ^ byte;
    return units_[next].parent == node ? next : kNowhere;
  }
  // The token that ends at this node, or -1.
  [[nodiscard]] int32_t id(uint32_t node) const { return units_[node].id; }

  [[nodiscard]] uint32_t walk(uint32_t node, std::string_view text) const {
    for (size_t i = 0; i < text.size() && node != kNowhere; ++i) node = step(node, static_cast<uint8_t>(text[i]));
    return node;
  }
  // The id of exactly this text, or -1.
  [[nodiscard]] int32_t find(std::string_view text) const {
    const uint32_t node = walk(kRoot, text);
    return node == kNowhere ? -1 : id(node);
  }
  [[nodiscard]] size_t longest() const { return longest_; }  // bytes of the longest text

 private:
  struct Unit {
    uint32_t base = 0, parent = kNowhere;
    int32_t id = -1;
  };
  class Builder;
  std::vector<Unit> units_ = std::vector<Unit>(256);
  size_t longest_ = 0;
};

// A vocabulary: each id once.
class TokenTable {
 public:
  TokenTable() = default;
  // `name` says in messages where the tokens are from. Throws Error for ids that are negative, beyond 16,777,215 or
  // given twice.
  TokenTable(std::vector<std::pair<std::string, int32_t>> tokens, const std::string& name);

  [[nodiscard]] int32_t find(std::string_view text) const { return trie_.find(text); }  // or -1
  [[nodiscard]] const std::string& text(int32_t id) const { return texts_[static_cast<size_t>(id)]; }
  [[nodiscard]] bool has(int32_t id) const { return id >= 0 && id < size() && present_[static_cast<size_t>(id)]; }
  [[nodiscard]] int32_t size() const { return static_cast<int32_t>(texts_.size()); }  // the largest id and 1
  [[nodiscard]] int32_t count() const { return count_; }                              // of tokens
  [[nodiscard]] const TokenTrie& trie() const { return trie_; }

 private:
  std::vector<std::string> texts_;  // [id]
  std::vector<bool> present_;
  int32_t count_ = 0;
  TokenTrie trie_;
};

}  // namespace heed::text::huggingface
