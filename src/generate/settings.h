// What a folder of Hugging Face says about searches, beyond search_settings().
#pragma once

#include <filesystem>
#include <string>

#include "heed/generate.h"

namespace heed::generate {

// "early_stopping", whatever the folder's "num_beams". In search_settings() a beam of 1 ends with its first end.
[[nodiscard]] StopWhen stop_when_of(const std::filesystem::path& folder);

// generation_config.json for a model in heed's own layout whose folder in Hugging Face's layout has these settings in
// config.json: search_settings() says the same of both.
[[nodiscard]] std::string generation_config_of(const std::filesystem::path& folder);

}  // namespace heed::generate
