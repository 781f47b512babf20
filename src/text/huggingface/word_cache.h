// Words that have been cut before. Most words of a text come again, and looking one up is quicker than cutting it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace heed::text::huggingface {

// One token of a word, and the bytes of the word that it stands for.
struct Cut {
  int32_t id = 0;
  uint32_t begin = 0, end = 0;
};

// A table without chains: a word takes the place of another one with the same hash. Only short words are kept. The
// table begins small, because a large one takes longer to clear than a short text takes to cut.
class WordCache {
 public:
  static constexpr size_t kLongest = 24;  // bytes

  // Adds the tokens of a word that was kept.
  [[nodiscard]] bool find(std::string_view word, uint64_t hash, std::vector<Cut>& cuts) const {
    if (entries_.empty()) return false;
    const Entry& entry = entries_[hash & (entries_.size() - 1)];
    if (entry.size != word.size() || std::memcmp(entry.word.data(), word.data(), word.size()) != 0) return false;
    for (size_t i = 0; i < entry.count; ++i) cuts.push_back({entry.ids[i], entry.begins[i], entry.ends[i]});
    return true;
  }
  void keep(std::string_view word, uint64_t hash, const Cut* cuts, size_t count) {
    if (count > kMostTokens) return;
    if (kept_ >= entries_.size() && entries_.size() < kMostEntries) grow();
    ++kept_;
    Entry& entry = entries_[hash & (entries_.size() - 1)];
    entry.size = static_cast<uint8_t>(word.size());
    entry.count = static_cast<uint8_t>(count);
    std::memcpy(entry.word.data(), word.data(), word.size());
    for (size_t i = 0; i < count; ++i) {
      entry.ids[i] = cuts[i].id;
      entry.begins[i] = static_cast<uint8_t>(cuts[i].begin);
      entry.ends[i] = static_cast<uint8_t>(cuts[i].end);
    }
  }
  // Of a word of 1 to kLongest bytes.
  [[nodiscard]] static uint64_t hash_of(std::string_view word) {
    uint64_t parts[3] = {word.size(), 0, 0};
    uint64_t hash = 0;
    std::memcpy(&parts[0], word.data(), word.size() < 8 ? word.size() : 8);
    if (word.size() > 8) std::memcpy(&parts[1], word.data() + 8, word.size() < 16 ? word.size() - 8 : 8);
    if (word.size() > 16) std::memcpy(&parts[2], word.data() + 16, word.size() - 16);
    for (const uint64_t part : parts) {
      hash = (hash ^ part) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 32;
    }
    return hash;
  }

 private:
  static constexpr size_t kFewestEntries = 1 << 8, kMostEntries = 1 << 14;  // powers of two
  static constexpr size_t kMostTokens = 8;
  struct Entry {
    uint8_t size = 0, count = 0;
    std::array<uint8_t, kMostTokens> begins{}, ends{};
    std::array<char, kLongest> word{};
    std::array<int32_t, kMostTokens> ids{};
  };

  void grow() {
    std::vector<Entry> larger(std::max(kFewestEntries, 8 * entries_.size()));
    for (const Entry& entry : entries_) {
      if (entry.size > 0) larger[hash_of({entry.word.data(), entry.size}) & (larger.size() - 1)] = entry;
    }
    entries_ = std::move(larger);
  }

  std::vector<Entry> entries_;
  size_t kept_ = 0;  // words since the start, those of the same place too
};

}  // namespace heed::text::huggingface
