#include "inspect/smaller_script.h"

namespace heed::inspect {
namespace {

bool is_one_of(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

// Letters of names and numbers; bytes of other alphabets too.
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
         (static_cast<unsigned char>(c) & 0x80) != 0;
}

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

  // Spaces, line ends and comments.
  void skip_gap() {
    const size_t begin = at_;
    bool line_ended = false;
    for (;;) {
      if (is_one_of(peek(), " \t\n") && at_ < in_.size()) {
        line_ended = line_ended || peek() == '\n';
        ++at_;
      } else if (peek() == '/' && peek(1) == '/') {
        while (at_ < in_.size() && peek() != '\n') ++at_;
      } else {
        break;
      }
    }
    if (at_ == begin || at_ == in_.size()) return;
    // A line end ends a statement, except where none could end or begin.
    if (line_ended && !is_one_of(last(), ";,{([=?:&|\n") && !is_one_of(peek(), "})].,?:&|=")) {
      out_ += '\n';
    } else if ((is_word(last()) && is_word(peek())) || (last() == peek() && is_one_of(peek(), "+-"))) {
      out_ += ' ';
    }
  }

  void take_token() {
    const char c = peek();
    if (c == '"' || c == '\'') return take_string(c);
    if (c == '`') return take_template();
    if (c == '}' && !open_.empty()) {
      const bool of_template = open_.back() == '`';
      open_.pop_back();
      if (of_template) return take_template();
      if (last() == ';') out_.pop_back();
    }
    if (c == '{') open_ += c;
    if (c == '/' && begins_expression()) return take_pattern();
    take();
  }

  [[nodiscard]] bool begins_expression() const {
    return is_one_of(last(), "(,=:[!&|?{};>\n") || out_.ends_with("return");
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
        open_ += '`';
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
  std::string open_;  // '{', or '`' for "${" in a template
};

}  // namespace

std::string smaller_script(std::string_view script) { return ScriptReader(script).run(); }

}  // namespace heed::inspect
