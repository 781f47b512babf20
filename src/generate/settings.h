// What a folder of Hugging Face says about searches, beyond search_settings().
#pragma once

#include <filesystem>

#include "heed/generate.h"

namespace heed::generate {

// "early_stopping", whatever the folder's "num_beams". In search_settings() a beam of 1 ends with its first end.
[[nodiscard]] StopWhen stop_when_of(const std::filesystem::path& folder);

}  // namespace heed::generate
