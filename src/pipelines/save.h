// Loaded pipelines written back as folders.
#pragma once

#include <filesystem>
#include <vector>

#include "heed/pipelines.h"

namespace heed::pipelines {

// As it was loaded, heed's own, or that of Hugging Face, in which transformers reads it.
enum class Layout { same, heed, huggingface };

// Writes a folder `to` that gives what the pipeline gives: weights, configuration, tokenizers, and the small files that
// `from`, the folder that it was loaded from, has beside them. Weights in int8 are always in heed's own layout, whose
// translators never write their padding and begin tokens. Files of another model that `to` has are removed. Throws
// Error where the layout cannot hold the model, or there is no space; then `to` is as it was.
void save(const Translator& translator, const std::filesystem::path& from, const std::filesystem::path& to,
          Layout layout);
void save(const Generator& generator, const std::filesystem::path& from, const std::filesystem::path& to,
          Layout layout);
void save(const Encoder& encoder, const std::filesystem::path& from, const std::filesystem::path& to, Layout layout);
// What a folder `to` that is written over may hold beside the new files, and what would change their meaning: older
// shards of weights, settings, tokenizers and the model card. Names in it, and in its sub-folder `inner`.
[[nodiscard]] std::vector<std::filesystem::path> side_files(const std::filesystem::path& from,
                                                            const std::filesystem::path& to,
                                                            const std::filesystem::path& inner = {});
// Whether `folder` has a tokenizer of heed's own kinds alone, which transformers does not read.
[[nodiscard]] bool lacks_tokenizer_json(const std::filesystem::path& folder);

}  // namespace heed::pipelines
