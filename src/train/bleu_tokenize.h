// How sacreBLEU cuts text before it counts: the tokenizers 13a (mteval-v13a, Western languages), zh, char and none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heed::train {

enum class BleuTokenizer { v13a, zh, characters, none };

// Throws Error for a name that is none of 13a, zh, char, none.
[[nodiscard]] BleuTokenizer parse_bleu_tokenizer(std::string_view name);

// The tokens of one line. Bytes that are not UTF-8 are kept as they are, each a character of its own.
[[nodiscard]] std::vector<std::string> bleu_tokens(std::string_view line, BleuTokenizer tokenizer, bool lowercase);

// Lower case as Python's str.lower(): İ becomes two characters, a final Σ becomes ς.
[[nodiscard]] std::string lower_case(std::string_view text);

}  // namespace heed::train
