#include "text/huggingface/token_trie.h"

#include <algorithm>

#include "base/files.h"
#include "heed/error.h"

namespace heed::text::huggingface {

// Places nodes in the order of the sorted texts. Free units are linked, and each node takes the first place among a few
// free ones where all of its children fit: more attempts fill the array better and take longer.
class TokenTrie::Builder {
 public:
  Builder(std::vector<Entry> entries, std::vector<Unit>& units) : entries_(std::move(entries)), units_(units) {
    std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.text < b.text; });
    units_.clear();
    grow();
    take(kRoot);
    struct Open {
      uint32_t node;
      size_t begin, end, depth;  // entries that begin with the node's text, and its bytes
    };
    std::vector<Open> open = {{kRoot, 0, entries_.size(), 0}};
    std::vector<Open> children;
    while (!open.empty()) {
      Open now = open.back();
      open.pop_back();
      while (now.begin < now.end && entries_[now.begin].text.size() == now.depth) {
        units_[now.node].id = entries_[now.begin++].id;
      }
      children.clear();
      labels_.clear();
      for (size_t i = now.begin; i < now.end;) {
        const char label = entries_[i].text[now.depth];
        size_t end = i + 1;
        while (end < now.end && entries_[end].text[now.depth] == label) ++end;
        labels_.push_back(static_cast<uint8_t>(label));
        children.push_back({0, i, end, now.depth + 1});
        i = end;
      }
      if (labels_.empty()) continue;
      const uint32_t base = place();
      units_[now.node].base = base;
      for (size_t i = 0; i < labels_.size(); ++i) {
        const uint32_t child = base ^ labels_[i];
        take(child);
        units_[child].parent = now.node;
        children[i].node = child;
        open.push_back(children[i]);
      }
    }
  }

 private:
  static constexpr int kAttempts = 32;

  void grow() {
    const auto first = static_cast<uint32_t>(units_.size());
    units_.resize(units_.size() + 256);
    links_.resize(units_.size());
    for (uint32_t i = first; i < first + 256; ++i) links_[i] = {i == first ? last_ : i - 1, i + 1};
    links_.back().next = kNone;
    if (last_ != kNone) links_[last_].next = first;
    if (first_ == kNone) first_ = first;
    last_ = first + 255;
    free_.resize(units_.size(), true);
  }

  void take(uint32_t unit) {
    free_[unit] = false;
    const Link link = links_[unit];
    (link.before == kNone ? first_ : links_[link.before].next) = link.next;
    (link.next == kNone ? last_ : links_[link.next].before) = link.before;
  }

  // A base for which the units of all labels are free.
  uint32_t place() {
    int attempts = 0;
    for (uint32_t unit = first_; unit != kNone && attempts < kAttempts; ++attempts) {
      const uint32_t base = unit ^ labels_[0];
      if (std::all_of(labels_.begin(), labels_.end(), [&](uint8_t label) { return free_[base ^ label]; })) return base;
      unit = links_[unit].next;
    }
    // The first free units have been tried long enough: the array would not fill, and each node would try them again.
    for (int i = 0; i < kAttempts / 2 && attempts == kAttempts && labels_.size() > 1 && first_ != kNone; ++i)
      take(first_);
    const auto base = static_cast<uint32_t>(units_.size());
    grow();
    return base;
  }

  static constexpr uint32_t kNone = UINT32_MAX;
  struct Link {
    uint32_t before = kNone, next = kNone;
  };
  std::vector<Entry> entries_;
  std::vector<Unit>& units_;
  std::vector<uint8_t> labels_;
  std::vector<Link> links_;
  std::vector<bool> free_;
  uint32_t first_ = kNone, last_ = kNone;
};

TokenTrie::TokenTrie(std::vector<Entry> entries) {
  for (const Entry& entry : entries) longest_ = std::max(longest_, entry.text.size());
  const Builder builder(std::move(entries), units_);
}

TokenTable::TokenTable(std::vector<std::pair<std::string, int32_t>> tokens, const std::string& name) {
  constexpr int32_t kMost = 1 << 24;
  count_ = static_cast<int32_t>(tokens.size());
  int32_t largest = -1;
  for (const auto& [text, id] : tokens) {
    if (id < 0 || id >= kMost)
      fail("load_tokenizer", name, ": ids from 0 to ", kMost - 1, "; ", files::quoted(text), " has ", id);
    largest = std::max(largest, id);
  }
  texts_.resize(static_cast<size_t>(largest) + 1);
  present_.resize(texts_.size());
  for (auto& token : tokens) {
    const auto place = static_cast<size_t>(token.second);
    if (present_[place]) {
      fail("load_tokenizer", name, ": each id once; ", files::quoted(token.first), " and ",
           files::quoted(texts_[place]), " both have ", token.second);
    }
    present_[place] = true;
    texts_[place] = std::move(token.first);
  }
  std::vector<TokenTrie::Entry> entries;
  entries.reserve(texts_.size());
  for (size_t id = 0; id < texts_.size(); ++id) {
    if (present_[id]) entries.push_back({texts_[id], static_cast<int32_t>(id)});
  }
  trie_ = TokenTrie(std::move(entries));
}

}  // namespace heed::text::huggingface
