// Folders that others wrote: loaded, and written back as they came.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "formats/json.h"
#include "heed/models.h"

namespace heed::models {

// `object` is the folder's config.json, whose text is `config_json`.
[[nodiscard]] std::unique_ptr<Model> load_family(const std::filesystem::path& folder, const io::Json& object,
                                                 const std::string& config_json, const LoadOptions& options);
[[nodiscard]] Config read_family_config(const std::filesystem::path& folder, const io::Json& object);
void save_family(const Model& model, const std::filesystem::path& folder);

}  // namespace heed::models
