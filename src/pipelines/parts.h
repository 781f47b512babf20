// A text that is longer than a model reads, in parts that it does read, and their translations as one.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/pipelines.h"
#include "pipelines/encoding.h"

namespace heed::pipelines {

// Bytes of a text that are translated together, without white space at either end.
struct Part {
  text::Span span;
  bool glued = false;  // the part before it ends in the same word
};

// The sentences of the text. One of more than `longest` tokens is cut at its pauses; where it has none, between tokens.
// The time is linear in the text. Throws Error, as of the text at place `index` of a call, where one character has more
// tokens.
[[nodiscard]] std::vector<Part> parts_of(const text::Tokenizer& tokenizer, std::string_view text, int64_t index,
                                         int64_t longest, const TextOptions& options, const char* function);

// The k-th best translations of all parts as the k-th best of the text. Between two of them stands the white space that
// stands between the parts; none beside the characters of Chinese and Japanese; and a space where the text has none
// and needs none but the translation does.
[[nodiscard]] std::vector<Translation> join_parts(std::string_view text, std::span<const Part> parts,
                                                  std::span<const std::vector<Translation>> translations);

}  // namespace heed::pipelines
