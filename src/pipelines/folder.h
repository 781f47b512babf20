// A folder with a model of one kind and the tokenizers that fit it.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "heed/error.h"
#include "heed/models.h"
#include "heed/text.h"
#include "text/tokenizers.h"

namespace heed::pipelines {

// "an encoder-decoder", "a decoder-only model", "an encoder-only model".
[[nodiscard]] std::string_view words_for(models::Architecture architecture);

// Throws Error unless the model is of that architecture.
void require_architecture(models::Architecture found, models::Architecture wanted, const std::filesystem::path& folder,
                          const char* function);

// Throws Error unless the folder's tokenizer is of the model's kind, and has as many tokens as the model on that side
// (fits_rows()).
void require_fit(const text::Tokenizer& tokenizer, text::Side side, const models::Model& model,
                 const std::filesystem::path& folder, const char* function);

// The folder's tokenizer of that side, which must fit the model.
[[nodiscard]] std::shared_ptr<const text::Tokenizer> load_tokenizer(const std::filesystem::path& folder,
                                                                    text::Side side, const char* function,
                                                                    const models::Model& model);

// The tokenizers of a folder of that architecture: of a translator both, of others the one that they have.
[[nodiscard]] text::TokenizerPair load_tokenizers(const std::filesystem::path& folder, const char* function,
                                                  models::Architecture architecture);

template <class Wanted>
struct ModelAndTokenizers {
  std::shared_ptr<const Wanted> model;
  text::TokenizerPair tokenizers;
};

// The folder's model, of class Wanted, which is that of `architecture`, and the tokenizers that fit it. They are loaded
// first: reading a large vocabulary takes up to 250 MB for a moment, which the weights then use.
template <class Wanted>
[[nodiscard]] ModelAndTokenizers<Wanted> load_model(const std::filesystem::path& folder, const char* function,
                                                    models::Architecture architecture, WeightFormat weights) {
  ModelAndTokenizers<Wanted> loaded{.model = nullptr, .tokenizers = load_tokenizers(folder, function, architecture)};
  const std::shared_ptr<const models::Model> model = models::load(folder, {.packed = true, .weights = weights});
  require_architecture(model->config().architecture, architecture, folder, function);
  loaded.model = std::dynamic_pointer_cast<const Wanted>(model);
  const auto& [source, target] = loaded.tokenizers;
  if (source != nullptr) require_fit(*source, text::Side::source, *model, folder, function);
  if (target != nullptr) require_fit(*target, text::Side::target, *model, folder, function);
  return loaded;
}

}  // namespace heed::pipelines
