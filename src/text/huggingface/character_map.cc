// The normalizer "Precompiled": SentencePiece's map from characters to their replacements.
//
// The map is a double-array trie (Darts-clone): 32-bit units, bits 0-7 and 31 the label, bit 8 "has a value", bits
// 10-30 the offset, bit 9 "offset times 256". Values are places in a block of strings that end with NUL.
//
// PyPI's `tokenizers` asks the map for each grapheme cluster of at most 5 bytes, and for the characters of the others,
// and takes the shortest key that the cluster begins with. This file does the same.
#include <utf8proc.h>

#include <algorithm>

#include "heed/error.h"
#include "text/huggingface/normalizers.h"
#include "text/utf8.h"

namespace heed::text::huggingface {

namespace {

// Marks of Unicode 16 and 17, which utf8proc does not know: they belong to the character before, as U+0300 does.
constexpr int32_t kExtender = 0x300;
bool is_young_extender(int32_t c) { return c == 0x897 || (c >= 0x1acf && c <= 0x1add) || (c >= 0x1ae0 && c <= 0x1aeb); }

class CharacterMap : public Normalizer {
 public:
  CharacterMap(std::string_view map, const std::string& name) {
    const auto number = [&](size_t at) {
      uint32_t value = 0;
      for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<uint8_t>(map[at + i]);
      return value;
    };
    require(map.size() >= 4, "load_tokenizer", name, ": a character map; found ", map.size(), " bytes");
    const size_t trie_bytes = number(0);
    require(trie_bytes % 4 == 0 && trie_bytes > 0 && trie_bytes <= map.size() - 4, "load_tokenizer", name,
            ": a character map with its trie inside; found ", map.size(), " bytes for a trie of ", trie_bytes);
    for (size_t at = 0; at < trie_bytes; at += 4) units_.push_back(number(4 + at));
    strings_ = map.substr(4 + trie_bytes);
    require(valid_utf8_prefix(strings_) == strings_.size(), "load_tokenizer", name,
            ": a character map with replacements in UTF-8; found other bytes");
    require(strings_.empty() || strings_.back() == '\0', "load_tokenizer", name,
            ": a character map whose replacements end; the last does not");
    for (size_t c = 0; c < 128; ++c) {
      const char character = static_cast<char>(c);
      changes_ascii_[c] = find({&character, 1}).found;
    }
  }

  void apply(AlignedText& text) const override {
    const std::string& old = text.text();
    if (unchanged_ascii(old) == old.size()) return;
    Output out(text);
    for (size_t at = 0; at < old.size();) {
      const size_t plain = unchanged_ascii(std::string_view(old).substr(at));
      if (plain > 1) {  // the last character of the run may have a mark behind it
        const size_t kept = at + plain == old.size() ? plain : plain - 1;
        out.keep(kept);
        at += kept;
        continue;
      }
      const std::string_view cluster(old.data() + at, cluster_size(old, at));
      at += cluster.size();
      if (cluster.size() < 6) {
        if (const Found found = find(cluster); found.found) {
          out.replace(cluster, found.replacement);
          continue;
        }
      }
      for (size_t i = 0; i < cluster.size();) {
        const std::string_view character = cluster.substr(i, character_size(cluster, i));
        const Found found = find(character);
        out.replace(character, found.found ? found.replacement : character);
        i += character.size();
      }
    }
    out.finish();
  }

 private:
  struct Found {
    bool found = false;
    std::string_view replacement = {};
  };

  // The last character written waits: what is dropped behind it counts as its change.
  class Output {
   public:
    explicit Output(AlignedText& text) : out_(text) {}
    void keep(size_t bytes) {
      flush();
      out_.keep(bytes);
    }
    void replace(std::string_view before, std::string_view after) {
      const auto old_count = static_cast<int64_t>(count_characters(before));
      const auto new_count = static_cast<int64_t>(count_characters(after));
      int64_t written = 0;
      for (size_t at = 0; at < after.size();) {
        const Character c = character_at(after, at);
        flush();
        waiting_ = c.code_point;
        change_ = ++written > old_count ? 1 : 0;
        at += c.size;
      }
      if (waiting_ >= 0) {
        change_ += std::min<int64_t>(0, new_count - old_count);
      } else {
        // At the beginning of the text: `tokenizers` counts all that follows as that much further to the left. Here the
        // first character takes the place, so that the text begins where it begins there.
        out_.drop_into_first(before.size());
      }
    }
    void finish() {
      flush();
      out_.finish();
    }

   private:
    void flush() {
      if (waiting_ >= 0) out_.put(waiting_, change_);
      waiting_ = -1;
    }
    Rewriter out_;
    int32_t waiting_ = -1;
    int64_t change_ = 0;
  };

  size_t unchanged_ascii(std::string_view text) const {
    size_t at = 0;
    while (at < text.size() && static_cast<uint8_t>(text[at]) < 0x80 && text[at] != '\r' &&
           !changes_ascii_[static_cast<uint8_t>(text[at])]) {
      ++at;
    }
    return at;
  }

  static size_t cluster_size(std::string_view text, size_t begin) {
    Character c = character_at(text, begin);
    size_t at = begin + c.size;
    utf8proc_int32_t state = 0;
    while (at < text.size()) {
      Character next = character_at(text, at);
      if (is_young_extender(next.code_point)) next.code_point = kExtender;
      if (utf8proc_grapheme_break_stateful(c.code_point, next.code_point, &state)) break;
      at += next.size;
      c = next;
    }
    return at - begin;
  }

  // The replacement of the shortest key that `text` begins with.
  Found find(std::string_view text) const {
    const auto offset = [](uint32_t unit) { return static_cast<size_t>(unit >> 10) << ((unit & (1u << 9)) >> 6); };
    size_t node = offset(units_[0]);
    for (const char c : text) {
      const auto label = static_cast<uint8_t>(c);
      if (label == 0) break;
      node ^= label;
      if (node >= units_.size() || (units_[node] & 0x800000ffu) != label) break;
      const uint32_t unit = units_[node];
      node ^= offset(unit);
      if ((unit >> 8 & 1) == 0) continue;
      if (node >= units_.size()) break;
      const size_t place = units_[node] & 0x7fffffffu;
      if (place >= strings_.size()) break;
      const std::string_view rest = std::string_view(strings_).substr(place);
      if ((static_cast<uint8_t>(rest[0]) & 0xc0) == 0x80) break;  // in the middle of a character
      return {true, rest.substr(0, rest.find('\0'))};
    }
    return {};
  }

  std::vector<uint32_t> units_;
  std::string strings_;
  bool changes_ascii_[128] = {};
};

}  // namespace

NormalizerPointer character_map_normalizer(std::string_view map, const std::string& name) {
  return std::make_unique<CharacterMap>(map, name);
}

}  // namespace heed::text::huggingface
