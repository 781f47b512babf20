// What a folder of Hugging Face says about searches, beyond search_settings().
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "heed/generate.h"
#include "heed/models.h"

namespace heed::generate {

// "early_stopping", whatever the folder's "num_beams". In search_settings() a beam of 1 ends with its first end.
[[nodiscard]] StopWhen stop_when_of(const std::filesystem::path& folder);

// generation_config.json for a model in heed's own layout whose folder in Hugging Face's layout has these settings in
// config.json: search_settings() says the same of both.
[[nodiscard]] std::string generation_config_of(const std::filesystem::path& folder);

// What the folder of a translator says about its searches, with stop_when_of() for whatever beam is asked for. Nothing
// for a model in heed's own layout, unless it was converted and has kept its settings.
[[nodiscard]] std::optional<BeamOptions> settings_of_translator(const std::filesystem::path& folder,
                                                                const models::Model& model);

// `search` with those settings of the folder that it leaves open. Where its begin_id is left open, it stays so.
[[nodiscard]] BeamOptions with_settings(BeamOptions search, const BeamOptions& folder);

// Keeps a search from rows that no token belongs to, from `tokens` on: T5 has 28 of them.
void leave_out_rows(BeamOptions& search, int64_t tokens, int64_t rows);

}  // namespace heed::generate
