#include "pipelines/folder.h"

#include "base/memory.h"
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

void require_architecture(models::Architecture found, models::Architecture wanted, const std::filesystem::path& folder,
                          const char* function) {
  require(found == wanted, function, folder.string(), ": ", words_for(wanted), "; found ", words_for(found));
}

void require_fit(const text::Tokenizer& tokenizer, text::Side side, const models::Model& model,
                 const std::filesystem::path& folder, const char* function) {
  const models::Config& config = model.config();
  const int64_t vocabulary = side == text::Side::source ? config.source_vocabulary : config.target_vocabulary;
  require(generate::fits_rows(tokenizer, model, vocabulary), function, folder.string(), ": a ",
          side == text::Side::source ? "source" : "target", " tokenizer of ", vocabulary,
          " tokens, as many as the model has; found ", tokenizer.vocabulary());
  generate::require_kind_of_tokenizer(tokenizer, model, folder.string(), function);
}

std::shared_ptr<const text::Tokenizer> load_tokenizer(const std::filesystem::path& folder, text::Side side,
                                                      const char* function, const models::Model& model) {
  auto tokenizer = text::Tokenizer::load(folder, side);
  require_fit(*tokenizer, side, model, folder, function);
  return tokenizer;
}

text::TokenizerPair load_tokenizers(const std::filesystem::path& folder, const char* function,
                                    models::Architecture architecture) {
  text::TokenizerPair loaded;
  try {
    switch (architecture) {
      case models::Architecture::encoder_decoder: loaded = text::load_tokenizers(folder); break;
      case models::Architecture::decoder_only: loaded.target = text::Tokenizer::load(folder, text::Side::target); break;
      case models::Architecture::encoder_only: loaded.source = text::Tokenizer::load(folder, text::Side::source); break;
    }
  } catch (const Error&) {  // of a folder of another kind, that is what is wrong
    require_architecture(models::read_config(folder).architecture, architecture, folder, function);
    throw;
  }
  give_heap_back();
  return loaded;
}

}  // namespace heed::pipelines
