// What Oniguruma and PCRE2 read differently. PyPI's `tokenizers` uses Oniguruma with the syntax of Ruby.
//
//   \s        White_Space; PCRE2's has U+180E as well
//   \w, \b    letters, marks, decimal digits, connectors and letters in circles; PCRE2's has other numbers and no marks
//   \h, \v    a hexadecimal digit, and U+000B
//   \p{L}     of another version of Unicode
//   \p{Han}   the characters of a script; PCRE2's has those that several scripts share as well
//   [a[b]]    the union of both; PCRE2 reads the inner bracket as a character
//   [[:a:]]   of Unicode; PCRE2's differ
//   (?m)      a dot matches line ends
//   a(?i)b|c  a(?i:b|c)
//   a{2}+     (?:a{2})+; PCRE2 does not go back into it
//   a{2}?     (?:a{2})?
//   a{,2}     a{0,2}; PCRE2 reads the characters
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "heed/error.h"
#include "text/huggingface/characters.h"
#include "text/huggingface/regex.h"
#include "text/huggingface/unicode_versions.h"

namespace heed::text::huggingface {

namespace {

constexpr std::string_view kSpaces =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
// Oniguruma counts these letters in circles or squares as characters of words, and these numbers where no class is
// around them.
constexpr std::string_view kCircledLetters =
    "\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}";
constexpr std::string_view kNumbersOfWords = "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";

// General categories by the names that Oniguruma has for them, as name_without_marks() gives them.
constexpr std::pair<std::string_view, std::string_view> kLongNames[] = {{"letter", "L"},
                                                                        {"uppercaseletter", "Lu"},
                                                                        {"lowercaseletter", "Ll"},
                                                                        {"titlecaseletter", "Lt"},
                                                                        {"modifierletter", "Lm"},
                                                                        {"otherletter", "Lo"},
                                                                        {"mark", "M"},
                                                                        {"nonspacingmark", "Mn"},
                                                                        {"spacingmark", "Mc"},
                                                                        {"enclosingmark", "Me"},
                                                                        {"number", "N"},
                                                                        {"decimalnumber", "Nd"},
                                                                        {"digit", "Nd"},
                                                                        {"letternumber", "Nl"},
                                                                        {"othernumber", "No"},
                                                                        {"punctuation", "P"},
                                                                        {"punct", "P"},
                                                                        {"connectorpunctuation", "Pc"},
                                                                        {"dashpunctuation", "Pd"},
                                                                        {"openpunctuation", "Ps"},
                                                                        {"closepunctuation", "Pe"},
                                                                        {"initialpunctuation", "Pi"},
                                                                        {"finalpunctuation", "Pf"},
                                                                        {"otherpunctuation", "Po"},
                                                                        {"symbol", "S"},
                                                                        {"mathsymbol", "Sm"},
                                                                        {"currencysymbol", "Sc"},
                                                                        {"modifiersymbol", "Sk"},
                                                                        {"othersymbol", "So"},
                                                                        {"separator", "Z"},
                                                                        {"spaceseparator", "Zs"},
                                                                        {"lineseparator", "Zl"},
                                                                        {"paragraphseparator", "Zp"}};

constexpr std::string_view kCategories =
    " C Cc Cf Cn Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi "
    "Po Ps S Sc Sk Sm So Z Zl Zp Zs ";
// Other properties that have the same characters in both versions of Unicode, as name_without_marks() gives them.
constexpr std::string_view kUnchanged =
    " any ascii asciihexdigit ahex hexdigit hex whitespace wspace space patternwhitespace patws joincontrol joinc "
    "variationselector vs regionalindicator ri noncharactercodepoint nchar quotationmark qmark radical emojimodifier "
    "emod emojicomponent ecomp extendedpictographic extpict defaultignorablecodepoint di ";
// Scripts that have other characters in the two versions, and no table here.
constexpr std::string_view kChangedScripts =
    " sc:Common sc:Zyyy sc:Unknown sc:Zzzz sc:Egyptianhieroglyphs sc:Egyp sc:Balinese sc:Bali sc:Khojki sc:Khoj ";

// Whether it is one of the words of the list, which stand between spaces.
bool is_listed(std::string_view word, std::string_view list) {
  return !word.empty() && list.find(" " + std::string(word) + " ") != std::string_view::npos;
}

// Scripts that have gained characters, by their codes of ISO 15924.
constexpr std::pair<std::string_view, std::string_view> kScriptCodes[] = {
    {"Arab", "Arabic"},   {"Cyrl", "Cyrillic"}, {"Deva", "Devanagari"}, {"Hani", "Han"},   {"Hira", "Hiragana"},
    {"Kana", "Katakana"}, {"Knda", "Kannada"},  {"Laoo", "Lao"},        {"Latn", "Latin"}, {"Mymr", "Myanmar"}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hexadecimal(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

bool is_script(std::string_view name) {
  const std::string expression = "\\p{sc:" + std::string(name) + "}";
  int error = 0;
  PCRE2_SIZE place = 0;
  pcre2_code* const code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                                         PCRE2_UTF | PCRE2_UCP, &error, &place, nullptr);
  pcre2_code_free(code);
  return code != nullptr;
}

// The characters that a class lacks, as the inside of another class: PCRE2 cannot put the one into the other. A look
// ahead could, but then a long run of the class needs memory for each of its characters.
std::string all_but(const std::string& inside) {
  std::string text;
  constexpr int32_t kLast = 0x10ffff, kFirstSurrogate = 0xd800, kLastSurrogate = 0xdfff;
  constexpr int32_t kFirstFree = 0x40000, kLastFree = 0xdffff;  // no character is there, so that two stand for all
  for (int32_t c = 0; c <= kLast; ++c) {
    if (c == kFirstSurrogate) c = kLastSurrogate + 1;
    if (c == kFirstFree + 1) c = kLastFree;
    char bytes[4];
    text.append(bytes, write_character(c, bytes));
  }
  std::string ranges;
  Regex::of_pcre2("[^" + inside + "]++").find_all(text, [&](size_t begin, size_t end) {
    do --end;
    while ((static_cast<uint8_t>(text[end]) & 0xc0) == 0x80);
    ranges += range_in_class(character_at(text, begin).code_point, character_at(text, end).code_point);
  });
  return ranges;
}

// Oniguruma reads names without their spaces, hyphens and low lines, in lower case.
std::string name_without_marks(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c != ' ' && c != '_' && c != '-') plain += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  return plain;
}

// As PCRE2 has to be asked for a property.
std::string name_of_property(std::string_view asked) {
  const std::string plain = name_without_marks(asked);
  for (const auto& [name, category] : kLongNames) {
    if (name == plain) return std::string(category);
  }
  std::string capital = plain;
  if (!plain.empty() && plain[0] >= 'a' && plain[0] <= 'z') capital[0] = static_cast<char>(plain[0] - 32);
  if (plain == "lc" || plain == "casedletter") return "LC";
  if (is_listed(capital, kCategories)) return capital;
  for (const auto& [code, script] : kScriptCodes) {
    if (code == capital) return "sc:" + std::string(script);
  }
  return is_script(capital) ? "sc:" + capital : std::string(asked);
}

std::string property_inside(std::string_view property) {
  return "\\p{" + std::string(property) + "}" + gained_by_property(property);
}

std::string words_inside(bool in_class) {
  std::string inside;
  for (const char* property : {"L", "M", "Nd", "Nl", "Pc"}) inside += property_inside(property);
  inside += kCircledLetters;
  if (!in_class) inside += kNumbersOfWords;
  return inside;
}

class Translator {
 public:
  Translator(std::string_view expression, const std::string& name) : from_(expression), name_(name) {}

