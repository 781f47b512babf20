// Which files of a folder are a tokenizer of Hugging Face's kind.
#pragma once

#include <filesystem>
#include <memory>

#include "heed/text.h"
#include "text/tokenizers.h"

namespace heed::text::huggingface {

// nullptr where there is none of them.
[[nodiscard]] std::shared_ptr<const Tokenizer> load_folder(const std::filesystem::path& folder, Side side);
// One for both sides, unless the folder has two (Marian).
[[nodiscard]] TokenizerPair load_folder(const std::filesystem::path& folder);

}  // namespace heed::text::huggingface
