// Byte pair encoding: a word begins as its characters, and the pair of neighbours that was merged first in training is
// merged until there is none.
#include <algorithm>
#include <array>
#include <map>
#include <unordered_set>

#include "base/files.h"
#include "heed/error.h"
#include "text/huggingface/characters.h"
#include "text/huggingface/merge_table.h"
#include "text/huggingface/model.h"
#include "text/huggingface/normalizers.h"

namespace heed::text::huggingface {

namespace {

// Up to this many symbols, looking at all pairs is quicker than a heap.
constexpr size_t kFewSymbols = 32;

// The bytes that a token of a byte-level vocabulary stands for, or nothing.
std::optional<std::string> bytes_of(std::string_view token) {
  std::string bytes;
  for (size_t at = 0; at < token.size();) {
    const Character c = character_at(token, at);
    const int byte = byte_of_character(c.code_point);
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
    at += c.size;
  }
  return bytes;
}

class Bpe : public Model {
 public:
  Bpe(TokenTable table, const MergePairs& merges, const BpeOptions& options, const std::string& name)
      : Model(std::move(table)), o_(options), merges_(merges.size()) {
    if (o_.unknown) {
      unknown_ = tokens().find(*o_.unknown);
    }
    for (size_t b = 0; b < 256; ++b) {
      const auto byte = static_cast<uint8_t>(b);
      byte_fallback_[b] = tokens().find({kFallback[b].data(), kFallback[b].size()});
      bytes_[b] = tokens().find(byte_character(byte));
    }
    if (o_.as_bytes && o_.ignore_merges) {
      for (int32_t id = 0; id < tokens().size(); ++id) {
        auto bytes = tokens().has(id) ? bytes_of(tokens().text(id)) : std::nullopt;
        if (bytes) whole_texts_.emplace_back(std::move(*bytes), id);
      }
      std::vector<TokenTrie::Entry> entries;
      for (const auto& [text, id] : whole_texts_) entries.push_back({text, id});
      whole_words_ = TokenTrie(std::move(entries));
    }
    read_merges(merges, name);
  }

  std::string kind() const override { return "bpe"; }
  int32_t unknown() const override { return unknown_; }

  void cut(std::string_view word, std::vector<Cut>& cuts, Workspace& workspace) const override {
    if (o_.ignore_merges) {
      const int32_t whole = o_.as_bytes ? whole_words_.find(word) : tokens().find(word);
      if (whole >= 0) {
        cuts.push_back({whole, 0, static_cast<uint32_t>(word.size())});
        return;
      }
    }
    if (parts_at_meta_spaces_ && word.size() > WordCache::kLongest) return cut_in_parts(word, cuts, workspace);
    cut_whole(word, cuts, workspace);
  }

 private:
  using Symbol = Workspace::Symbol;
  using Merge = Workspace::Merge;

  static constexpr std::string_view kMetaSpace = "\u2581";

  // Where no token has the character before a "▁" and that one side by side, nothing is ever merged over the gap
  // between them. So models that take a whole text as one word may cut it there, and know many of the parts already.
  void cut_in_parts(std::string_view text, std::vector<Cut>& cuts, Workspace& workspace) const {
    for (size_t begin = 0; begin < text.size();) {
      size_t end = begin + character_size(text, begin);
      for (; end < text.size(); end = std::min(text.find(kMetaSpace, end + 1), text.size())) {
        if (!text.substr(end).starts_with(kMetaSpace)) continue;
        size_t before = end - 1;
        while ((static_cast<uint8_t>(text[before]) & 0xc0) == 0x80) --before;
        if (!before_meta_space_.contains(character_at(text, before).code_point)) break;
      }
      const std::string_view part = text.substr(begin, end - begin);
      const size_t first = cuts.size();
      const bool is_short = part.size() <= WordCache::kLongest;
      const uint64_t hash = is_short ? WordCache::hash_of(part) : 0;
      if (!is_short || !workspace.cache.find(part, hash, cuts)) {
        cut_whole(part, cuts, workspace);
        if (is_short) workspace.cache.keep(part, hash, cuts.data() + first, cuts.size() - first);
      }
      for (size_t i = first; i < cuts.size(); ++i) {
        cuts[i].begin += static_cast<uint32_t>(begin);
        cuts[i].end += static_cast<uint32_t>(begin);
      }
      begin = end;
    }
  }

