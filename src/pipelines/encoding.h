// Texts as ids: checked, cut or refused, with warnings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heed/pipelines.h"

namespace heed::pipelines {

using Ids = std::vector<int32_t>;

// The ids of the text at place `index` of a call, at most `longest`; errors name `function`.
[[nodiscard]] Ids encode_text(const text::Tokenizer& tokenizer, std::string_view text, int64_t index, int64_t longest,
                              const TextOptions& options, const char* function);

// The same in two steps: all of its ids, and those cut or refused.
[[nodiscard]] Ids encode_all(const text::Tokenizer& tokenizer, std::string_view text, int64_t index,
                             const TextOptions& options, const char* function, bool parse_special = false);
[[nodiscard]] Ids cut_or_refuse(Ids ids, const text::Tokenizer& tokenizer, std::string_view text, int64_t index,
                                int64_t longest, const TextOptions& options, const char* function);

// Drops so many values, one a token of a text, at the end that the tokenizer cuts.
template <class T>
void leave_out(std::vector<T>& values, size_t count, const text::Tokenizer& tokenizer) {
  const auto begin = tokenizer.cuts_left() ? values.begin() : values.end() - static_cast<std::ptrdiff_t>(count);
  values.erase(begin, begin + static_cast<std::ptrdiff_t>(count));
}

// The same with the tokens around the text that the tokenizer adds: at most `tokens.limit` in all, 0 being no limit.
[[nodiscard]] text::Tokens encode_around(const text::Tokenizer& tokenizer, std::string_view text,
                                         const text::TokensOptions& tokens, int64_t index, const TextOptions& options,
                                         const char* function);

// Throws Error for a text that is not valid UTF-8.
void require_utf8(std::string_view text, int64_t index, const TextOptions& options, const char* function);

// Throws Error unless the model has a row for each of these tokens: it may lack some that are special.
void require_rows(const Ids& ids, int64_t rows, const text::Tokenizer& tokenizer, int64_t index,
                  const TextOptions& options, const char* function);

// "standard input, line 3" or "text 3": what the text at place `index` of a call is called in errors.
[[nodiscard]] std::string name_of_text(const TextOptions& options, int64_t index);

// The token as a reader should see it; "#59", where the model has a row 59 that no token belongs to.
[[nodiscard]] std::string piece_of(const text::Tokenizer& tokenizer, int32_t id);
[[nodiscard]] std::vector<std::string> pieces_of(const text::Tokenizer& tokenizer, const Ids& ids);
// The same for pictures: a token of a byte-level vocabulary that stands for whole characters is these characters, "▁"
// for spaces, as SentencePiece spells it. ("Ġna", "Ã¯", "ve" are "▁na", "ï", "ve".)
[[nodiscard]] std::string label_of(const text::Tokenizer& tokenizer, int32_t id);
[[nodiscard]] std::vector<std::string> labels_of(const text::Tokenizer& tokenizer, const Ids& ids);

// One sequence: (1, L) i32, and its length (1) i32.
[[nodiscard]] Tensor as_row(const Ids& ids);
[[nodiscard]] Tensor length_of(const Ids& ids);

}  // namespace heed::pipelines
