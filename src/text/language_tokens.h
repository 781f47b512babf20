// The tokens that name languages in the vocabulary of a model that knows several: "fra_Latn", "fr_XX", "__fr__".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/text.h"

namespace heed::text {

// Whether a token names a language by its form: "fra_Latn", "fr_XX", "__fr__", ">>fra<<".
[[nodiscard]] bool looks_like_language(std::string_view piece);
// Of an id that may lie outside of the vocabulary, and then names none.
[[nodiscard]] bool looks_like_language(const Tokenizer& tokenizer, int64_t id);

// The token of a language as the vocabulary spells it, or as M2M100 does: "fr" is "__fr__". Empty: there is none.
[[nodiscard]] std::optional<int32_t> language_id(const Tokenizer& tokenizer, const std::string& language);

// What to call the language of such a token: "fr" of "__fr__" and of ">>fr<<", else as it is spelled.
[[nodiscard]] std::string language_name(const std::string& piece);
// ">>fra<<", the token of a language in the texts of Marian's models, from its name or itself.
[[nodiscard]] std::string arrow_token(const std::string& language);

// The token of a language in the texts of Marian's models; nothing where the vocabulary has none for any language.
// Throws Error, with those that there are, for a language that is not among them.
[[nodiscard]] std::optional<int32_t> known_arrow(const Tokenizer& source, const std::string& language,
                                                 const char* function);

// The tokens that surely name languages: those with marks, ">>fra<<" or "__fr__" where `arrows` asks for the one or for
// the other; and without arrows also "fra_Latn", where it is a special token.
[[nodiscard]] std::vector<int32_t> languages_of(const Tokenizer& tokenizer, bool arrows);

// As language_id(). Throws Error with the languages that the vocabulary seems to have where this one is not there.
[[nodiscard]] int32_t known_language(const Tokenizer& tokenizer, const std::string& language, const char* function);

}  // namespace heed::text