  void cut_whole(std::string_view word, std::vector<Cut>& cuts, Workspace& workspace) const {
    auto& symbols = workspace.symbols;
    symbols.clear();
    if (o_.as_bytes) {
      for (const char c : word) symbols.push_back({bytes_[static_cast<uint8_t>(c)], 1, -1, -1});
    } else {
      begin_with_characters(word, symbols);
    }
    if (symbols.size() <= kFewSymbols) {
      merge_few(symbols);
    } else {
      merge_many(symbols, workspace.merges);
    }
    // The bytes of a prefix and a suffix count as the word's, as they do in PyPI's `tokenizers`: what lies behind the
    // word stands for its last byte.
    const auto size = static_cast<uint32_t>(word.size());
    uint32_t begin = 0;
    for (const auto& symbol : symbols) {
      if (symbol.size == 0) continue;
      cuts.push_back({symbol.id, std::min(begin, size - 1), std::min(begin + symbol.size, size)});
      begin += symbol.size;
    }
  }

  static constexpr auto kFallback = [] {
    std::array<std::array<char, 6>, 256> texts{};
    for (size_t b = 0; b < 256; ++b) {
      constexpr std::string_view kDigits = "0123456789ABCDEF";
      texts[b] = {'<', '0', 'x', kDigits[b / 16], kDigits[b % 16], '>'};
    }
    return texts;
  }();

  void read_merges(const MergePairs& merges, const std::string& name) {
    std::string whole;
    for (size_t rank = 0; rank < merges.size(); ++rank) {
      const auto& [left, right] = merges[rank];
      const auto known = [&](const std::string& token) {
        const int32_t id = tokens().find(token);
        if (id < 0)
          fail("load_tokenizer", name, ", merge ", rank, ": tokens of the vocabulary; found ", files::quoted(token));
        return id;
      };
      const int32_t first = known(left), second = known(right);
      if (right.size() < o_.prefix.size()) {
        fail("load_tokenizer", name, ", merge ", rank, ": a second token with the prefix of continuing ones; found ",
             files::quoted(right));
      }
      whole.assign(left).append(right, o_.prefix.size());
      merges_.put(first, second, {static_cast<int32_t>(rank), known(whole)});
      for (size_t at = whole.find(kMetaSpace, 1); at != std::string::npos; at = whole.find(kMetaSpace, at + 1)) {
        size_t before = at - 1;
        while (before > 0 && (static_cast<uint8_t>(whole[before]) & 0xc0) == 0x80) --before;
        before_meta_space_.insert(character_at(whole, before).code_point);
      }
    }
    // Without a token for what is unknown, the bytes of a word's tokens would count otherwise.
    const bool knows_all =
        unknown_ >= 0 || (o_.byte_fallback && *std::min_element(byte_fallback_.begin(), byte_fallback_.end()) >= 0);
    parts_at_meta_spaces_ = knows_all && !o_.as_bytes && !o_.ignore_merges && o_.prefix.empty() && o_.suffix.empty() &&
                            tokens().find(kMetaSpace) >= 0;
  }

  void begin_with_characters(std::string_view word, std::vector<Symbol>& symbols) const {
    int32_t unknown_id = -1;
    uint32_t unknown_size = 0;
    const auto flush = [&] {
      if (unknown_id >= 0) symbols.push_back({unknown_id, unknown_size, -1, -1});
      unknown_id = -1;
    };
    std::string with_affixes;
    for (size_t at = 0; at < word.size();) {
      const auto size = static_cast<uint32_t>(character_size(word, at));
      std::string_view text = word.substr(at, size);
      const bool is_first = at == 0, is_last = at + size == word.size();
      at += size;
      if ((!is_first && !o_.prefix.empty()) || (is_last && !o_.suffix.empty())) {
        with_affixes = is_first ? "" : o_.prefix;
        with_affixes += text;
        if (is_last) with_affixes += o_.suffix;
        text = with_affixes;
      }
      const int32_t id = tokens().find(text);
      if (id >= 0) {
        flush();
        symbols.push_back({id, size, -1, -1});
        continue;
      }
      if (o_.byte_fallback && has_bytes(text)) {
        for (const char c : text) symbols.push_back({byte_fallback_[static_cast<uint8_t>(c)], 1, -1, -1});
        continue;
      }
      if (!o_.unknown) continue;  // PyPI's `tokenizers` leaves such a character out
      require(unknown_ >= 0, "encode", "an unknown token that is in the vocabulary; found ", files::quoted(*o_.unknown),
              ", which is not");
      if (unknown_id >= 0 && o_.fuse_unknown) {
        unknown_size += size;
      } else {
        flush();
        unknown_id = unknown_;
        unknown_size = size;
      }
    }
    flush();
  }

  bool has_bytes(std::string_view text) const {
    return std::all_of(text.begin(), text.end(), [&](char c) { return byte_fallback_[static_cast<uint8_t>(c)] >= 0; });
  }

