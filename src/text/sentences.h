// Where sentences end, for texts that are longer than a model reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/text.h"

namespace heed::text {

// The sentences of valid UTF-8, without the white space around them. A sentence ends behind the marks of its script
// (. ! ? … 。 ！ ？ । ؟ and more) and the quotes and brackets that close there, or with an empty line. A full stop ends
// none in a number, behind one letter ("J. Smith", "e.g."), behind a common abbreviation ("Dr.") or a number that the
// sentence begins with ("1. Introduction"); nor does a mark that a small letter follows ("Really?" she asked), or that
// no white space follows, unless it is a mark of Chinese or Japanese or stands before their characters.
[[nodiscard]] std::vector<Span> sentences(std::string_view text);

// The best place to cut valid UTF-8 that is too long: behind the last comma, semicolon, colon or dash of its second
// half; else before the last white space that is not at its beginning; 0 where there is neither.
[[nodiscard]] size_t last_pause(std::string_view text);

[[nodiscard]] std::string_view trimmed(std::string_view text);  // without white space at either end

// Chinese and Japanese: ideographs, kana and their punctuation, which no spaces stand between.
[[nodiscard]] bool is_written_without_spaces(int32_t code_point);
// Whether most characters are of such scripts: "13a", which cuts texts for BLEU, takes a whole sentence for a word
// then.
[[nodiscard]] bool mostly_without_spaces(std::span<const std::string> lines);
[[nodiscard]] bool begins_without_spaces(std::string_view text);  // false for an empty text
[[nodiscard]] bool ends_without_spaces(std::string_view text);

}  // namespace heed::text
