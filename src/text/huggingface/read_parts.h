// The parts of tokenizer.json, read from it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/huggingface/fields.h"
#include "text/huggingface/tokenizer.h"

namespace heed::text::huggingface {

[[nodiscard]] NormalizerPointer read_normalizer(const Fields& fields);

struct PreTokenizerReading {
  std::vector<PreTokenizerPointer> parts;
  bool leaves_bytes = false;  // the last one is byte level, and leaves the bytes to the model
};
// `may_leave_bytes`: the model can read bytes.
[[nodiscard]] PreTokenizerReading read_pre_tokenizer(const Fields& fields, bool may_leave_bytes);
[[nodiscard]] PostProcessor read_post_processor(const Fields& fields);
[[nodiscard]] std::vector<DecoderPointer> read_decoder(const Fields& fields);

// A model that may leave words as bytes is told so after the pre-tokenizers are known.
struct ModelReading {
  TokenTable tokens;
  std::string kind;
  bool may_read_bytes = false;
};
[[nodiscard]] ModelReading begin_model(const Fields& fields);
[[nodiscard]] ModelPointer finish_model(const Fields& fields, ModelReading reading, bool as_bytes);

// Bytes of base64 text. Throws Error for other text.
[[nodiscard]] std::string from_base64(std::string_view text, const std::string& name);

}  // namespace heed::text::huggingface
