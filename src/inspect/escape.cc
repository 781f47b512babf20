// Text for HTML, JSON and terminals, and the decoding of UTF-8 below it.
#include <algorithm>
#include <array>
#include <utility>

#include "heed/inspect.h"
#include "inspect/utf8.h"

namespace heed::inspect {
namespace {

constexpr std::string_view kHexDigits = "0123456789ABCDEF";

std::string hex(char32_t code, int digits) {
  std::string out;
  for (int shift = 20; shift >= 0; shift -= 4)
    if (!out.empty() || shift < 4 * digits || (code >> shift) != 0) out += kHexDigits[code >> shift & 15];
  return out;
}

bool is_noncharacter(char32_t code) { return (code >= 0xFDD0 && code <= 0xFDEF) || (code & 0xFFFE) == 0xFFFE; }

// UAX 11 wide and fullwidth, coarsely: scripts of East Asia and pictures.
constexpr std::array<std::pair<char32_t, char32_t>, 15> kWide = {{{0x1100, 0x115F},
                                                                  {0x231A, 0x231B},
                                                                  {0x2E80, 0x303E},
                                                                  {0x3041, 0x33FF},
                                                                  {0x3400, 0x4DBF},
                                                                  {0x4E00, 0x9FFF},
                                                                  {0xA000, 0xA4CF},
                                                                  {0xA960, 0xA97F},
                                                                  {0xAC00, 0xD7A3},
                                                                  {0xF900, 0xFAFF},
                                                                  {0xFE30, 0xFE6F},
                                                                  {0xFF00, 0xFF60},
                                                                  {0xFFE0, 0xFFE6},
                                                                  {0x1F300, 0x1FAFF},
                                                                  {0x20000, 0x3FFFD}}};
constexpr std::array<std::pair<char32_t, char32_t>, 10> kCombining = {{{0x0300, 0x036F},
                                                                       {0x0483, 0x0489},
                                                                       {0x0591, 0x05BD},
                                                                       {0x064B, 0x065F},
                                                                       {0x093C, 0x093C},
                                                                       {0x1AB0, 0x1AFF},
                                                                       {0x1DC0, 0x1DFF},
                                                                       {0x200C, 0x200D},
                                                                       {0x20D0, 0x20FF},
                                                                       {0xFE00, 0xFE0F}}};

bool is_in(const auto& ranges, char32_t code) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [code](const auto& range) { return code >= range.first && code <= range.second; });
}

// What becomes of U+200C and U+200D, which are spelling where they stand between characters that can be seen.
enum class Joiners { shown, kept_in_words };

bool is_seen(char32_t code) { return code != ' ' && !is_invisible(code); }

std::string without_invisible(std::string_view text, Joiners joiners) {
  std::string out;
  out.reserve(text.size());
  char32_t before = ' ';
  for (size_t at = 0; at < text.size();) {
    const char32_t code = next_code_point(text, at);
    size_t behind = at;
    const bool joins = joiners == Joiners::kept_in_words && (code == 0x200C || code == 0x200D) && is_seen(before) &&
                       at < text.size() && is_seen(next_code_point(text, behind));
    if (code < 0x20) {
      append_utf8(out, 0x2400 + code);  // the control pictures: ␀ ␛ ␊
    } else if (code == 0x7F) {
      append_utf8(out, 0x2421);
    } else if (is_invisible(code) && !joins) {
      out += "<U+" + hex(code, 4) + ">";
    } else {
      append_utf8(out, code);
    }
    before = code;
  }
  return out;
}

}  // namespace

char32_t next_code_point(std::string_view text, size_t& at) {
  const auto byte = [&](size_t k) { return static_cast<uint8_t>(text[k]); };
  const uint8_t first = byte(at++);
  if (first < 0x80) return first;
  const int more = first >= 0xC2 && first <= 0xDF   ? 1
                   : (first & 0xF0) == 0xE0         ? 2
                   : first >= 0xF0 && first <= 0xF4 ? 3
                                                    : 0;
  if (more == 0) return kReplacement;
  // The second byte's range shuts out overlong forms, surrogates and what lies beyond U+10FFFF.
  uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  char32_t code = first & (0x3F >> more);
  for (int k = 0; k < more; ++k, low = 0x80, high = 0xBF) {
    if (at == text.size() || byte(at) < low || byte(at) > high) return kReplacement;
    code = code << 6 | (byte(at++) & 0x3F);
  }
  return code;
}

void append_utf8(std::string& out, char32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  out += static_cast<char>((0xFF00 >> (more + 1) & 0xFF) | code >> (6 * more));
  for (int k = more - 1; k >= 0; --k) out += static_cast<char>(0x80 | (code >> (6 * k) & 0x3F));
}

bool is_invisible(char32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0xAD || code == 0x61C || code == 0x180E ||
         (code >= 0x200B && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2060 && code <= 0x206F) || code == 0xFEFF || (code >= 0xFFF9 && code <= 0xFFFB) ||
         (code >= 0xE0000 && code <= 0xE007F) || is_noncharacter(code);
}

int64_t terminal_width(std::string_view text) {
  int64_t width = 0;
  for (size_t at = 0; at < text.size();) {
    const char32_t code = next_code_point(text, at);
    width += is_in(kWide, code) ? 2 : is_in(kCombining, code) ? 0 : 1;
  }
  return width;
}

std::string escape_terminal(std::string_view text) { return without_invisible(text, Joiners::shown); }

std::string label(std::string_view text, int64_t limit) {
  // Cut before escaping: a token of megabytes must not cost megabytes a label.
  std::string kept;
  size_t at = 0, before_last = 0;
  for (int64_t count = 0; at < text.size() && count < limit; ++count) {
    before_last = kept.size();
    append_utf8(kept, next_code_point(text, at));
  }
  if (at < text.size()) kept = kept.substr(0, before_last) + "…";
  if (kept.empty()) return "∅";
  if (kept.find_first_not_of(' ') != std::string::npos) return without_invisible(kept, Joiners::kept_in_words);
  std::string blanks;
  for (size_t i = 0; i < kept.size(); ++i) blanks += "␣";
  return blanks;
}

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (size_t at = 0; at < text.size();) {
    const char32_t code = next_code_point(text, at);
    switch (code) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      case '`': out += "&#96;"; break;
      case '\r':
        out += "&#13;";  // a raw one would be read as a line feed
        break;
      default:
        // Control characters and noncharacters are in no HTML or XML document.
        append_utf8(
            out, (code < 0x20 && code != '\t' && code != '\n') || (code >= 0x7F && code < 0xA0) || is_noncharacter(code)
                     ? kReplacement
                     : code);
    }
  }
  return out;
}

std::string escape_json(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (size_t at = 0; at < text.size();) {
    const char32_t code = next_code_point(text, at);
    if (code == '"' || code == '\\') {
      out += '\\';
      out += static_cast<char>(code);
    } else if (code == '\n') {
      out += "\\n";
    } else if (code == '\t') {
      out += "\\t";
    } else if (code < 0x20 || code == '<' || code == '>' || code == '&' || code == '\'' || code == '`' ||
               (code < 0x10000 && is_invisible(code))) {
      out += "\\u" + hex(code, 4);
    } else {
      append_utf8(out, code);
    }
  }
  return out;
}

}  // namespace heed::inspect
