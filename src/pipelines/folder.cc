#include "pipelines/folder.h"

#include "pipelines/json_file.h"

namespace heed::pipelines {
namespace {

// heed's own config.json has no "model_type".
bool written_by_others(const std::filesystem::path& folder, const char* function) {
  const auto config = read_json_if_there(folder, {"config.json"}, function);
  return config && config->value.is_object() && config->value.contains("model_type");
}

}  // namespace

std::string_view words_for(models::Architecture architecture) {
  switch (architecture) {
    case models::Architecture::encoder_decoder: return "an encoder-decoder";
    case models::Architecture::decoder_only: return "a decoder-only model";
    case models::Architecture::encoder_only: return "an encoder-only model";
  }
  return "";
}

std::shared_ptr<const text::Tokenizer> load_tokenizer(const std::filesystem::path& folder, text::Side side,
                                                      const char* function, int64_t vocabulary, int64_t mask_id) {
  auto tokenizer = text::Tokenizer::load(folder, side);
  const int64_t found = tokenizer->vocabulary();
  // Training adds the mask behind the tokenizer's own tokens.
  const bool adds_mask = mask_id == found && found + 1 == vocabulary;
  const bool fits = found == vocabulary || adds_mask || (found < vocabulary && written_by_others(folder, function));
  require(fits, function, folder.string(), ": a ", side == text::Side::source ? "source" : "target", " tokenizer of ",
          vocabulary, " tokens, as many as the model has; found ", found);
  return tokenizer;
}

}  // namespace heed::pipelines
