#include "inspect/words.h"

#include <utf8proc.h>

#include "inspect/utf8.h"

namespace heed::inspect {

bool is_word(std::string_view token) {
  const bool marked = token.size() >= 3 &&
                      ((token.front() == '<' && token.back() == '>') || (token.front() == '[' && token.back() == ']'));
  if (marked) return false;
  constexpr char32_t kWordMark = 0x2581;  // SentencePiece's "▁", to Unicode a picture
  for (size_t at = 0; at < token.size();) {
    const char32_t code = next_code_point(token, at);
    if (code == kWordMark || code == kReplacement) continue;
    switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
      case UTF8PROC_CATEGORY_LU:
      case UTF8PROC_CATEGORY_LL:
      case UTF8PROC_CATEGORY_LT:
      case UTF8PROC_CATEGORY_LM:
      case UTF8PROC_CATEGORY_LO:
      case UTF8PROC_CATEGORY_ND:
      case UTF8PROC_CATEGORY_NL:
      case UTF8PROC_CATEGORY_NO:
      case UTF8PROC_CATEGORY_SO: return true;
      default: break;
    }
  }
  return false;
}

}  // namespace heed::inspect
