// Code points of valid UTF-8, and the classes of characters that Hugging Face's tokenizers ask about.
//
// The classes are those of PyPI's `tokenizers`, whose parts know different versions of Unicode.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heed::text::huggingface {

// Bytes of the character at `at`; the text is valid UTF-8 and `at` a first byte.
[[nodiscard]] inline size_t character_size(std::string_view text, size_t at) {
  const auto lead = static_cast<uint8_t>(text[at]);
  return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

struct Character {
  int32_t code_point = 0;
  size_t size = 0;
};
[[nodiscard]] inline Character character_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<int32_t>(static_cast<uint8_t>(text[at + i])); };
  const int32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xe0) return {(lead & 0x1f) << 6 | (byte(1) & 0x3f), 2};
  if (lead < 0xf0) return {(lead & 0xf) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f), 3};
  return {(lead & 7) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f), 4};
}
// Where the character in front of byte `at` begins; `at` is above 0.
[[nodiscard]] inline size_t last_character_before(std::string_view text, size_t at) {
  --at;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}
// Writes up to 4 bytes and returns how many.
[[nodiscard]] size_t write_character(int32_t code_point, char* bytes);
[[nodiscard]] std::string utf8_of(int32_t code_point);
[[nodiscard]] size_t count_characters(std::string_view text);

[[nodiscard]] bool is_whitespace(int32_t c);       // White_Space
[[nodiscard]] bool is_numeric(int32_t c);          // Nd, Nl, No
[[nodiscard]] bool is_punctuation(int32_t c);      // ASCII punctuation, and P
[[nodiscard]] bool is_control(int32_t c);          // Cc, Cf, Co, without tab and line ends
[[nodiscard]] bool is_mark(int32_t c);             // M
[[nodiscard]] bool is_nonspacing_mark(int32_t c);  // Mn
[[nodiscard]] bool is_word(int32_t c);             // letters, marks, decimal digits, connectors
[[nodiscard]] bool is_chinese(int32_t c);          // the blocks of ideographs that BERT takes apart

}  // namespace heed::text::huggingface
