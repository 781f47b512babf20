// Validity of UTF-8, as table 3-7 of the Unicode standard has it.
#include "text/utf8.h"

#include <cstdint>
#include <cstring>

#include "heed/error.h"
#include "heed/text.h"

namespace heed::text {
namespace {

// Whether text[at .. at + 7] exists and is ASCII: most of most texts, and of every message.
bool eight_of_ascii(std::string_view text, size_t at) {
  uint64_t bytes = 0;
  if (text.size() - at < sizeof(bytes)) return false;
  std::memcpy(&bytes, text.data() + at, sizeof(bytes));
  return (bytes & 0x8080808080808080) == 0;
}

}  // namespace

size_t code_point_size(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(i < text.size() ? text[i] : 0); };
  const auto within = [&](size_t i, int low, int high) { return byte(i) >= low && byte(i) <= high; };
  if (text.empty()) return 0;
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return within(1, 0x80, 0xbf) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const int low = lead == 0xe0 ? 0xa0 : 0x80;   // overlong below
    const int high = lead == 0xed ? 0x9f : 0xbf;  // surrogates above
    return within(1, low, high) && within(2, 0x80, 0xbf) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const int low = lead == 0xf0 ? 0x90 : 0x80;
    const int high = lead == 0xf4 ? 0x8f : 0xbf;
    return within(1, low, high) && within(2, 0x80, 0xbf) && within(3, 0x80, 0xbf) ? 4 : 0;
  }
  return 0;
}

size_t valid_utf8_prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (eight_of_ascii(text, at)) {
      at += 8;
      continue;
    }
    const size_t size = code_point_size(text.substr(at));
    if (size == 0) return at;
    at += size;
  }
  return at;
}

void require_utf8(std::string_view text, std::string_view function, std::string_view name) {
  const size_t valid = valid_utf8_prefix(text);
  if (valid == text.size()) return;
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto byte = static_cast<uint8_t>(text[valid]);
  fail(function, name, name.empty() ? "" : ": ", "valid UTF-8; found byte 0x", kDigits[byte >> 4], kDigits[byte & 15],
       " at position ", valid + 1);
}

}  // namespace heed::text
