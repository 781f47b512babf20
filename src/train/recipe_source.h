// A recipe file as it is written, before its keys are looked at.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "formats/json.h"

namespace heed::train {

struct RecipeSource {
  std::string file;
  io::Json values = io::Json::object();
  std::map<std::string, int64_t> lines;  // of each key, where it is known: "schedule.peak"

  [[nodiscard]] std::string at(const std::string& key) const;  // "FILE, line 3", or "FILE"
};

// Reads a file named .toml or .json; throws Error.
[[nodiscard]] RecipeSource read_source(const std::filesystem::path& file);

}  // namespace heed::train