  std::string translated() {
    constexpr size_t kLongest = size_t{1} << 22;
    while (at_ < from_.size()) {
      one();
      require(to_.size() <= kLongest, "load_tokenizer", name_,
              ": a shorter regular expression; found one of more than ", kLongest, " bytes with its classes spelt out");
    }
    close_options(groups_.front());
    return std::move(to_);
  }

 private:
  struct Group {
    size_t begin = 0;    // in to_
    size_t options = 0;  // groups that were opened for options, and end with this one
  };
  // What stands between brackets: any of the characters in `inside`, and any that one of `others` does not have.
  struct Class {
    std::string inside = {};
    std::vector<std::string> others = {};
  };
  struct Repeat {
    std::string least = {}, most = {};
    bool has_comma = false;
    size_t size = 0;  // 0: these are characters
  };

  static constexpr size_t kNone = std::string::npos;

  [[nodiscard]] bool has(std::string_view text) const { return from_.substr(at_).starts_with(text); }
  [[nodiscard]] char next() const { return at_ < from_.size() ? from_[at_] : '\0'; }
  void take(size_t size) {
    to_ += from_.substr(at_, size);
    at_ += std::min(size, from_.size() - at_);
  }
  void begin_atom() {
    atom_ = to_.size();
    is_repeated_ = false;
  }

