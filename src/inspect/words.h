// Which tokens are words, and which only mark something.
#pragma once

#include <string_view>

namespace heed::inspect {

// Whether a token says something by itself: it has a letter, a digit or a picture. False for punctuation, for a word
// mark alone ("▁") and for the marks of vocabularies: <s>, <0x0A>, [CLS].
[[nodiscard]] bool is_word(std::string_view token);

}  // namespace heed::inspect
