// Folders of others whose weights heed has rounded to int8. config.json is theirs, with a quantization_config that says
// so. It names no "quant_method": transformers then refuses the folder. With one that it does not know, it takes no
// notice, and fills all the weights at random (5.24). model.safetensors is as heed writes its own models, with heed's
// configuration in the metadata, because only the weights that were rounded could have told it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "formats/json.h"
#include "heed/models.h"

namespace heed::models {

// `object` is a folder's config.json, whose text is `config_json`.
[[nodiscard]] bool is_rounded(const io::Json& object);
[[nodiscard]] Config read_rounded_config(const std::filesystem::path& folder, const io::Json& object);
// Throws Error, besides what loading a model of heed's own throws, where config.json has changed since it was written:
// nothing that it says is read again.
[[nodiscard]] std::unique_ptr<Model> load_rounded(const std::filesystem::path& folder, const io::Json& object,
                                                  const std::string& config_json, const LoadOptions& options);
void save_rounded(const Model& model, const std::filesystem::path& folder);

// Whether `model` came from such a folder. Its weights have no names in files of others, so none is written in f32.
[[nodiscard]] bool was_rounded(const Model& model);

}  // namespace heed::models