  void one() {
    switch (const char c = from_[at_]) {
      case '\\': return escape();
      case '[': return bracket();
      case '(': return open();
      case ')':
        if (groups_.size() > 1) {
          close_options(groups_.back());
          atom_ = groups_.back().begin;
          is_repeated_ = false;
          groups_.pop_back();
        }
        return take(1);
      case '|': atom_ = kNone; return take(1);
      case '*':
      case '+':
      case '?': is_repeated_ = true; return take(1);
      case '{':
        if (const Repeat found = repeat(); atom_ != kNone && found.size > 0) return put(found);
        [[fallthrough]];
      default:
        if ((static_cast<uint8_t>(c) & 0xc0) != 0x80) begin_atom();  // the first byte of a character
        take(1);
    }
  }

  // Groups.

  void open() {
    if (has("(?#")) {
      at_ = std::min(from_.find(')', at_), from_.size() - 1) + 1;
      return;
    }
    if (has("(?")) {
      const size_t end = from_.find_first_not_of("imxs-", at_ + 2);
      if (end != kNone && end > at_ + 2 && (from_[end] == ':' || from_[end] == ')')) return open_options(end);
    }
    groups_.push_back({to_.size()});
    atom_ = kNone;
    take(1);
    if (next() == '?') take(1);  // (not a repeat)
  }

  void open_options(size_t end) {
    const bool is_group = from_[end] == ':';
    if (is_group) {
      groups_.push_back({to_.size()});
    } else {
      ++groups_.back().options;
    }
    to_ += "(?";
    for (const char option : from_.substr(at_ + 2, end - at_ - 2)) to_ += option == 'm' ? 's' : option;
    to_ += ':';
    at_ = end + 1;
    atom_ = kNone;
  }

  void close_options(const Group& group) { to_.append(group.options, ')'); }

  // Repeats.

  [[nodiscard]] Repeat repeat() const {
    Repeat found;
    size_t at = at_ + 1;
    const auto read = [&](std::string& number) {
      while (at < from_.size() && is_digit(from_[at])) number += from_[at++];
    };
    read(found.least);
    if (at < from_.size() && from_[at] == ',') {
      found.has_comma = true;
      ++at;
      read(found.most);
    }
    if (at < from_.size() && from_[at] == '}' && !(found.least.empty() && found.most.empty()))
      found.size = at + 1 - at_;
    return found;
  }

  void put(const Repeat& found) {
    const std::string least = found.least.empty() ? "0" : found.least;
    at_ += found.size;
    const bool repeats = next() == '+', may_lack = next() == '?' && !found.has_comma;
    const size_t digit = least.find_first_not_of('0');
    const bool at_most_once = digit == kNone || (digit + 1 == least.size() && least[digit] == '1');
    if (repeats && at_most_once && found.has_comma && found.most.find_first_not_of('0') != kNone) {
      // The same, without a repeat of a repeat: that could try all ways to share the characters.
      if (is_repeated_) to_.insert(atom_, "(?:").append(")");
      to_ += digit == kNone ? '*' : '+';
      ++at_;
      is_repeated_ = true;
      return;
    }
    if (repeats || may_lack) to_.insert(atom_, "(?:");
    to_ += "{" + least + (found.has_comma ? "," + found.most : "") + "}";
    if (repeats || may_lack) {
      to_ += ')';
      take(1);
    }
    is_repeated_ = true;
  }

  // Classes.

  void bracket() {
    begin_atom();
    Class made;
    ++at_;
    const bool negated = next() == '^';
    if (negated) ++at_;
    read_class(made);
    put(made, negated);
  }

