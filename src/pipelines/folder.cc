#include "pipelines/folder.h"

#include "generate/tokenizer_kind.h"
#include "pipelines/json_file.h"

namespace heed::pipelines {
std::string_view words_for(models::Architecture architecture) {
  switch (architecture) {
    case models::Architecture::encoder_decoder: return "an encoder-decoder";
    case models::Architecture::decoder_only: return "a decoder-only model";
    case models::Architecture::encoder_only: return "an encoder-only model";
  }
  return "";
}

int64_t longest_text(const std::filesystem::path& folder, int64_t positions, const char* function) {
  const auto settings = read_json_if_there(folder, {"tokenizer_config.json"}, function);
  if (!settings || !settings->value.is_object()) return positions;
  for (const char* const key : {"model_max_length", "max_len"}) {
    const auto found = settings->value.find(key);
    if (found == settings->value.end() || found->is_null()) continue;
    const std::string file = settings->file.string();
    require(found->is_number(), function, file, ": a number under \"", key, "\"; found ", io::json_ascii(*found));
    const auto limit = found->get<double>();  // 1e30 stands for none
    require(limit >= 1, function, file, ": 1 or more under \"", key, "\"; found ", io::json_ascii(*found));
    return limit < static_cast<double>(positions) ? static_cast<int64_t>(limit) : positions;
  }
  return positions;
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
