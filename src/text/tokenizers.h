// How the tokenizers are found again in a model folder: <side>.model is SentencePiece, <side>.vocab a vocabulary.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "heed/text.h"

namespace heed::text {

// What SentencePiece writes for a space: the beginning of a word.
inline constexpr std::string_view kSpaceMark = "\u2581";

inline constexpr std::string_view kSentencePieceEnding = ".model";
inline constexpr std::string_view kVocabularyEnding = ".vocab";

[[nodiscard]] std::filesystem::path tokenizer_file(const std::filesystem::path& folder, Side side,
                                                   std::string_view ending);
// Writes one of the two files and removes the other, if there is one from before.
void save_tokenizer_file(const std::filesystem::path& folder, Side side, std::string_view ending,
                         std::string_view contents);

// The names of all files in which a folder may have its tokenizers: heed's own, then those of Hugging Face.
[[nodiscard]] std::span<const char* const> tokenizer_files();

// Removes both of them.
void remove_tokenizer_files(const std::filesystem::path& folder, Side side);

[[nodiscard]] std::shared_ptr<const Tokenizer> load_vocabulary(const std::filesystem::path& file);

// An id of the vocabulary, or an Error of decode().
void require_id(int32_t id, int64_t vocabulary, std::string_view function);

// `body` between begin and end, cut to the limit: the default of Tokenizer::tokens(). Throws Error for what a tokenizer
// without a template cannot do.
[[nodiscard]] Tokens with_begin_and_end(Tokens body, const SpecialIds& special, const TokensOptions& options);

// One of the four special ids.
[[nodiscard]] bool is_special(int32_t id, const SpecialIds& special);

}  // namespace heed::text
