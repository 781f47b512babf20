#include "inspect/smaller_script.h"

#include <algorithm>
#include <vector>

namespace heed::inspect {
namespace {

bool is_one_of(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

// Letters of names and numbers; bytes of other alphabets too.
bool is_part_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
         (static_cast<unsigned char>(c) & 0x80) != 0;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class ScriptReader {
 public:
  explicit ScriptReader(std::string_view script) : in_(script) { out_.reserve(script.size()); }

  std::string run() {
    while (at_ < in_.size()) {
      skip_gap();
      if (at_ < in_.size()) take_token();
    }
    return std::move(out_);
  }

 private:
  [[nodiscard]] char peek(size_t ahead = 0) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }
  [[nodiscard]] char last() const { return out_.empty() ? ';' : out_.back(); }
  void take() {
    if (at_ < in_.size()) out_ += in_[at_++];
  }

  // Where the spaces, line ends and comments from `at` on end.
  [[nodiscard]] size_t after_gap(size_t at, bool* line_ended = nullptr) const {
    while (at < in_.size()) {
      if (in_.substr(at, 2) == "//") {
        at = std::min(in_.find('\n', at), in_.size());
      } else if (is_one_of(in_[at], " \t\n")) {
        if (line_ended != nullptr) *line_ended = *line_ended || in_[at] == '\n';
        ++at;
      } else {
        break;
      }
    }
    return at;
  }

  void skip_gap() {
    bool line_ended = false;
    const size_t end = after_gap(at_, &line_ended);
    if (end == at_) return;
    at_ = end;
    if (at_ == in_.size()) return;
    // A line end ends a statement, except where none could end or begin.
    if (line_ended && !is_one_of(last(), ";,{([=?:&|\n") && !is_one_of(peek(), "})].,?:&|=")) {
      out_ += '\n';
      open_.back().declares = false;
    } else if ((is_part_of_name(last()) && is_part_of_name(peek())) || (last() == peek() && is_one_of(peek(), "+-"))) {
      out_ += ' ';
    }
  }

  // The length of the word "const" or "let" that stands there, or 0.
  [[nodiscard]] size_t declaration(size_t at) const {
    for (const std::string_view word : {"const", "let"}) {
      const size_t end = at + word.size();
      if (in_.substr(at, word.size()) == word && end < in_.size() && !is_part_of_name(in_[end])) return word.size();
    }
    return 0;
  }

  void take_token() {
    const char c = peek();
    if (c == '"' || c == '\'') return take_string(c);
    if (c == '`') return take_template();
    if (is_one_of(c, ")]}") && open_.size() > 1) {
      const bool of_template = open_.back().bracket == '`';
      open_.pop_back();
      if (of_template) return take_template();
      if (c == '}' && last() == ';') out_.pop_back();
    }
    if (c == '/' && begins_expression()) return take_pattern();
    if (c == '(' && take_parameter()) return;
    if (c == ';' && open_.back().declares) return end_declaration();
    if (const size_t length = is_part_of_name(last()) ? 0 : declaration(at_); length > 0) {
      open_.back().declares = true;
      out_ += "let";
      at_ += length;
      return;
    }
    if (is_one_of(c, "([{")) open_.push_back({c});
    const bool of_fraction =
        c == '0' && peek(1) == '.' && is_digit(peek(2)) && !is_part_of_name(last()) && last() != '.';
    if (of_fraction) ++at_;  // 0.5 is .5
    take();
  }

  // const a = 1; const b = 2; is let a = 1, b = 2;
  void end_declaration() {
    const size_t next = after_gap(at_ + 1), length = declaration(next);
    open_.back().declares = length > 0;
    if (length == 0) return take();
    out_ += ',';
    at_ = after_gap(next + length);
  }

  [[nodiscard]] bool begins_expression() const {
    return is_one_of(last(), "(,=:[!&|?{};>\n") || out_.ends_with("return");
  }

  // (a) => is a =>.
  bool take_parameter() {
    size_t end = at_ + 1;
    while (end < in_.size() && is_part_of_name(in_[end])) ++end;
    if (end == at_ + 1 || in_.substr(end, 5) != ") => ") return false;
    if (is_part_of_name(last())) out_ += ' ';
    out_ += in_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return true;
  }

  void take_string(char quote) {
    take();
    while (at_ < in_.size() && peek() != quote) {
      if (peek() == '\\') take();
      take();
    }
    take();
  }

  // From the back quote, or from the brace that closes an expression in it, to the next such place.
  void take_template() {
    take();
    while (at_ < in_.size()) {
      if (peek() == '`') return take();
      if (peek() == '$' && peek(1) == '{') {
        open_.push_back({'`'});
        take();
        return take();
      }
      if (peek() == '\\') take();
      take();
    }
  }

  void take_pattern() {
    bool in_set = false;
    take();
    while (at_ < in_.size() && (peek() != '/' || in_set)) {
      if (peek() == '[') in_set = true;
      if (peek() == ']') in_set = false;
      if (peek() == '\\') take();
      take();
    }
    take();
  }

  std::string_view in_;
  size_t at_ = 0;
  std::string out_;
  struct Open {
    char bracket = ';';     // '`' for "${" in a template; ';' around all of it
    bool declares = false;  // within a statement that begins with "const" or "let"
  };
  std::vector<Open> open_ = {Open()};
};

}  // namespace

std::string smaller_script(std::string_view script) { return ScriptReader(script).run(); }

}  // namespace heed::inspect
