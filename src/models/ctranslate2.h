// Models in CTranslate2's format.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "heed/models.h"

namespace heed::models {

// The tokens of each side are named in the order of their ids. Where the decoder starts from a vector of zeros, as
// Marian's does, a token "<pad>" with that vector stands behind those of the file, as in transformers.
struct Ctranslate2Model {
  std::unique_ptr<Transformer> model;
  std::vector<std::string> source_tokens, target_tokens;
  bool shared_vocabulary = false;
  std::string end, unknown, padding;  // tokens
};

// There is a model.bin, and no weights of heed or Hugging Face.
[[nodiscard]] bool is_ctranslate2_folder(const std::filesystem::path& folder);

// Reads model.bin, config.json and the vocabularies (shared_vocabulary, or source_vocabulary and target_vocabulary;
// .json or .txt). Weights in f16, bf16 and 8 bits become f32. Throws Error, naming what is in the way, for models that
// are no plain encoder-decoder, and for settings and tensors that heed does not know.
[[nodiscard]] Ctranslate2Model load_ctranslate2(const std::filesystem::path& folder);

}  // namespace heed::models
