// Which tokens are pieces of one word, for pictures of attention between words.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/inspect.h"
#include "heed/text.h"

namespace heed::pipelines {

// The words of tokens that stand for bytes of `text`, special ones among them. Tokens are pieces of one word where no
// white space stands between them and letters, digits or apostrophes meet; ideographs and kana are no pieces.
[[nodiscard]] inspect::Words words_of(const text::Tokenizer& tokenizer, std::string_view text,
                                      const text::Tokens& tokens);
// The same of ids that a model wrote, without special ones around them.
[[nodiscard]] inspect::Words words_of(const text::Tokenizer& tokenizer, std::span<const int32_t> ids);

// The same of the tokens of a text that are read, which may be the first of more.
[[nodiscard]] inspect::Words words_of_first(const text::Tokenizer& tokenizer, std::string_view text, size_t count);

// A special token as a word of its own, in front or behind.
void add_special_word(inspect::Words& words, const std::string& token, bool in_front);

}  // namespace heed::pipelines
