// heed convert, from CTranslate2's folders.
#pragma once

#include <filesystem>

#include "heed/ops_options.h"

namespace heed::cli {

// Writes the translator of `from` as a folder `to`: in the layout of Hugging Face, or in heed's. `tokenizers` is the
// folder with source.spm and target.spm; empty: `from`.
void convert_ctranslate2(const std::filesystem::path& from, const std::filesystem::path& tokenizers,
                         const std::filesystem::path& to, bool huggingface, WeightFormat weights);

}  // namespace heed::cli
