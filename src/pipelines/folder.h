// A folder with a model of one kind and the tokenizers that fit it.
#pragma once

#include <filesystem>
#include <memory>

#include "heed/error.h"
#include "heed/models.h"
#include "heed/text.h"

namespace heed::pipelines {

// "an encoder-decoder", "a decoder-only model", "an encoder-only model".
[[nodiscard]] std::string_view words_for(models::Architecture architecture);

// The folder's model. Throws Error where it is none of class Wanted, which is that of `architecture`.
template <class Wanted>
[[nodiscard]] std::shared_ptr<const Wanted> load_model(const std::filesystem::path& folder, const char* function,
                                                       models::Architecture architecture, WeightFormat weights) {
  const std::shared_ptr<const models::Model> model = models::load(folder, {.packed = true, .weights = weights});
  auto wanted = std::dynamic_pointer_cast<const Wanted>(model);
  require(wanted != nullptr, function, folder.string(), ": ", words_for(architecture), "; found ",
          words_for(model->config().architecture));
  return wanted;
}

// The folder's tokenizer of that side. Throws Error unless it has as many tokens as the model on that side. The token
// of mask_id may be in the model alone. Models of others may have more rows than there are tokens: a number of rows
// that processors like.
[[nodiscard]] std::shared_ptr<const text::Tokenizer> load_tokenizer(const std::filesystem::path& folder,
                                                                    text::Side side, const char* function,
                                                                    const models::Model& model);

}  // namespace heed::pipelines
