// Text, cut by each tokenizer of tests/data/tokenizers.
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "fuzz/target.h"
#include "heed/text.h"

namespace {

using Tokenizers = std::vector<std::shared_ptr<const heed::text::Tokenizer>>;

Tokenizers load_all() {
  Tokenizers all;
  for (const char* const name : {"bert", "accents", "roberta", "llama3", "llama", "xlmr", "gemma", "affixes", "words"})
    all.push_back(heed::text::load_tokenizer_json(std::filesystem::path(HEED_SOURCE_DIR) / "tests/data/tokenizers" /
                                                  (std::string(name) + ".json")));
  return all;
}

void expect(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

void cut_and_join(const heed::text::Tokenizer& tokenizer, const std::string& text) {
  const heed::text::Tokens tokens = tokenizer.tokens(text, {.add_special = false});
  expect(tokens.ids == tokenizer.encode(text), "tokens() and encode() differ");
  expect(tokens.spans.size() == tokens.ids.size() && tokens.words.size() == tokens.ids.size(),
         "spans or words missing");
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    const auto [begin, end] = tokens.spans[i];
    expect(begin >= 0 && begin <= end && end <= static_cast<int64_t>(text.size()), "a span outside of the text");
    expect(i == 0 || tokens.words[i] == tokens.words[i - 1] || tokens.words[i] == tokens.words[i - 1] + 1,
           "words that do not rise one by one");
  }
  const std::string joined = tokenizer.decode(tokens.ids);
  expect(heed::text::valid_utf8_prefix(joined) == joined.size(), "decoded text that is no UTF-8");
  (void)tokenizer.tokens(text, {.pair = text, .limit = 8, .parse_special = true});
}

}  // namespace

HEED_FUZZ_TARGET(
    encode, .file = "text.txt", .read = [](const Path& file) {
      static const Tokenizers all = load_all();
      for (const std::string& line : heed::text::read_lines(file))
        for (const auto& tokenizer : all) cut_and_join(*tokenizer, line);
    })
