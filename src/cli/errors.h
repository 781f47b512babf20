// Errors as the person who typed the command reads them.
#pragma once

#include <string>
#include <string_view>

namespace heed::cli {

// The library writes "[function] where: what was expected; found this". Here the names of functions go, and the
// sentence gets its verb: "where: expected what was expected; found this". Other text is left as it is.
[[nodiscard]] std::string plain_message(std::string_view text);

// What `command` ("heed train") can do about the error `text`, in options that it has; empty where there is nothing.
[[nodiscard]] std::string_view hint_for(std::string_view command, std::string_view text);
// The same where memory ran out.
[[nodiscard]] std::string_view hint_for_memory(std::string_view command);

}  // namespace heed::cli
