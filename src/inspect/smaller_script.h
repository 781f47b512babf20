// Scripts of the pages without what only their readers need.
#pragma once

#include <string>
#include <string_view>

namespace heed::inspect {

// JavaScript without comments, and without the spaces and line ends that the language does not need. Strings, templates
// and regular expressions stay as they are. Constants become variables, and declarations in a row become one. No
// statement before a closing brace may be empty (`while (f());}`): the semicolon there is left out.
[[nodiscard]] std::string smaller_script(std::string_view script);

}  // namespace heed::inspect
