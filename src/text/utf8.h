// UTF-8, read code point by code point.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heed::text {

// Bytes of the valid code point at the start of `text` (1 to 4), or 0 where there is none: overlong forms, surrogates
// and values beyond U+10FFFF are not valid.
[[nodiscard]] size_t code_point_size(std::string_view text);

// Throws Error unless all of `text` is valid UTF-8: "valid UTF-8; found byte 0xff at position 3", counted from 1.
// `name` says which text it is: "standard input, line 3".
void require_utf8(std::string_view text, std::string_view function, std::string_view name = {});

}  // namespace heed::text
