// What Oniguruma and PCRE2 read differently.
//
//   \s     White_Space; PCRE2's has U+180E as well
//   \w     letters, marks, decimal digits, connectors and letters in circles; PCRE2's has other numbers and no marks
//   \p{L}  of another version of Unicode
//   [a[b]] the union of both; PCRE2 reads the inner bracket as a character
#include <string>

#include "heed/error.h"
#include "text/huggingface/regex.h"
#include "text/huggingface/unicode_versions.h"

namespace heed::text::huggingface {

namespace {

constexpr std::string_view kSpaces =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
// Oniguruma counts these numbers and letters in circles or squares as characters of words.
constexpr std::string_view kMoreOfWords =
    "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}"
    "\\x{1f170}-\\x{1f189}";

std::string property_inside(std::string_view property) {
  return "\\p{" + std::string(property) + "}" + gained_by_property(property);
}

std::string words_inside() {
  std::string inside;
  for (const char* property : {"L", "M", "Nd", "Nl", "Pc"}) inside += property_inside(property);
  return inside + std::string(kMoreOfWords);
}

class Translator {
 public:
  Translator(std::string_view expression, const std::string& name) : from_(expression), name_(name) {}

  std::string translated() {
    while (at_ < from_.size()) {
      const char c = from_[at_];
      if (c == '\\') {
        escape();
      } else if (c == '[') {
        open_class();
      } else if (c == ']' && depth_ > 0) {
        ++at_;
        if (--depth_ == 0) to_ += ']';
        // (an inner class ends: its characters already are the outer one's)
      } else {
        if (depth_ > 0 && from_.substr(at_, 2) == "&&") {
          fail("load_tokenizer", name_, ": a regular expression without intersections of classes (&&); found one");
        }
        to_ += c;
        ++at_;
      }
    }
    return std::move(to_);
  }

 private:
  void open_class() {
    if (depth_ > 0 && from_.substr(at_, 2) == "[:") {  // [[:alpha:]]
      const size_t end = from_.find(":]", at_);
      require(end != std::string_view::npos, "load_tokenizer", name_, ": a class [:name:]; found no end of it");
      to_ += from_.substr(at_, end + 2 - at_);
      at_ = end + 2;
      return;
    }
    const bool negated = at_ + 1 < from_.size() && from_[at_ + 1] == '^';
    require(depth_ == 0 || !negated, "load_tokenizer", name_,
            ": a regular expression without a negated class inside of another; found one");
    if (depth_ == 0) to_ += negated ? "[^" : "[";
    at_ += negated ? 2 : 1;
    ++depth_;
    if (at_ < from_.size() && from_[at_] == ']') {  // the first one is a character
      to_ += "\\]";
      ++at_;
    }
  }

  void escape() {
    require(at_ + 1 < from_.size(), "load_tokenizer", name_, ": a regular expression; found a \\ at its end");
    const char kind = from_[at_ + 1];
    if (kind == 's' || kind == 'S') return put(kSpaces, kind == 'S', 2);
    if (kind == 'w' || kind == 'W') return put(words_inside(), kind == 'W', 2);
    if (kind == 'd' || kind == 'D') return put(property_inside("Nd"), kind == 'D', 2);
    if (kind == 'p' || kind == 'P') return property(kind == 'P');
    to_ += from_.substr(at_, 2);
    at_ += 2;
  }

  void property(bool negated) {
    const size_t open = at_ + 2;
    const size_t close = from_.find('}', open);
    require(open < from_.size() && from_[open] == '{' && close != std::string_view::npos, "load_tokenizer", name_,
            ": \\p{property} in a regular expression; found \\p without braces");
    std::string_view property = from_.substr(open + 1, close - open - 1);
    if (!property.empty() && property.front() == '^') {
      negated = !negated;
      property.remove_prefix(1);
    }
    put(property_inside(property), negated, close + 1 - at_, property);
  }

  // `inside` of a class, as a class of its own where there is none around it.
  void put(std::string_view inside, bool negated, size_t size, std::string_view property = {}) {
    if (depth_ == 0) {
      ((to_ += negated ? "[^" : "[") += inside) += ']';
    } else if (!negated) {
      to_ += inside;
    } else {  // there is no way to spell this out: PCRE2's own class, which differs in a few characters
      to_ += property.empty() ? std::string(from_.substr(at_, size)) : "\\P{" + std::string(property) + "}";
    }
    at_ += size;
  }

  std::string_view from_;
  const std::string& name_;
  std::string to_;
  size_t at_ = 0;
  int64_t depth_ = 0;
};

}  // namespace

std::string translate_expression(std::string_view expression, const std::string& name) {
  return Translator(expression, name).translated();
}

}  // namespace heed::text::huggingface
