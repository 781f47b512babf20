#include "text/huggingface/characters.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "text/huggingface/unicode_versions.h"

namespace heed::text::huggingface {

namespace {

bool is_ascii_punctuation(int32_t c) {
  return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
}

bool between(utf8proc_category_t category, utf8proc_category_t first, utf8proc_category_t last) {
  return category >= first && category <= last;
}

}  // namespace

size_t write_character(int32_t code_point, char* bytes) {
  return static_cast<size_t>(utf8proc_encode_char(code_point, reinterpret_cast<utf8proc_uint8_t*>(bytes)));
}

std::string utf8_of(int32_t code_point) {
  char bytes[4];
  return {bytes, write_character(code_point, bytes)};
}

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
}

bool is_whitespace(int32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
         c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_numeric(int32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return between(utf8proc_category(c), UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO) || is_young_number(c);
}

bool is_punctuation(int32_t c) {
  if (c < 0x80) return is_ascii_punctuation(c);
  if (c == 0x166d || c == 0x111c9) return true;  // punctuation in Unicode 8, another class today
  return between(utf8proc_category(c), UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO) && !is_young_punctuation(c);
}

bool is_control(int32_t c) {
  if (c < 0x80) return c == 127 || (c < 32 && c != '\t' && c != '\n' && c != '\r');
  const auto category = utf8proc_category(c);
  return (category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO) &&
         !is_young_control(c);
}

bool is_mark(int32_t c) {
  if (c < 0x300) return false;
  if (c == 0x1cf2 || c == 0x1cf3) return true;  // marks in Unicode 9, letters today
  return between(utf8proc_category(c), UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME) && !is_young_mark(c);
}

bool is_nonspacing_mark(int32_t c) {
  if (c < 0x300) return false;
  if (c == 0x1734) return true;  // a nonspacing mark in Unicode 8
  return utf8proc_category(c) == UTF8PROC_CATEGORY_MN && !is_young_nonspacing_mark(c);
}

bool is_word(int32_t c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  const auto category = utf8proc_category(c);
  return between(category, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_NL) || category == UTF8PROC_CATEGORY_PC ||
         c == 0x200c || c == 0x200d || is_young_word(c);
}

bool is_chinese(int32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
         (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

}  // namespace heed::text::huggingface