  // Up to the bracket that ends it; classes inside of it are of its characters.
  void read_class(Class& made) {
    int64_t depth = 1;
    bool is_first = true, behind_set = false;
    while (at_ < from_.size()) {
      const char c = from_[at_];
      const bool was_set = std::exchange(behind_set, false), was_first = std::exchange(is_first, false);
      if (c == '\\') {
        behind_set = escape_inside(made);
      } else if (has("[:")) {
        posix(made);
        behind_set = true;
      } else if (c == '[') {
        ++at_;
        ++depth;
        require(next() != '^', "load_tokenizer", name_,
                ": a regular expression without a negated class inside of another; found one");
        is_first = true;
      } else if (c == ']' && !was_first) {
        ++at_;
        if (--depth == 0) return;
        behind_set = true;
      } else {
        if (has("&&")) {
          fail("load_tokenizer", name_, ": a regular expression without intersections of classes (&&); found one");
        }
        if (c == ']' || c == '^' || (c == '-' && was_set)) made.inside += '\\';
        made.inside += c;
        ++at_;
      }
    }
    fail("load_tokenizer", name_, ": a regular expression; found a class without its end");
  }

  void put(const Class& made, bool negated) {
    const auto& [inside, others] = made;
    if (inside.empty() && others.size() == 1) {
      ((to_ += negated ? "[" : "[^") += others[0]) += ']';
      return;
    }
    (to_ += negated ? "[^" : "[") += inside;
    for (const std::string& other : others) {
      std::string& lacking = lacking_[other];
      if (lacking.empty()) lacking = all_but(other);
      to_ += lacking;
    }
    to_ += ']';
  }

  void posix(Class& made) {
    const size_t end = from_.find(":]", at_);
    require(end != kNone, "load_tokenizer", name_, ": a class [:name:]; found no end of it");
    const std::string_view whole = from_.substr(at_, end + 2 - at_);
    std::string_view kind = whole.substr(2, whole.size() - 4);
    const bool negated = kind.starts_with('^');
    if (negated) kind.remove_prefix(1);
    at_ = end + 2;
    if (kind == "punct") return add(made, property_inside("P") + property_inside("S"), negated);
    if (kind == "space") return add(made, std::string(kSpaces), negated);
    if (kind == "blank") return add(made, "\\x{9}" + property_inside("Zs"), negated);
    if (kind == "digit") return add(made, property_inside("Nd"), negated);
    for (const char* const other : {"word", "alpha", "alnum", "upper", "lower", "graph", "print"}) {
      require(kind != other, "load_tokenizer", name_, ": a regular expression without [:", other,
              ":], which PCRE2 reads otherwise; found one. Write \\w, \\p{L}, \\p{Lu} or \\p{Ll}");
    }
    made.inside += whole;
  }

  static void add(Class& made, std::string inside, bool negated) {
    if (negated) {
      made.others.push_back(std::move(inside));
    } else {
      made.inside += inside;
    }
  }

  // Escapes.

  // A set of characters that is spelt out as the inside of a class; nothing for other escapes.
  bool read_set(bool in_class, std::string& inside, bool& negated) {
    const char kind = at_ + 1 < from_.size() ? from_[at_ + 1] : '\0';
    negated = kind >= 'A' && kind <= 'Z';
    switch (kind) {
      case 's':
      case 'S': inside = kSpaces; break;
      case 'w':
      case 'W': inside = words_inside(in_class); break;
      case 'd':
      case 'D': inside = property_inside("Nd"); break;
      case 'h':
      case 'H': inside = "0-9a-fA-F"; break;
      case 'p':
      case 'P': inside = read_property(in_class, negated); return true;
      default: return false;
    }
    at_ += 2;
    return true;
  }

  std::string read_property(bool in_class, bool& negated) {
    const size_t open = at_ + 2;
    const size_t close = from_.find('}', open);
    require(open < from_.size() && from_[open] == '{' && close != kNone, "load_tokenizer", name_,
            ": \\p{property} in a regular expression; found \\p without braces");
    std::string_view property = from_.substr(open + 1, close - open - 1);
    if (!property.empty() && property.front() == '^') {
      negated = !negated;
      property.remove_prefix(1);
    }
    at_ = close + 1;
    const std::string name = name_of_property(property);
    if (name == "C" || name == "Cn") {  // younger characters are no longer without a category
      negated = !negated;
      std::string inside;
      for (const char* const other : {"L", "M", "N", "P", "S", "Z"}) inside += property_inside(other);
      if (name == "Cn") inside += "\\p{Cc}" + property_inside("Cf") + "\\p{Co}";
      return inside;
    }
    if (name == "LC") return property_inside("Lu") + property_inside("Ll") + property_inside("Lt");
    const std::string plain = name_without_marks(name);
    if (plain == "word") return words_inside(in_class);
    const bool is_script = name.starts_with("sc:") && !is_listed(name, kChangedScripts);
    require(
        is_script || is_listed(name, kCategories) || is_listed(plain, kUnchanged), "load_tokenizer", name_,
        ": a regular expression without \\p{", property,
        "}, which PCRE2 does not know, or knows of another version of Unicode; found one. Write a category, such as "
        "\\p{L}, \\p{Lu} or \\p{So}");
    return property_inside(name);
  }

