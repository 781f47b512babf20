// Normalizers of tokenizer.json: what happens to a text before it is cut.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/huggingface/aligned_text.h"
#include "text/huggingface/regex.h"
#include "text/huggingface/unicode_forms.h"

namespace heed::text::huggingface {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(AlignedText& text) const = 0;
};
using NormalizerPointer = std::unique_ptr<const Normalizer>;

struct BertNormalizerOptions {
  bool clean_text = true;                  // drop control characters, and write all white space as a space
  bool handle_chinese_chars = true;        // a space before and behind each ideograph
  std::optional<bool> strip_accents = {};  // as lowercase, where it is not given
  bool lowercase = true;
};

[[nodiscard]] NormalizerPointer bert_normalizer(const BertNormalizerOptions& options);
[[nodiscard]] NormalizerPointer form_normalizer(NormalForm form);
[[nodiscard]] NormalizerPointer lowercase_normalizer();
[[nodiscard]] NormalizerPointer strip_normalizer(bool left, bool right);
[[nodiscard]] NormalizerPointer strip_accents_normalizer();
[[nodiscard]] NormalizerPointer replace_normalizer(std::string pattern, std::string content);
[[nodiscard]] NormalizerPointer replace_normalizer(std::unique_ptr<const Regex> pattern, std::string content);
[[nodiscard]] NormalizerPointer prepend_normalizer(std::string prefix);
[[nodiscard]] NormalizerPointer nmt_normalizer();
[[nodiscard]] NormalizerPointer byte_level_normalizer();
// `map`: the bytes of precompiled_charsmap. Throws Error for a map that is damaged.
[[nodiscard]] NormalizerPointer character_map_normalizer(std::string_view map, const std::string& name);
[[nodiscard]] NormalizerPointer sequence_normalizer(std::vector<NormalizerPointer> parts);

// The text with `content` in place of each `pattern`.
void replace_all(AlignedText& text, std::string_view pattern, std::string_view content);

// The character that stands for a byte in byte-level vocabularies: "Ġ" for a space.
[[nodiscard]] std::string_view byte_character(uint8_t byte);
// The byte that a character stands for, or -1.
[[nodiscard]] int byte_of_character(int32_t code_point);

}  // namespace heed::text::huggingface
