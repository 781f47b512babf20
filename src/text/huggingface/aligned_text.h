// Text that normalisation changes, with the bytes of the original that each of its bytes stands for.
//
// What an inserted or replaced character stands for follows PyPI's `tokenizers`: a replacement takes the place of what
// it replaces, an inserted character shares the place of the byte before it, and what is dropped leaves no trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/error.h"
#include "heed/text.h"
#include "text/huggingface/characters.h"

namespace heed::text::huggingface {

// Bytes of the original. 32 bits, because there is one for each byte of the text: check_size() bounds texts.
struct Origin {
  uint32_t begin = 0, end = 0;
};

inline constexpr int64_t kMostBytes = int64_t{1} << 30;
// Throws Error for a text that is too long for Origin.
void check_size(std::string_view text);

class AlignedText {
 public:
  // `start`: where `text` begins in the original. Untracked texts have no origins, and are quicker to change.
  AlignedText(std::string text, uint32_t start, bool tracked)
      : text_(std::move(text)), start_(start), tracked_(tracked) {}

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] bool tracked() const { return tracked_; }
  [[nodiscard]] uint32_t start() const { return start_; }
  // What byte `at` stands for.
  [[nodiscard]] Origin origin(size_t at) const {
    if (!origins_.empty()) return origins_[at];
    return character_around(at);
  }
  // What bytes begin to end - 1 stand for. Throws Error unless there is at least one and all are of the text: a model
  // counts them.
  [[nodiscard]] Span span(size_t begin, size_t end) const {
    require(begin < end && end <= text_.size(), "encode", "a token that stands for bytes of its word; found bytes ",
            begin, " to ", end, " of ", text_.size());
    return {origin(begin).begin, origin(end - 1).end};
  }
  // A copy of bytes begin to end - 1.
  [[nodiscard]] AlignedText slice(size_t begin, size_t end) const;

 private:
  friend class Rewriter;
  [[nodiscard]] Origin character_around(size_t at) const;

  std::string text_;
  std::vector<Origin> origins_;  // [byte]; none while the text is as it was
  uint32_t start_;
  bool tracked_;
};

// Writes a new text from an old one, character by character: all of the old text has to be kept, replaced or dropped.
class Rewriter {
 public:
  explicit Rewriter(AlignedText& text);

  [[nodiscard]] size_t at() const { return at_; }  // in the old text
  [[nodiscard]] size_t written() const { return new_text_.size(); }
  // The part of the old text that begins here stands by itself: what is inserted before its first character stands for
  // nothing at byte `start` of the original.
  void begin_part(uint32_t start) {
    part_ = at_;
    part_start_ = start;
  }
  // The next `bytes` bytes stay.
  void keep(size_t bytes);
  void keep_rest() { keep(text_.text_.size() - at_); }
  // One character in place of the next one.
  void replace(std::string_view character) {
    const size_t size = character_size(text_.text_, at_);
    add(character, text_.tracked_ ? text_.origin(at_) : Origin{});
    at_ += size;
  }
  // A character more.
  void insert(std::string_view character) { add(character, text_.tracked_ ? before() : Origin{}); }
  void drop(size_t bytes) { at_ += bytes; }
  void drop_character() { at_ += character_size(text_.text_, at_); }
  // The next `bytes` bytes go, and the first character that is written stands for them too.
  void drop_into_first(size_t bytes);
  // As PyPI's `tokenizers` count changes: 1 for a character more, 0 for one in place of the next one, -n for one in
  // place of the next one whose n followers are dropped.
  void put(int32_t code_point, int64_t change);
  // The text is the new one.
  void finish();

 private:
  void add(std::string_view bytes, Origin origin) {
    new_text_ += bytes;
    if (text_.tracked_) new_origins_.insert(new_origins_.end(), bytes.size(), origin);
  }
  [[nodiscard]] Origin before() const { return at_ > part_ ? text_.origin(at_ - 1) : Origin{part_start_, part_start_}; }

  AlignedText& text_;
  std::string new_text_;
  std::vector<Origin> new_origins_;
  size_t at_ = 0, part_ = 0;
  uint32_t part_start_;
  std::optional<uint32_t> first_begin_;  // in the original
};

}  // namespace heed::text::huggingface
