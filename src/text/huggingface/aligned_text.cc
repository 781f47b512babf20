#include "text/huggingface/aligned_text.h"

#include "heed/error.h"

namespace heed::text::huggingface {

void check_size(std::string_view text) {
  require(static_cast<int64_t>(text.size()) <= kMostBytes, "encode", "a text of at most 1 GiB; found ", text.size(),
          " bytes");
}

Origin AlignedText::character_around(size_t at) const {
  size_t begin = at;
  while (begin > 0 && (static_cast<uint8_t>(text_[begin]) & 0xc0) == 0x80) --begin;
  const auto first = static_cast<uint32_t>(begin);
  return {start_ + first, start_ + first + static_cast<uint32_t>(character_size(text_, begin))};
}

AlignedText AlignedText::slice(size_t begin, size_t end) const {
  AlignedText part(text_.substr(begin, end - begin), start_ + static_cast<uint32_t>(begin), tracked_);
  if (origins_.empty()) return part;
  part.start_ = origins_[begin].begin;
  part.origins_.assign(origins_.begin() + static_cast<ptrdiff_t>(begin),
                       origins_.begin() + static_cast<ptrdiff_t>(end));
  return part;
}

Rewriter::Rewriter(AlignedText& text) : text_(text), part_start_(text.start_) {
  new_text_.reserve(text.text_.size() + text.text_.size() / 8 + 16);
  if (!text_.tracked_) return;
  new_origins_.reserve(new_text_.capacity());
  if (!text_.origins_.empty()) return;
  text_.origins_.reserve(text_.text_.size());
  for (size_t at = 0; at < text_.text_.size();) {
    const size_t size = character_size(text_.text_, at);
    const auto begin = text_.start_ + static_cast<uint32_t>(at);
    text_.origins_.insert(text_.origins_.end(), size, {begin, begin + static_cast<uint32_t>(size)});
    at += size;
  }
}

void Rewriter::keep(size_t bytes) {
  new_text_.append(text_.text_, at_, bytes);
  if (text_.tracked_) {
    const auto from = text_.origins_.begin() + static_cast<ptrdiff_t>(at_);
    new_origins_.insert(new_origins_.end(), from, from + static_cast<ptrdiff_t>(bytes));
  }
  at_ += bytes;
}

void Rewriter::put(int32_t code_point, int64_t change) {
  char bytes[4];
  const std::string_view character(bytes, write_character(code_point, bytes));
  if (change > 0) return insert(character);
  replace(character);
  for (int64_t i = change; i < 0 && at_ < text_.text_.size(); ++i) drop_character();
}

void Rewriter::drop_into_first(size_t bytes) {
  if (text_.tracked_ && bytes > 0 && !first_begin_) first_begin_ = text_.origin(at_).begin;
  at_ += bytes;
}

void Rewriter::finish() {
  require(new_text_.size() <= INT32_MAX, "encode", "a text below 2 GiB when it is normalised; found ", new_text_.size(),
          " bytes");
  text_.text_ = std::move(new_text_);
  if (first_begin_ && !text_.text_.empty()) {
    const size_t first = character_size(text_.text_, 0);
    for (size_t i = 0; i < first; ++i) new_origins_[i].begin = *first_begin_;
  }
  text_.origins_ = std::move(new_origins_);
}

}  // namespace heed::text::huggingface
