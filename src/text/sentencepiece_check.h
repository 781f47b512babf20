// A SentencePiece model file may come from anyone. The library follows the character map in it without checking, so
// that heed checks it first.
#pragma once

#include <string>
#include <string_view>

namespace heed::text {

// Throws Error where the library would read outside of its memory, or where a score is not finite. Returns whether the
// model has user-defined pieces, which the library never cuts whatever their score; it does not say so itself.
[[nodiscard]] bool check_sentencepiece(std::string_view model, const std::string& name);

}  // namespace heed::text
