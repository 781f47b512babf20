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

// What Tokenizer::load() gives for the two sides: one tokenizer where a folder has only one.
struct TokenizerPair {
  std::shared_ptr<const Tokenizer> source, target;
};
[[nodiscard]] TokenizerPair load_tokenizers(const std::filesystem::path& folder);

// The names of all files in which a folder may have its tokenizers: heed's own, then those of Hugging Face.
[[nodiscard]] std::span<const char* const> tokenizer_files();

// Removes both of them.
void remove_tokenizer_files(const std::filesystem::path& folder, Side side);

// Which of begin and end a model was trained to read around a text.
enum class Around { both, end, none };
// Of one of heed's own tokenizers, in the folder of a model: encoders read both around a text, and so do decoders that
// translate; the encoder of a translator reads the end alone, and a language model neither.
[[nodiscard]] Around around_in(const std::filesystem::path& folder, Side side);

[[nodiscard]] std::shared_ptr<const Tokenizer> load_vocabulary(const std::filesystem::path& file,
                                                               Around around = Around::both);
[[nodiscard]] std::shared_ptr<const Tokenizer> load_sentencepiece_with(const std::filesystem::path& model,
                                                                       Around around);

// An id of the vocabulary, or an Error of decode().
void require_id(int32_t id, int64_t vocabulary, std::string_view function);

// `body` between begin and end, cut to the limit: the default of Tokenizer::tokens(). Throws Error for what a tokenizer
// without a template cannot do.
[[nodiscard]] Tokens with_begin_and_end(Tokens body, const SpecialIds& special, const TokensOptions& options,
                                        Around around = Around::both);

// The tokens of the text, and of the pair, in lower case: of tokenizers that change no case themselves. Spans are those
// of the text as it is.
[[nodiscard]] Tokens tokens_in_lower_case(const Tokenizer& tokenizer, std::string_view text,
                                          const TokensOptions& options);

// One of the four special ids.
[[nodiscard]] bool is_special(int32_t id, const SpecialIds& special);

// Whether a tokenizer says itself what stands around a text or a pair, as those of Hugging Face do. A model of others
// in heed's own layout keeps its tokenizer.
[[nodiscard]] bool is_of_others(const Tokenizer& tokenizer);

}  // namespace heed::text
