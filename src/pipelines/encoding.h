// Texts as ids: checked, cut or refused, with warnings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heed/pipelines.h"

namespace heed::pipelines {

using Ids = std::vector<int32_t>;

// The ids of the text at place `index` of a call, at most `longest`; errors name `function`.
[[nodiscard]] Ids encode_text(const text::Tokenizer& tokenizer, std::string_view text, int64_t index, int64_t longest,
                              const TextOptions& options, const char* function);

[[nodiscard]] std::vector<std::string> pieces_of(const text::Tokenizer& tokenizer, const Ids& ids);

// One sequence: (1, L) i32, and its length (1) i32.
[[nodiscard]] Tensor as_row(const Ids& ids);
[[nodiscard]] Tensor length_of(const Ids& ids);

}  // namespace heed::pipelines
