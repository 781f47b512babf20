// Unicode's Sentence_Terminal characters as far as living scripts use them, and rules for full stops.
#include "text/sentences.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <string>

#include "text/huggingface/characters.h"

namespace heed::text {
namespace {

using huggingface::Character;
using huggingface::character_at;
using huggingface::is_whitespace;

template <size_t N>
bool is_one_of(const std::array<int32_t, N>& sorted, int32_t c) {
  return std::binary_search(sorted.begin(), sorted.end(), c);
}

// Marks that end a sentence where white space follows.
bool is_spaced_end(int32_t c) {
  static constexpr std::array<int32_t, 20> kMarks = {
      '!',    '.',    '?',    0x0589, 0x061f, 0x06d4,  // Armenian, Arabic, Urdu
      0x0964, 0x0965,                                  // danda and double danda
      0x104a, 0x104b, 0x1362, 0x1367, 0x17d4, 0x17d5,  // Burmese, Ethiopic, Khmer
      0x2026, 0x203c, 0x203d, 0x2047, 0x2048, 0x2049};
  return is_one_of(kMarks, c);
}

// Marks that end one whatever follows.
bool is_wide_end(int32_t c) {
  static constexpr std::array<int32_t, 5> kMarks = {0x3002, 0xff01, 0xff0e, 0xff1f, 0xff61};
  return is_one_of(kMarks, c);
}

bool closes(int32_t c) {
  if (c == '"' || c == '\'' || c == 0xff02 || c == 0xff07) return true;
  const auto category = utf8proc_category(c);
  return category == UTF8PROC_CATEGORY_PE || category == UTF8PROC_CATEGORY_PF;
}

bool is_pause(int32_t c) {
  static constexpr std::array<int32_t, 12> kMarks = {',',    ':',    ';',    0x060c, 0x061b, 0x2013,
                                                     0x2014, 0x3001, 0xff0c, 0xff1a, 0xff1b, 0xff64};
  return is_one_of(kMarks, c);
}

bool is_letter(int32_t c) {
  const auto category = utf8proc_category(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

// The last character that begins before `end`.
Character character_before(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80) --at;
  return character_at(text, at);
}

// The word that ends at `end`: back to white space, an opening mark or `begin`.
std::string_view word_before(std::string_view text, size_t begin, size_t end) {
  size_t at = end;
  while (at > begin) {
    const Character c = character_before(text, at);
    if (!is_letter(c.code_point) && !huggingface::is_numeric(c.code_point) && c.code_point != '.') break;
    at -= c.size;
    if (end - at > 40) break;  // longer than any abbreviation
  }
  return text.substr(at, end - at);
}

// The full stop at `at` belongs to the word before it. The sentence begins at `begin`.
bool belongs_to_word(std::string_view text, size_t begin, size_t at) {
  static constexpr std::array<std::string_view, 29> kAbbreviations = {
      "Capt", "Col", "Dr",  "Fig", "Gen", "Hon", "Lt",  "M",  "Mlle",   "Mme", "Mr", "Mrs", "Ms",  "Mt", "Nr",
      "Prof", "Rep", "Rev", "Sen", "Sgt", "Sr",  "Sra", "St", "approx", "bzw", "cf", "ca",  "usw", "vs"};
  const std::string_view word = word_before(text, begin, at);
  if (word.empty()) return false;
  const bool starts_sentence = word.data() == text.data() + begin;
  if (starts_sentence && std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return true;
  const size_t dot = word.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? word : word.substr(dot + 1);
  if (last.empty()) return false;  // an ellipsis
  const Character first = character_at(last, 0);
  if (first.size == last.size()) return is_letter(first.code_point) && !is_written_without_spaces(first.code_point);
  return std::find(kAbbreviations.begin(), kAbbreviations.end(), last) != kAbbreviations.end();
}

class Sentences {
 public:
  explicit Sentences(std::string_view text) : text_(text) {}

  std::vector<Span> find() {
    while (at_ < text_.size()) {
      const Character c = character_at(text_, at_);
      if (is_whitespace(c.code_point)) {
        const size_t end = at_;
        if (skip_space() >= 2) add(end);
        continue;
      }
      if (!inside_) begin_ = at_;
      inside_ = true;
      if (is_spaced_end(c.code_point) || is_wide_end(c.code_point)) {
        pass_marks();
      } else {
        at_ += c.size;
      }
    }
    add(trimmed(text_).size() + static_cast<size_t>(trimmed(text_).data() - text_.data()));
    return std::move(found_);
  }

 private:
  // Passes over white space; returns how many lines end in it.
  int64_t skip_space() {
    int64_t lines = 0;
    while (at_ < text_.size()) {
      const Character c = character_at(text_, at_);
      if (!is_whitespace(c.code_point)) break;
      lines += c.code_point == '\n' || c.code_point == 0x2029 ? 1 : 0;
      at_ += c.size;
    }
    return lines;
  }

  // Passes over marks that end sentences, and what closes behind them.
  void pass_marks() {
    const size_t first = at_;
    bool wide = false;
    for (bool closing = false; at_ < text_.size();) {
      const Character c = character_at(text_, at_);
      const bool mark = is_spaced_end(c.code_point) || is_wide_end(c.code_point);
      if (mark ? closing : !closes(c.code_point)) break;
      closing = !mark;
      wide = wide || is_wide_end(c.code_point);
      at_ += c.size;
    }
    if (wide || ends_at(at_, first)) add(at_);
  }

  // Whether the marks from `first` on, with what closes behind them before `end`, end the sentence.
  [[nodiscard]] bool ends_at(size_t end, size_t first) {
    if (end == text_.size()) return true;
    const Character next = character_at(text_, end);
    if (!is_whitespace(next.code_point) && !is_written_without_spaces(next.code_point)) return false;
    const bool one_full_stop = text_[first] == '.' && text_[first + 1] != '.';
    if (one_full_stop && belongs_to_word(text_, begin_, first)) return false;
    while (at_ < text_.size() && is_whitespace(character_at(text_, at_).code_point)) {
      if (text_[at_] == '\n') break;  // find() counts the lines
      at_ += character_at(text_, at_).size;
    }
    const bool goes_on = at_ < text_.size() && utf8proc_category(character_at(text_, at_).code_point) == kSmallLetter;
    if (!goes_on) at_ = end;
    return !goes_on;
  }

  void add(size_t end) {
    if (inside_) found_.push_back({static_cast<int64_t>(begin_), static_cast<int64_t>(end)});
    inside_ = false;
  }

  static constexpr auto kSmallLetter = UTF8PROC_CATEGORY_LL;
  std::string_view text_;
  size_t at_ = 0;
  bool inside_ = false;  // a sentence, which begins at begin_
  size_t begin_ = 0;
  std::vector<Span> found_;
};

}  // namespace

std::vector<Span> sentences(std::string_view text) { return Sentences(text).find(); }

size_t last_pause(std::string_view text) {
  size_t space = 0;
  bool space_follows = false;
  for (size_t end = text.size(); end > 0;) {
    const Character c = character_before(text, end);
    if (end < text.size() / 2 && space > 0) break;
    if (is_pause(c.code_point) && end < text.size() && (space_follows || c.code_point >= 0x2014)) {
      if (end >= text.size() / 2) return end;
    }
    end -= c.size;
    space_follows = is_whitespace(c.code_point);
    if (space_follows && space == 0) space = end;
  }
  return space;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty()) {
    const Character c = character_at(text, 0);
    if (!is_whitespace(c.code_point)) break;
    text.remove_prefix(c.size);
  }
  while (!text.empty()) {
    const Character c = character_before(text, text.size());
    if (!is_whitespace(c.code_point)) break;
    text.remove_suffix(c.size);
  }
  return text;
}

bool is_written_without_spaces(int32_t c) {
  return (c >= 0x2e80 && c <= 0x312f) || (c >= 0x31a0 && c <= 0xa4cf) || (c >= 0xf900 && c <= 0xfaff) ||
         (c >= 0xfe30 && c <= 0xfe4f) || (c >= 0xff00 && c <= 0xff9f) || (c >= 0x20000 && c <= 0x3ffff);
}

bool mostly_without_spaces(std::span<const std::string> lines) {
  int64_t all = 0, without = 0;
  for (const std::string& line : lines) {
    for (size_t at = 0; at < line.size();) {
      const auto character = character_at(line, at);
      at += character.size;
      ++all;
      without += is_written_without_spaces(character.code_point) ? 1 : 0;
    }
  }
  return 2 * without > all;
}

bool begins_without_spaces(std::string_view text) {
  return !text.empty() && is_written_without_spaces(character_at(text, 0).code_point);
}

bool ends_without_spaces(std::string_view text) {
  return !text.empty() && is_written_without_spaces(character_before(text, text.size()).code_point);
}

}  // namespace heed::text
