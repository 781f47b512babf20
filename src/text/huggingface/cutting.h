// Cuts parts of a text at delimiters.
#pragma once

#include <string_view>
#include <vector>

#include "text/huggingface/pre_tokenizers.h"

namespace heed::text::huggingface {

// Collects the parts that stretches of a text become. Stretches follow each other without gaps.
class PartCollector {
 public:
  PartCollector(const AlignedText& text, Delimiters delimiters, std::vector<Part>& parts)
      : text_(text), delimiters_(delimiters), parts_(parts) {}

  // Bytes begin to end - 1 of the text, which are a delimiter or none.
  void add(size_t begin, size_t end, bool is_delimiter) {
    switch (delimiters_) {
      case Delimiters::removed:
        if (!is_delimiter) put(begin, end);
        return;
      case Delimiters::isolated: put(begin, end); return;
      case Delimiters::contiguous: join(begin, end, is_delimiter == was_delimiter_); break;
      case Delimiters::merged_with_previous: join(begin, end, is_delimiter && !was_delimiter_); break;
      case Delimiters::merged_with_next: join(begin, end, !is_delimiter && was_delimiter_); break;
    }
    was_delimiter_ = is_delimiter;
  }
  void finish() {
    if (open_) put(begin_, end_);
    open_ = false;
    was_delimiter_ = false;
  }

 private:
  void join(size_t begin, size_t end, bool with_previous) {
    if (open_ && !with_previous) put(begin_, end_);
    if (!open_ || !with_previous) begin_ = begin;
    end_ = end;
    open_ = true;
  }
  void put(size_t begin, size_t end) {
    if (begin == end) return;
    const uint32_t start = text_.tracked() ? text_.origin(begin).begin : 0;
    parts_.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end), start});
  }

  const AlignedText& text_;
  Delimiters delimiters_;
  std::vector<Part>& parts_;
  size_t begin_ = 0, end_ = 0;
  bool open_ = false, was_delimiter_ = false;
};

// find(text, use) calls use(begin, end) for each delimiter in `text`, from left to right.
template <class Find>
void cut(Parts& parts, Delimiters delimiters, bool invert, const Find& find) {
  std::vector<Part> made;
  made.reserve(parts.parts.size());
  PartCollector collector(parts.text, delimiters, made);
  for (const Part& part : parts.parts) {
    size_t done = part.begin;
    find(std::string_view(parts.text.text()).substr(part.begin, part.end - part.begin), [&](size_t begin, size_t end) {
      begin += part.begin;
      end += part.begin;
      if (done != begin) collector.add(done, begin, invert);
      collector.add(begin, end, !invert);
      done = end;
    });
    if (done != part.end) collector.add(done, part.end, invert);
    collector.finish();
  }
  parts.parts = std::move(made);
}

// The delimiters are single characters.
template <class IsDelimiter>
void cut_at_characters(Parts& parts, Delimiters delimiters, const IsDelimiter& is_delimiter) {
  cut(parts, delimiters, false, [&](std::string_view text, const auto& use) {
    for (size_t at = 0; at < text.size();) {
      const Character c = character_at(text, at);
      if (is_delimiter(c.code_point)) use(at, at + c.size);
      at += c.size;
    }
  });
}

}  // namespace heed::text::huggingface
