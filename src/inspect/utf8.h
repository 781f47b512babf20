// Code points of text that may be anything: what is not valid UTF-8 reads as U+FFFD.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heed::inspect {

inline constexpr char32_t kReplacement = 0xFFFD;

// The code point at `at`, which moves past it; a byte that starts nothing valid is one U+FFFD (Unicode 15, table 3-7).
[[nodiscard]] char32_t next_code_point(std::string_view text, size_t& at);
void append_utf8(std::string& out, char32_t code);

// Control characters, and what changes the direction of text or cannot be seen: never shown raw.
[[nodiscard]] bool is_invisible(char32_t code);

// Columns the text takes in a terminal: East Asian wide characters two, combining marks and joiners none.
[[nodiscard]] int64_t terminal_width(std::string_view text);

// As escape_terminal(), but joiners (U+200C, U+200D) stay between characters that can be seen. At most `limit` code
// points, the last "…" where something was cut; "∅" for nothing.
[[nodiscard]] std::string label(std::string_view text, int64_t limit);

}  // namespace heed::inspect
