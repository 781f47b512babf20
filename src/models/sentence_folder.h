// The folders of sentence-transformers: which modules stand above an encoder, and how its states are pooled.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "models/pooling.h"

namespace heed::models {

// An entry of modules.json.
struct SentenceModule {
  std::string kind;  // "Transformer", "Pooling", "Dense" or "Normalize"
  std::filesystem::path folder;
};
// modules.json, unless it lists the Transformer of a cross-encoder alone.
[[nodiscard]] bool has_sentence_modules(const std::filesystem::path& folder);
// Whether this folder is the Transformer that modules.json in the folder above names.
[[nodiscard]] bool is_sentence_transformer(const std::filesystem::path& folder);
// Whether config_sentence_transformers.json, beside modules.json, says that the model compares pairs.
[[nodiscard]] bool is_cross_encoder(const std::filesystem::path& folder);
// A Transformer, a Pooling, and others. Throws Error, with the file and the key, for modules that heed does not have.
[[nodiscard]] std::vector<SentenceModule> read_sentence_modules(const std::filesystem::path& folder);

struct SentencePooling {
  std::vector<TokenPooling> poolings = {TokenPooling::mean};  // side by side
  bool pools_prompts = true;                                  // whether tokens of a prompt count as the others do
};
// Of the Pooling's folder, above states of this width.
[[nodiscard]] SentencePooling read_sentence_pooling(const std::filesystem::path& folder, int64_t width);
// Where only the path of a Pooling's folder says that prompts are left out, its copy in `to` says it itself.
void keep_prompts_out(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace heed::models
