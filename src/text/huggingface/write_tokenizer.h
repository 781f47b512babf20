// heed's own tokenizers in the files of Hugging Face.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "heed/text.h"
#include "text/tokenizers.h"

namespace heed::text::huggingface {

struct WrittenTokenizer {
  Around around = Around::both;  // what stands around a text
  int64_t longest = 0;           // tokens of a text, those around it included
  std::string mask = {};         // a token behind all others, that fills a gap; empty: none
};

// Writes tokenizer.json and tokenizer_config.json for the tokenizer that save() has put into `folder` for `side`, so
// that transformers cuts texts as it does. But transformers finds special tokens in them, and applies a map of
// characters, which models that heed trains do not have, to clusters of characters. Returns false, and writes nothing,
// where tokenizer.json has no form for the tokenizer: for one with a token that comes twice or is not UTF-8, a mask
// that is a token already, or a special token that could be a word; and for a SentencePiece model
// - of single words or characters, with bytes in a unigram model, with spaces as they are or at the ends of words, or
//   with a map for decode();
// - with pieces that users defined, that are not in use, or that match no text and are not special;
// - with merges of equal scores, or of characters that are no pieces.
[[nodiscard]] bool write_tokenizer(const Tokenizer& tokenizer, const std::filesystem::path& folder, Side side,
                                   const WrittenTokenizer& written);

}  // namespace heed::text::huggingface