  // The symbols stay close together, and the rank of each pair is looked up once.
  void merge_few(std::vector<Symbol>& symbols) const {
    std::array<MergeTable::Found, kFewSymbols> pairs;  // [i]: symbols i and i + 1
    size_t count = symbols.size();
    const auto pair_at = [&](size_t i) { return merges_.find(symbols[i].id, symbols[i + 1].id); };
    for (size_t i = 0; i + 1 < count; ++i) pairs[i] = pair_at(i);
    while (count > 1) {
      size_t best = 0;
      for (size_t i = 1; i + 1 < count; ++i) {
        if (pairs[i].rank < pairs[best].rank) best = i;
      }
      if (pairs[best].rank == INT32_MAX) break;
      symbols[best].id = pairs[best].id;
      symbols[best].size += symbols[best + 1].size;
      --count;
      for (size_t i = best + 1; i < count; ++i) symbols[i] = symbols[i + 1];
      for (size_t i = best + 1; i + 1 < count; ++i) pairs[i] = pairs[i + 1];
      if (best + 1 < count) pairs[best] = pair_at(best);
      if (best > 0) pairs[best - 1] = pair_at(best - 1);
    }
    symbols.resize(count);
  }

  // Symbols that are linked, and the places of pairs by their rank: the time is linear in them but for sorting, even
  // where millions of pairs have one rank. Pairs that become possible while their rank, or a later one, is under way go
  // into a heap. Entries of pairs that are gone are skipped.
  void merge_many(std::vector<Symbol>& symbols, std::vector<Merge>& heap) const {
    const auto later = [](const Merge& a, const Merge& b) {
      return a.rank != b.rank ? a.rank > b.rank : a.place > b.place;
    };
    const auto count = static_cast<int32_t>(symbols.size());
    const auto at = [&](int32_t place) -> Symbol& { return symbols[static_cast<size_t>(place)]; };
    struct Places {
      int32_t id = -1;
      std::vector<int32_t> places;
    };
    std::map<int32_t, Places> waiting;  // by rank
    int32_t under_way = -1;             // rank
    heap.clear();
    const auto offer = [&](int32_t left, int32_t right) {
      const auto found = merges_.find(at(left).id, at(right).id);
      if (found.rank == INT32_MAX) return;
      if (found.rank <= under_way) {
        heap.push_back({found.rank, left, found.id});
        std::push_heap(heap.begin(), heap.end(), later);
      } else {
        Places& places = waiting[found.rank];
        places.id = found.id;
        places.places.push_back(left);
      }
    };
    const auto merge = [&](int32_t place, int32_t id) {
      Symbol& left = at(place);
      if (left.size == 0 || left.next < 0) return;
      Symbol& right = at(left.next);
      if (merges_.find(left.id, right.id).id != id) return;
      left.id = id;
      left.size += right.size;
      left.next = right.next;
      right.size = 0;
      if (left.next >= 0) at(left.next).before = place;
      if (left.before >= 0) offer(left.before, place);
      if (left.next >= 0) offer(place, left.next);
    };
    // Everything in the heap that comes before this rank and place.
    const auto merge_before = [&](int32_t rank, int32_t place) {
      while (!heap.empty() && later({rank, place, -1}, heap.front())) {
        std::pop_heap(heap.begin(), heap.end(), later);
        const Merge top = heap.back();
        heap.pop_back();
        merge(top.place, top.id);
      }
    };
    for (int32_t i = 0; i < count; ++i) {
      at(i).before = i - 1;
      at(i).next = i + 1 < count ? i + 1 : -1;
      if (i + 1 < count) offer(i, i + 1);
    }
    while (!waiting.empty()) {
      const auto first = waiting.begin();
      under_way = first->first;
      Places now = std::move(first->second);
      waiting.erase(first);
      if (!std::is_sorted(now.places.begin(), now.places.end())) std::sort(now.places.begin(), now.places.end());
      for (const int32_t place : now.places) {
        merge_before(under_way, place);
        merge(place, now.id);
      }
      merge_before(INT32_MAX, INT32_MAX);
    }
  }

  BpeOptions o_;
  int32_t unknown_ = -1;
  MergeTable merges_;
  std::array<int32_t, 256> bytes_{};          // the token of each byte's character
  std::array<int32_t, 256> byte_fallback_{};  // "<0x41>"
  bool parts_at_meta_spaces_ = false;
  std::unordered_set<int32_t> before_meta_space_;  // characters that a token has before a "▁"
  std::vector<std::pair<std::string, int32_t>> whole_texts_;
  TokenTrie whole_words_;  // of their bytes
};

}  // namespace

bool has_all_bytes(const TokenTable& tokens) {
  for (int32_t b = 0; b < 256; ++b) {
    if (tokens.find(byte_character(static_cast<uint8_t>(b))) < 0) return false;
  }
  return true;
}

ModelPointer bpe_model(TokenTable tokens, const MergePairs& merges, const BpeOptions& options,
                       const std::string& name) {
  return std::make_unique<Bpe>(std::move(tokens), merges, options, name);
}

}  // namespace heed::text::huggingface
