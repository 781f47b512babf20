// A SentencePiece model file is a protocol buffer from somewhere. The library that reads it trusts some of what is in
// it (the character map is followed as it stands); this looks at those parts first.
#pragma once

#include <string>
#include <string_view>

namespace heed::text {

// Throws Error when the model could lead the library outside of its memory, or has a score that is not finite.
void check_sentencepiece(std::string_view model, const std::string& name);

}  // namespace heed::text
