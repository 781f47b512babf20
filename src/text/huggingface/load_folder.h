// Which files of a folder are a tokenizer of Hugging Face's kind.
#pragma once

#include <filesystem>
#include <memory>

#include "heed/text.h"

namespace heed::text::huggingface {

// nullptr where there is none of them.
[[nodiscard]] std::shared_ptr<const Tokenizer> load_folder(const std::filesystem::path& folder, Side side);

}  // namespace heed::text::huggingface
