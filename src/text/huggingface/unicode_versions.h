// Where versions of Unicode differ: utf8proc and PCRE2 know one each, and the parts of PyPI's `tokenizers` three others
// (8 for classes in normalizers and punctuation, 9 for normal forms, 16 for expressions).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heed::text::huggingface {

// Compared with utf8proc, which knows Unicode 15.
[[nodiscard]] bool is_young_number(int32_t c);           // a number all the same
[[nodiscard]] bool is_young_word(int32_t c);             // a character of a word all the same
[[nodiscard]] bool is_young_punctuation(int32_t c);      // none yet
[[nodiscard]] bool is_young_control(int32_t c);          // none yet
[[nodiscard]] bool is_young_mark(int32_t c);             // none yet, and of combining class 0
[[nodiscard]] bool is_young_nonspacing_mark(int32_t c);  // none yet
[[nodiscard]] bool is_young_compatibility(int32_t c);    // without its compatibility decomposition
[[nodiscard]] int32_t lower_case(int32_t c);             // of U+0130: U+0069, without the U+0307 that follows it

// "\x{..}-\x{..}"
[[nodiscard]] std::string range_in_class(int32_t first, int32_t last);

// Compared with PCRE2 10.42, which knows Unicode 14: the characters that a property has gained, as the inside of a
// class "\x{..}-\x{..}". For general categories and some scripts ("sc:Han"); nothing for
// other properties.
[[nodiscard]] std::string gained_by_property(std::string_view property);

}  // namespace heed::text::huggingface
