// Decoders of tokenizer.json: from tokens back to text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/huggingface/pre_tokenizers.h"
#include "text/huggingface/regex.h"

namespace heed::text::huggingface {

// Changes the tokens; after the last decoder they are joined.
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};
using DecoderPointer = std::unique_ptr<const Decoder>;

[[nodiscard]] DecoderPointer wordpiece_decoder(std::string prefix, bool cleanup);
[[nodiscard]] DecoderPointer byte_level_decoder();
[[nodiscard]] DecoderPointer metaspace_decoder(std::string replacement, Prepend prepend);
[[nodiscard]] DecoderPointer bpe_decoder(std::string suffix);
[[nodiscard]] DecoderPointer byte_fallback_decoder();
[[nodiscard]] DecoderPointer fuse_decoder();
[[nodiscard]] DecoderPointer strip_decoder(std::string character, int64_t start, int64_t stop);
[[nodiscard]] DecoderPointer replace_decoder(std::string pattern, std::string content);
[[nodiscard]] DecoderPointer replace_decoder(std::unique_ptr<const Regex> pattern, std::string content);

// Bytes as text: U+FFFD for what is not UTF-8.
[[nodiscard]] std::string text_of_bytes(std::string_view bytes);

}  // namespace heed::text::huggingface
