#include "pipelines/words.h"

#include <algorithm>

#include "pipelines/encoding.h"
#include "text/huggingface/characters.h"
#include "text/sentences.h"
#include "text/tokenizers.h"

namespace heed::pipelines {
namespace {

namespace hf = text::huggingface;

// Bytes of the text that a token stands for, without white space at either end.
struct Piece {
  std::string_view bytes;
  size_t dropped = 0;  // bytes behind these: marks and joiners that the tokenizer leaves out
  bool special = false;
};

bool is_inside_words(int32_t c) {
  return (hf::is_word(c) || c == '\'' || c == 0x2019) && !text::is_written_without_spaces(c);
}

// Marks, joiners of letters (U+200C, U+200D) and soft hyphens: tokenizers may leave them out within a word.
bool may_be_dropped(int32_t c) { return hf::is_mark(c) || c == 0x200c || c == 0x200d || c == 0xad; }

// How many bytes of such characters the text begins with.
size_t dropped_bytes(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const hf::Character c = hf::character_at(text, at);
    if (!may_be_dropped(c.code_point)) break;
    at += c.size;
  }
  return at;
}

// The second piece goes on with the word that the first one ends with. Both lie in one text.
bool goes_on(std::string_view first, size_t dropped, std::string_view second) {
  const char* const end = first.data() + first.size();
  if (second.data() < end) return true;  // of one character, as bytes are
  if (second.data() > end + dropped || first.empty() || second.empty()) return false;
  size_t last = first.size() - 1;
  while (last > 0 && (static_cast<uint8_t>(first[last]) & 0xc0) == 0x80) --last;
  return is_inside_words(hf::character_at(first, last).code_point) &&
         is_inside_words(hf::character_at(second, 0).code_point);
}

// How many of these bytes are shown where a word ends with them: marks are, joiners and soft hyphens are not.
size_t shown_at_end(std::string_view dropped) {
  for (bool found = true; found;) {
    found = false;
    for (const std::string_view hidden : {"\u200c", "\u200d", "\u00ad"}) {
      if (!dropped.ends_with(hidden)) continue;
      dropped.remove_suffix(hidden.size());
      found = true;
    }
  }
  return dropped.size();
}

inspect::Words words_of_pieces(const std::vector<Piece>& pieces, const std::vector<std::string>& spelt) {
  inspect::Words words;
  std::string_view word;    // what the current one has in the text
  size_t dropped = 0;       // bytes behind it that belong to it
  bool lacks_text = false;  // all of its pieces stand for white space: what follows is a part of it
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    const bool same_kind = i > 0 && !piece.special && !pieces[i - 1].special;
    if (same_kind && lacks_text) {
      if (!piece.bytes.empty()) word = piece.bytes;
    } else if (!same_kind || word.empty() || piece.bytes.empty() || !goes_on(word, dropped, piece.bytes)) {
      words.texts.push_back(piece.bytes.empty() ? spelt[i] : std::string(piece.bytes));
      word = piece.special ? std::string_view() : piece.bytes;
    } else {
      const char* const end = std::max(word.data() + word.size(), piece.bytes.data() + piece.bytes.size());
      word = {word.data(), static_cast<size_t>(end - word.data())};
    }
    dropped = piece.dropped;
    if (!word.empty() && !piece.bytes.empty())
      words.texts.back() = {word.data(), word.size() + shown_at_end({word.data() + word.size(), dropped})};
    lacks_text = !piece.special && piece.bytes.empty() && (lacks_text || words.texts.back() == spelt[i]);
    words.of_token.push_back(static_cast<int32_t>(words.texts.size()) - 1);
  }
  return words;
}

}  // namespace

inspect::Words words_of(const text::Tokenizer& tokenizer, std::string_view text, const text::Tokens& tokens) {
  std::vector<Piece> pieces(tokens.ids.size());
  std::vector<std::string> spelt(tokens.ids.size());
  size_t next = text.size();  // where the token behind begins
  for (size_t i = tokens.ids.size(); i-- > 0;) {
    const auto [begin, end] = tokens.spans[i];
    const bool inside = begin <= end && end <= static_cast<int64_t>(text.size());
    const std::string_view bytes =
        inside ? text.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin)) : std::string_view();
    pieces[i] = {.bytes = text::trimmed(bytes), .special = tokens.special[i] != 0};
    // The mask of heed's own models is no token of the tokenizer.
    const bool known = tokens.ids[i] < tokenizer.vocabulary();
    spelt[i] = known ? label_of(tokenizer, tokens.ids[i]) : std::string(bytes);
    if (pieces[i].special || pieces[i].bytes.empty()) continue;
    const auto behind = static_cast<size_t>(pieces[i].bytes.data() + pieces[i].bytes.size() - text.data());
    if (behind < next) pieces[i].dropped = dropped_bytes(text.substr(behind, next - behind));
    next = static_cast<size_t>(begin);
  }
  return words_of_pieces(pieces, spelt);
}

inspect::Words words_of(const text::Tokenizer& tokenizer, std::span<const int32_t> ids) {
  const std::string text = tokenizer.decode(ids);
  const text::Tokens tokens = tokenizer.tokens(text, {.add_special = false});
  if (std::equal(ids.begin(), ids.end(), tokens.ids.begin(), tokens.ids.end()))
    return words_of(tokenizer, text, tokens);
  // Another way to cut the text: what each token adds to it.
  std::vector<Piece> pieces;
  std::vector<std::string> spelt;
  std::string before;
  for (size_t i = 0; i < ids.size(); ++i) {
    std::string now = tokenizer.decode(ids.first(i + 1));
    const size_t same =
        static_cast<size_t>(std::mismatch(before.begin(), before.end(), now.begin(), now.end()).second - now.begin());
    const size_t begin = std::min({same, before.size(), text.size()}), end = std::min(now.size(), text.size());
    const std::string_view bytes = std::string_view(text).substr(begin, std::max(begin, end) - begin);
    const bool whole = text::valid_utf8_prefix(bytes) == bytes.size();
    pieces.push_back({.bytes = whole ? text::trimmed(bytes) : std::string_view(), .special = false});
    spelt.push_back(label_of(tokenizer, ids[i]));
    before = std::move(now);
  }
  return words_of_pieces(pieces, spelt);
}

inspect::Words words_of_first(const text::Tokenizer& tokenizer, std::string_view text, size_t count) {
  text::Tokens tokens = tokenizer.tokens(text, {.add_special = false});
  tokens.ids.resize(count);
  return words_of(tokenizer, text, tokens);
}

void add_special_word(inspect::Words& words, const std::string& token, bool in_front) {
  if (!in_front) {
    words.of_token.push_back(static_cast<int32_t>(words.texts.size()));
    words.texts.push_back(token);
    return;
  }
  for (int32_t& word : words.of_token) ++word;
  words.of_token.insert(words.of_token.begin(), 0);
  words.texts.insert(words.texts.begin(), token);
}

}  // namespace heed::pipelines
