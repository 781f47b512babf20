// The JSON header of a safetensors file, as it is written there: nothing about it has been checked but its form.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"

namespace heed::io {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  int64_t begin = 0;
  int64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of the file
  std::map<std::string, std::string> metadata;
};

// Throws Error through `input.fail` when `text` is not such a header. Not recursive; depth at most 3.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::string_view text, const files::MappedFile& input);

}  // namespace heed::io
