// Places in a text as Python counts them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/text.h"

namespace heed::python {

// Characters, where the library counts bytes.
class Characters {
 public:
  explicit Characters(std::string_view text) {
    const auto is_ascii = [](char byte) { return static_cast<unsigned char>(byte) < 0x80; };
    if (std::all_of(text.begin(), text.end(), is_ascii)) return;
    number_.reserve(text.size());
    int64_t count = 0;
    for (const char byte : text) {
      if ((static_cast<unsigned char>(byte) & 0xC0) != 0x80) ++count;  // the first byte of a character
      number_.push_back(count - 1);
    }
  }
  // The characters that have bytes in the span; a part of a character counts as all of it.
  [[nodiscard]] std::pair<int64_t, int64_t> of(const text::Span& span) const {
    if (number_.empty() || span.begin >= span.end) return {at(span.begin), at(span.begin) + span.end - span.begin};
    return {at(span.begin), at(span.end - 1) + 1};
  }

 private:
  [[nodiscard]] int64_t at(int64_t byte) const {
    if (number_.empty()) return byte;
    return byte < std::ssize(number_) ? number_[static_cast<size_t>(byte)] : number_.back() + 1;
  }

  std::vector<int64_t> number_;  // of each byte, that of its character; none: all are ASCII
};

}  // namespace heed::python
