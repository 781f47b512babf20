// The regular expressions of sacreBLEU's tokenizers as scanners. Each function is one expression, named in its comment;
// they work on bytes: every character they look for is ASCII, and so never part of a longer one.
#include "train/bleu_tokenize.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>

#include "heed/error.h"

namespace heed::train {
namespace {

struct Character {
  int32_t code = 0;  // U+FFFD for a byte that is not UTF-8
  size_t size = 1;
};

Character character_at(std::string_view text, size_t at) {
  Character c;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at);
  const auto size = utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size() - at), &c.code);
  if (size <= 0) return {.code = 0xfffd, .size = 1};
  c.size = static_cast<size_t>(size);
  return c;
}

// What Python's str.split() and str.strip() take for white space.
bool is_space(int32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

// The ranges of sacreBLEU's Chinese tokenizer, as Python reads its source. Two of its bounds are written with five
// hexadecimal digits after \u, which Python reads as four and a letter: "extension B" is in truth U+2001 to U+2A6D
// (general punctuation, arrows, box drawing, ...), and real extension B characters are not cut. Scores depend on it.
bool is_chinese(int32_t c) {
  static constexpr int32_t kRanges[][2] = {
      {0x2001, 0x2a6d}, {0x2e80, 0x2eff}, {0x2f00, 0x2fdf}, {0x2ff0, 0x2fff}, {0x3000, 0x303f}, {0x3100, 0x312f},
      {0x31a0, 0x31bf}, {0x31c0, 0x31ef}, {0x3200, 0x33ff}, {0x3400, 0x4db5}, {0x4e00, 0x9fbb}, {0xf900, 0xfa2d},
      {0xfa30, 0xfa6a}, {0xfa70, 0xfad9}, {0xfe10, 0xfe1f}, {0xfe30, 0xfe4f}, {0xff00, 0xffef}};
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [c](const auto& range) { return range[0] <= c && c <= range[1]; });
}

std::string_view right_stripped(std::string_view text) {
  size_t kept = 0;
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    at += c.size;
    if (!is_space(c.code)) kept = at;
  }
  return text.substr(0, kept);
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> tokens;
  size_t begin = 0;
  for (size_t at = 0; at <= text.size();) {
    const Character c = at < text.size() ? character_at(text, at) : Character{.code = ' ', .size = 1};
    if (is_space(c.code)) {
      if (at > begin) tokens.emplace_back(text.substr(begin, at - begin));
      begin = at + c.size;
    }
    at += c.size;
  }
  return tokens;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_stop(char c) { return c == '.' || c == ','; }

