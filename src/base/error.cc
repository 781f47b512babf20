// What every message has in common: it is one line of UTF-8, whatever a file put into it.
#include "heed/error.h"

#include <cstdint>

namespace heed::detail {
namespace {

// The bytes of the character that begins at text[at]; 0 where they are not UTF-8 or a control character.
size_t character_size(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return at + i < text.size() ? static_cast<uint8_t>(text[at + i]) : uint8_t{0}; };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7f ? 1 : 0;
  const size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const uint32_t first_two = uint32_t{lead} << 8 | byte(1);
  const bool allowed = (first_two >= 0xc2a0 && first_two <= 0xdfbf) ||  // below 0xc2a0: controls, or too long a form
                       (first_two >= 0xe0a0 && first_two <= 0xefbf && (first_two < 0xeda0 || first_two > 0xedbf)) ||
                       (first_two >= 0xf090 && first_two <= 0xf48f);
  return allowed ? size : 0;
}

}  // namespace

void make_plain(std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const size_t size = character_size(text, at);
    if (size == 0) text[at] = '?';
    at += size == 0 ? 1 : size;
  }
}

}  // namespace heed::detail
