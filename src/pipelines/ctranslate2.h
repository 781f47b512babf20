// Folders of CTranslate2, written anew.
#pragma once

#include <filesystem>

#include "heed/ops_options.h"
#include "pipelines/save.h"

namespace heed::pipelines {

// Writes the translator of `from` as a folder `to`, in the layout of Hugging Face or else in heed's. `tokenizers` is
// the folder with source.spm and target.spm; empty: `from`. Throws Error where files are missing, the layout cannot
// hold the model, or `to` is `from`; then `to` is as it was.
void convert_ctranslate2(const std::filesystem::path& from, const std::filesystem::path& tokenizers,
                         const std::filesystem::path& to, Layout layout, WeightFormat weights);

}  // namespace heed::pipelines