// ([\{-\~\[-\` -\&\(-\+\:-\@\/]) -> ' \1 '
std::string part_symbols(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool symbol = (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') ||
                        (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/';
    if (symbol) out += ' ';
    out += c;
    if (symbol) out += ' ';
  }
  return out;
}

// Two characters that match are replaced together and not looked at again, as re.sub does it.
template <class Match, class Replace>
std::string replace_pairs(std::string_view text, Match&& match, Replace&& replace) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && match(text[i], text[i + 1])) {
      replace(out, text[i], text[i + 1]);
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string part_punctuation(std::string_view line) {
  std::string text = part_symbols(line);
  // ([^0-9])([\.,]) -> '\1 \2 '
  text = replace_pairs(
      text, [](char a, char b) { return !is_digit(a) && is_stop(b); },
      [](std::string& out, char a, char b) {
        ((out += a) += ' ') += {b, ' '};
      });
  // ([\.,])([^0-9]) -> ' \1 \2'
  text = replace_pairs(
      text, [](char a, char b) { return is_stop(a) && !is_digit(b); },
      [](std::string& out, char a, char b) {
        out += {' ', a, ' ', b};
      });
  // ([0-9])(-) -> '\1 \2 '
  return replace_pairs(
      text, [](char a, char b) { return is_digit(a) && b == '-'; },
      [](std::string& out, char a, char b) {
        out += {a, ' ', b, ' '};
      });
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

std::vector<std::string> tokens_13a(std::string_view line) {
  std::string text = " ";
  text += line;
  replace_all(text, "<skipped>", "");
  replace_all(text, "-\n", "");
  replace_all(text, "\n", " ");
  replace_all(text, "&quot;", "\"");
  replace_all(text, "&amp;", "&");
  replace_all(text, "&lt;", "<");
  replace_all(text, "&gt;", ">");
  return split(part_punctuation(text + " "));
}

std::vector<std::string> tokens_zh(std::string_view line) {
  while (!line.empty() && is_space(character_at(line, 0).code)) line.remove_prefix(character_at(line, 0).size);
  std::string text;
  for (size_t at = 0; at < line.size();) {
    const Character c = character_at(line, at);
    const bool chinese = is_chinese(c.code);
    if (chinese) text += ' ';
    text += line.substr(at, c.size);
    if (chinese) text += ' ';
    at += c.size;
  }
  return split(part_punctuation(text));
}

std::vector<std::string> characters(std::string_view line) {
  std::vector<std::string> tokens;
  for (size_t at = 0; at < line.size();) {
    const Character c = character_at(line, at);
    if (!is_space(c.code)) tokens.emplace_back(line.substr(at, c.size));
    at += c.size;
  }
  return tokens;
}

bool is_cased(int32_t c) {
  const auto category = utf8proc_category(c);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT ||
         c == 0xaa || c == 0xba || (c >= 0x2160 && c <= 0x217f) || (c >= 0x24b6 && c <= 0x24e9);
}

bool is_case_ignorable(int32_t c) {
  const auto category = utf8proc_category(c);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_LM || category == UTF8PROC_CATEGORY_SK || c == '\'' || c == '.' || c == ':' ||
         c == 0xb7 || c == 0x387 || c == 0x55f || c == 0x5f4 || c == 0x2018 || c == 0x2019 || c == 0x2024 ||
         c == 0x2027 || c == 0xfe13 || c == 0xfe52 || c == 0xfe55 || c == 0xff07 || c == 0xff0e || c == 0xff1a;
}

// A capital sigma is final where a cased character comes before and none after, whatever is ignorable left aside.
bool sigma_is_final(std::string_view text, bool cased_before, size_t after) {
  if (!cased_before) return false;
  while (after < text.size()) {
    const Character c = character_at(text, after);
    if (!is_case_ignorable(c.code)) return !is_cased(c.code);
    after += c.size;
  }
  return true;
}

}  // namespace

std::string lower_case(std::string_view text) {
  constexpr int32_t kCapitalSigma = 0x3a3, kDottedCapitalI = 0x130;
  std::string out;
  bool cased_before = false;  // the last character that is not ignorable
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    const std::string_view raw = text.substr(at, c.size);
    at += c.size;
    if (c.code == kDottedCapitalI) {
      out += "i\xcc\x87";
    } else if (c.code == kCapitalSigma) {
      out += sigma_is_final(text, cased_before, at) ? "\xcf\x82" : "\xcf\x83";
    } else if (const int32_t lower = utf8proc_tolower(c.code); lower != c.code) {
      utf8proc_uint8_t bytes[4];
      const auto size = utf8proc_encode_char(lower, bytes);
      out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
    } else {
      out += raw;
    }
    if (!is_case_ignorable(c.code)) cased_before = is_cased(c.code);
  }
  return out;
}

BleuTokenizer parse_bleu_tokenizer(std::string_view name) {
  if (name == "13a") return BleuTokenizer::v13a;
  if (name == "zh") return BleuTokenizer::zh;
  if (name == "char") return BleuTokenizer::characters;
  if (name == "none") return BleuTokenizer::none;
  fail("bleu", "a tokenizer of 13a, zh, char or none; found ", name);
}

std::vector<std::string> bleu_tokens(std::string_view line, BleuTokenizer tokenizer, bool lowercase) {
  const std::string lower = lowercase ? lower_case(line) : std::string();
  const std::string_view text = right_stripped(lowercase ? std::string_view(lower) : line);
  switch (tokenizer) {
    case BleuTokenizer::v13a: return tokens_13a(text);
    case BleuTokenizer::zh: return tokens_zh(text);
    case BleuTokenizer::characters: return characters(text);
    case BleuTokenizer::none: break;
  }
  return split(text);
}

}  // namespace heed::train