  // Any other escape as PCRE2 has to read it.
  std::string read_escape() {
    require(at_ + 1 < from_.size(), "load_tokenizer", name_, ": a regular expression; found a \\ at its end");
    const char kind = from_[at_ + 1];
    require(kind != 'X', "load_tokenizer", name_,
            ": a regular expression without \\X, which PCRE2 and Oniguruma read by different versions of Unicode; "
            "found one");
    require(kind != 'V' && kind != 'Q' && kind != 'E', "load_tokenizer", name_, ": a regular expression without \\",
            kind, ", which is the letter for Oniguruma and not for PCRE2; found one");
    size_t size = 2;
    const auto digits = [&](size_t most, const auto& is_one) {
      while (size < 2 + most && at_ + size < from_.size() && is_one(from_[at_ + size])) ++size;
    };
    const auto up_to = [&](char end) { size = std::min(from_.find(end, at_ + 3), from_.size() - 1) + 1 - at_; };
    const char behind = at_ + 2 < from_.size() ? from_[at_ + 2] : '\0';
    if (kind == 'u') {
      digits(4, is_hexadecimal);
    } else if ((kind == 'x' || kind == 'o') && behind == '{') {
      up_to('}');
    } else if (kind == 'x') {
      digits(2, is_hexadecimal);
    } else if ((kind == 'k' || kind == 'g') && (behind == '<' || behind == '\'')) {
      up_to(behind == '<' ? '>' : '\'');
    } else if (kind == 'c') {
      size = std::min<size_t>(3, from_.size() - at_);
    } else if (is_digit(kind)) {
      digits(2, is_digit);
    }
    const std::string_view whole = from_.substr(at_, size);
    const bool is_byte = kind == 'x' && size == 4 && std::string_view("89abcdefABCDEF").find(whole[2]) != kNone;
    require(!is_byte, "load_tokenizer", name_, ": a regular expression without ", whole,
            ", which is a byte for Oniguruma and a character for PCRE2; found one. Write \\u00", whole.substr(2));
    at_ += size;
    if (kind == 'v') return "\\x{b}";
    if (kind == 'u' && whole.size() == 6) return "\\x{" + std::string(whole.substr(2)) + "}";
    return std::string(whole);
  }

  void escape() {
    begin_atom();
    Class made;
    bool negated = false;
    if (read_set(false, made.inside, negated)) return put(made, negated);
    const bool is_border = has("\\b") || has("\\B");
    if (!is_border) {
      to_ += read_escape();
      return;
    }
    const std::string word = "[" + words_inside(false) + "])";
    const bool inner = from_[at_ + 1] == 'B';
    to_ += "(?:(?<=" + word + (inner ? "(?=" : "(?!") + word + "|(?<!" + word + (inner ? "(?!" : "(?=") + word + ")";
    at_ += 2;
  }

  // Whether it is a set, behind which no range begins.
  bool escape_inside(Class& made) {
    std::string inside;
    bool negated = false;
    if (!read_set(true, inside, negated)) {
      made.inside += read_escape();
      return false;
    }
    add(made, std::move(inside), negated);
    return true;
  }

  std::string_view from_;
  const std::string& name_;
  std::string to_;
  size_t at_ = 0;
  size_t atom_ = kNone;       // where in to_ begins what a repeat repeats
  bool is_repeated_ = false;  // it is behind a repeat already
  std::vector<Group> groups_ = {{}};
  std::map<std::string, std::string> lacking_;  // what classes lack
};

}  // namespace

std::string translate_expression(std::string_view expression, const std::string& name) {
  constexpr size_t kLongest = 1 << 16;
  require(expression.size() <= kLongest, "load_tokenizer", name, ": an expression of at most ", kLongest,
          " bytes; found ", expression.size());
  return Translator(expression, name).translated();
}

}  // namespace heed::text::huggingface
