// Names that stand in a file, as messages show them.
#pragma once

#include <string>
#include <string_view>

#include "base/files.h"

namespace heed::io {

// They are data: cut, in quotes, without control characters.
[[nodiscard]] inline std::string shown(std::string_view name) {
  constexpr size_t kLongest = 100;
  return files::quoted(name.size() > kLongest ? std::string(name.substr(0, kLongest)) + "..." : std::string(name));
}

}  // namespace heed::io
