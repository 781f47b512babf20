// When the files of a model have changed.
#pragma once

#include <filesystem>
#include <string>

namespace heed::serve {

// Where a model is: the folder that was named, the one of config.json and the weights, and the one of the tokenizers.
struct ModelFolders {
  std::filesystem::path named, weights, tokenizers;
};

// Changes with the files. Only sizes and times are looked at, because each request asks. Empty where config.json or the
// weights are not there.
[[nodiscard]] std::string version_of(const ModelFolders& folders);

}  // namespace heed::serve
