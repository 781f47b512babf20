// Small JSON files beside a model.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <optional>

#include "formats/json.h"

namespace heed::io {

// Throws Error in the name of `function` for a file that is missing or is no JSON.
[[nodiscard]] Json read_json(const std::filesystem::path& file, const char* function);
// The same of the first of these files in the folder that is there.
struct JsonFile {
  std::filesystem::path file;
  Json value;
};
[[nodiscard]] std::optional<JsonFile> read_json_if_there(const std::filesystem::path& folder,
                                                         std::initializer_list<const char*> names,
                                                         const char* function);

}  // namespace heed::io
