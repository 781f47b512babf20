// Errors as the person who typed the command reads them.
#pragma once

#include <string>
#include <string_view>

namespace heed::cli {

// The library writes "[function] place: a number; found this". This removes the names of functions and adds the verb:
// "place: expected a number; found this", and quotes 'x' as the command line does. Other text stays as it is.
[[nodiscard]] std::string plain_message(std::string_view text);

// What to do about the error `text` of `command` ("heed train"), by options that this command has; empty for nothing.
[[nodiscard]] std::string_view hint_for(std::string_view command, std::string_view text);
// The same where memory ran out.
[[nodiscard]] std::string_view hint_for_memory(std::string_view command);

}  // namespace heed::cli
