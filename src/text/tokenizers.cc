// Tokenizers in a model folder.
#include "text/tokenizers.h"

#include <system_error>

#include "base/files.h"
#include "heed/error.h"

namespace heed::text {

std::filesystem::path tokenizer_file(const std::filesystem::path& folder, Side side, std::string_view ending) {
  return folder / ((side == Side::source ? "source" : "target") + std::string(ending));
}

void save_tokenizer_file(const std::filesystem::path& folder, Side side, std::string_view ending,
                         std::string_view contents) {
  files::write_atomically(tokenizer_file(folder, side, ending), contents, "save_tokenizer");
  const std::string_view other = ending == kVocabularyEnding ? kSentencePieceEnding : kVocabularyEnding;
  std::error_code error;
  std::filesystem::remove(tokenizer_file(folder, side, other), error);
  require(!error, "save_tokenizer", files::quoted(tokenizer_file(folder, side, other)),
          ": a file that can be removed; ", error.message());
}

std::shared_ptr<const Tokenizer> Tokenizer::load(const std::filesystem::path& folder, Side side) {
  const std::filesystem::path model = tokenizer_file(folder, side, kSentencePieceEnding);
  const std::filesystem::path vocabulary = tokenizer_file(folder, side, kVocabularyEnding);
  std::error_code ignored;
  const bool has_model = std::filesystem::exists(model, ignored);
  const bool has_vocabulary = std::filesystem::exists(vocabulary, ignored);
  require(has_model || has_vocabulary, "load_tokenizer", files::quoted(folder), ": ", model.filename().string(), " or ",
          vocabulary.filename().string(), " in this folder; found neither");
  require(!(has_model && has_vocabulary), "load_tokenizer", files::quoted(folder), ": ", model.filename().string(),
          " or ", vocabulary.filename().string(), " in this folder; found both");
  return has_model ? load_sentencepiece(model) : load_vocabulary(vocabulary);
}

std::shared_ptr<const SubwordSampler> Tokenizer::sampler(double /*alpha*/) const {
  fail("sampler", "a unigram model of SentencePiece, whose pieces have probabilities; found a tokenizer of kind \"",
       kind(), "\"");
}

void require_id(int32_t id, int64_t vocabulary, std::string_view function) {
  require(id >= 0 && id < vocabulary, function, "ids from 0 to ", vocabulary - 1, "; found ", id);
}

bool is_special(int32_t id, const SpecialIds& special) {
  return id == special.padding || id == special.begin || id == special.end || id == special.unknown;
}

}  // namespace heed::text
