#include "pipelines/folder.h"

#include "generate/tokenizer_kind.h"

namespace heed::pipelines {
std::string_view words_for(models::Architecture architecture) {
  switch (architecture) {
    case models::Architecture::encoder_decoder: return "an encoder-decoder";
    case models::Architecture::decoder_only: return "a decoder-only model";
    case models::Architecture::encoder_only: return "an encoder-only model";
  }
  return "";
}

std::shared_ptr<const text::Tokenizer> load_tokenizer(const std::filesystem::path& folder, text::Side side,
                                                      const char* function, const models::Model& model) {
  const models::Config& config = model.config();
  auto tokenizer = text::Tokenizer::load(folder, side);
  const int64_t found = tokenizer->vocabulary();
  const int64_t vocabulary = side == text::Side::source ? config.source_vocabulary : config.target_vocabulary;
  // Training adds the mask behind the tokenizer's own tokens.
  const bool adds_mask = config.mask_id == found && found + 1 == vocabulary;
  const bool by_others = model.origin() != nullptr;
  const bool fits = found == vocabulary || adds_mask || (found < vocabulary && by_others);
  require(fits, function, folder.string(), ": a ", side == text::Side::source ? "source" : "target", " tokenizer of ",
          vocabulary, " tokens, as many as the model has; found ", found);
  generate::require_kind_of_tokenizer(*tokenizer, model, folder.string(), function);
  return tokenizer;
}

}  // namespace heed::pipelines
