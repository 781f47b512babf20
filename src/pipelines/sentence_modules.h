// The modules of sentence-transformers that stand above an encoder: how states of tokens become the vector of a text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "models/pooling.h"
#include "models/sentence_dense.h"

namespace heed::pipelines {

class SentenceModules {
 public:
  // Without modules.json: the mean of all tokens. `width` (E) is that of the states.
  explicit SentenceModules(int64_t width);
  // As modules.json in `folder` says, where it is there. Throws Error, with the file and the key, for modules that heed
  // does not have, that do not fit together, or whose files are missing.
  [[nodiscard]] static SentenceModules load(const std::filesystem::path& folder, int64_t width);
  // Where the encoder of `folder` is: as a rule `folder` itself.
  [[nodiscard]] static std::filesystem::path encoder_folder(const std::filesystem::path& folder);
  // The folders of all modules: first the encoder's.
  [[nodiscard]] static std::vector<std::filesystem::path> folders(const std::filesystem::path& folder);

  // The length of a vector.
  [[nodiscard]] int64_t size() const { return size_; }
  // Whether tokens of a prompt count as the others do.
  [[nodiscard]] bool pools_prompts() const { return pools_prompts_; }
  // states (B, L, E), lengths (B) i32 -> (B, size()). A row has the same bits whatever the other rows are. The first
  // `skipped` tokens of each text are not pooled; a text without others is pooled to zeros.
  [[nodiscard]] Tensor operator()(const Tensor& states, const Tensor& lengths, int64_t skipped = 0) const;

 private:
  struct Normalize {};
  using Module = std::variant<models::SentenceDense, Normalize>;

  int64_t size_;
  std::vector<models::TokenPooling> poolings_ = {models::TokenPooling::mean};  // side by side
  bool pools_prompts_ = true;
  std::vector<Module> modules_;  // one above the other
};

}  // namespace heed::pipelines
