// Regular expressions of tokenizer.json: written for Oniguruma, run by PCRE2.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace heed::text::huggingface {

// A match, or none (found == false).
struct Match {
  bool found = false;
  size_t begin = 0, end = 0;
};

class Regex {
 public:
  // `name` says in messages which expression it is. Throws Error for what cannot be compiled.
  Regex(std::string_view expression, const std::string& name);
  // Of an expression that needs no translation.
  [[nodiscard]] static Regex of_pcre2(std::string_view expression);
  ~Regex();
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  // use(begin, end) for each match in `text`, which is valid UTF-8, from left to right. No empty match follows a match
  // directly. Throws Error where a match takes more steps than a linear one does.
  template <class Use>
  void find_all(std::string_view text, const Use& use) const {
    const Search search(*this, text);
    size_t at = 0;
    size_t last_end = text.size() + 1;  // none
    while (at <= text.size()) {
      const Match match = search.next(at);
      if (!match.found) return;
      if (match.begin == match.end && match.end == last_end) {
        at += at < text.size() ? size_of_character(text, at) : 1;
        continue;
      }
      use(match.begin, match.end);
      at = last_end = match.end;
    }
  }

 private:
  struct AsItIs {};
  Regex(AsItIs, std::string_view expression, const std::string& name);

  struct State;
  class Search {
   public:
    Search(const Regex& regex, std::string_view text);
    ~Search();
    Search(const Search&) = delete;
    Search& operator=(const Search&) = delete;
    [[nodiscard]] Match next(size_t at) const;

   private:
    const Regex& regex_;
    std::string_view text_;
    std::unique_ptr<State> state_;
  };
  [[nodiscard]] static size_t size_of_character(std::string_view text, size_t at);

  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
  std::string name_;
};

// The expression as PCRE2 has to read it: classes that Oniguruma defines otherwise are spelt out, and classes inside of
// classes are taken out of their brackets. Throws Error for what has no translation.
[[nodiscard]] std::string translate_expression(std::string_view expression, const std::string& name);

}  // namespace heed::text::huggingface
