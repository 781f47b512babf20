// The tokens that name languages in the vocabulary of a model that knows several: "fra_Latn", "fr_XX", "__fr__".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "heed/text.h"

namespace heed::text {

// Whether a token names a language by its form: "fra_Latn", "fr_XX", "__fr__", ">>fra<<".
[[nodiscard]] bool looks_like_language(std::string_view piece);
// Of an id that may lie outside of the vocabulary, and then names none.
[[nodiscard]] bool looks_like_language(const Tokenizer& tokenizer, int64_t id);

// The token of a language as the vocabulary spells it, or as M2M100 does: "fr" is "__fr__". Empty: there is none.
[[nodiscard]] std::optional<int32_t> language_id(const Tokenizer& tokenizer, const std::string& language);

// The same. Throws Error with the languages that the vocabulary seems to have where this one is not there.
[[nodiscard]] int32_t known_language(const Tokenizer& tokenizer, const std::string& language, const char* function);

}  // namespace heed::text
