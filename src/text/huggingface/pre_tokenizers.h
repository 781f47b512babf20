// Pre-tokenizers of tokenizer.json: where a text is cut before the model sees it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/huggingface/aligned_text.h"
#include "text/huggingface/regex.h"

namespace heed::text::huggingface {

// Bytes begin to end - 1 of a text, never none. `start`: where it begins in the original, if that is tracked.
struct Part {
  uint32_t begin = 0, end = 0, start = 0;
};

struct Parts {
  AlignedText text;
  std::vector<Part> parts;
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Parts& parts) const = 0;
  // It asks where a part begins in the original.
  [[nodiscard]] virtual bool needs_origins() const { return false; }
};
using PreTokenizerPointer = std::unique_ptr<const PreTokenizer>;

// What becomes of the delimiters that a text is cut at.
enum class Delimiters { removed, isolated, merged_with_previous, merged_with_next, contiguous };

struct ByteLevelOptions {
  bool add_prefix_space = true;
  bool use_regex = true;  // GPT-2's expression
  bool as_bytes = false;  // leave the bytes as they are: the model reads bytes, not the characters that stand for them
};

enum class Prepend { first, never, always };

struct MetaspaceOptions {
  std::string replacement = "\u2581";
  Prepend prepend = Prepend::always;
  bool split = true;
};

[[nodiscard]] PreTokenizerPointer bert_pre_tokenizer();
[[nodiscard]] PreTokenizerPointer byte_level_pre_tokenizer(const ByteLevelOptions& options);
[[nodiscard]] PreTokenizerPointer metaspace_pre_tokenizer(MetaspaceOptions options);
[[nodiscard]] PreTokenizerPointer digits_pre_tokenizer(Delimiters delimiters);
[[nodiscard]] PreTokenizerPointer punctuation_pre_tokenizer(Delimiters delimiters);
[[nodiscard]] PreTokenizerPointer whitespace_pre_tokenizer();
[[nodiscard]] PreTokenizerPointer whitespace_split_pre_tokenizer();
[[nodiscard]] PreTokenizerPointer character_pre_tokenizer(int32_t delimiter);

struct SplitOptions {
  std::unique_ptr<const Regex> expression = {};  // none: the text below
  std::string text = {};
  Delimiters delimiters = Delimiters::isolated;
  bool invert = false;  // the delimiters are what the pattern does not match
};
[[nodiscard]] PreTokenizerPointer split_pre_tokenizer(SplitOptions options);

}  // namespace heed::text::huggingface
