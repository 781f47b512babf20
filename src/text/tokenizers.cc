// Tokenizers in a model folder.
#include "text/tokenizers.h"

#include <system_error>

#include "base/files.h"
#include "heed/error.h"
#include "text/huggingface/load_folder.h"
#include "text/huggingface/normalizers.h"
#include "text/huggingface/read_tokenizer.h"
#include "text/utf8.h"

namespace heed::text {

std::filesystem::path tokenizer_file(const std::filesystem::path& folder, Side side, std::string_view ending) {
  return folder / ((side == Side::source ? "source" : "target") + std::string(ending));
}

namespace {

void remove_tokenizer_file(const std::filesystem::path& folder, Side side, std::string_view ending) {
  std::error_code error;
  std::filesystem::remove(tokenizer_file(folder, side, ending), error);
  require(!error, "save_tokenizer", files::quoted(tokenizer_file(folder, side, ending)),
          ": a file that can be removed; ", error.message());
}

}  // namespace

std::span<const char* const> tokenizer_files() {
  static constexpr const char* kNames[] = {"source.model",
                                           "target.model",
                                           "source.vocab",
                                           "target.vocab",
                                           "tokenizer.json",
                                           "tokenizer_config.json",
                                           "special_tokens_map.json",
                                           "added_tokens.json",
                                           "source.spm",
                                           "target.spm",
                                           "vocab.json",
                                           "target_vocab.json",
                                           "vocab.txt",
                                           "merges.txt",
                                           "sentencepiece.bpe.model",
                                           "spiece.model"};
  return kNames;
}

void remove_tokenizer_files(const std::filesystem::path& folder, Side side) {
  remove_tokenizer_file(folder, side, kSentencePieceEnding);
  remove_tokenizer_file(folder, side, kVocabularyEnding);
}

void save_tokenizer_file(const std::filesystem::path& folder, Side side, std::string_view ending,
                         std::string_view contents) {
  files::write_atomically(tokenizer_file(folder, side, ending), contents, "save_tokenizer");
  remove_tokenizer_file(folder, side, ending == kVocabularyEnding ? kSentencePieceEnding : kVocabularyEnding);
}

Around around_in(const std::filesystem::path& folder, Side side) {
  const std::string architecture = huggingface::TokenizerFiles(folder).in_config("architecture");
  if (architecture == "decoder_only") return Around::none;
  return architecture == "encoder_decoder" && side == Side::source ? Around::end : Around::both;
}

bool is_of_others(const Tokenizer& tokenizer) {
  const std::string kind = tokenizer.kind();
  return kind != "sentencepiece" && kind != "characters" && kind != "pieces";
}

std::shared_ptr<const Tokenizer> Tokenizer::load(const std::filesystem::path& folder, Side side) {
  const std::filesystem::path model = tokenizer_file(folder, side, kSentencePieceEnding);
  const std::filesystem::path vocabulary = tokenizer_file(folder, side, kVocabularyEnding);
  std::error_code ignored;
  const bool has_model = std::filesystem::exists(model, ignored);
  const bool has_vocabulary = std::filesystem::exists(vocabulary, ignored);
  if (!has_model && !has_vocabulary) {
    if (auto tokenizer = huggingface::load_folder(folder, side)) return tokenizer;
  }
  require(has_model || has_vocabulary, "load_tokenizer", files::quoted(folder), ": ", model.filename().string(), " or ",
          vocabulary.filename().string(), " in this folder, or a tokenizer of Hugging Face; found neither");
  require(!(has_model && has_vocabulary), "load_tokenizer", files::quoted(folder), ": ", model.filename().string(),
          " or ", vocabulary.filename().string(), " in this folder; found both");
  const Around around = around_in(folder, side);
  return has_model ? load_sentencepiece_with(model, around) : load_vocabulary(vocabulary, around);
}

TokenizerPair load_tokenizers(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const Side side : {Side::source, Side::target}) {
    for (const std::string_view ending : {kSentencePieceEnding, kVocabularyEnding}) {
      if (std::filesystem::exists(tokenizer_file(folder, side, ending), ignored))
        return {Tokenizer::load(folder, Side::source), Tokenizer::load(folder, Side::target)};
    }
  }
  TokenizerPair pair = huggingface::load_folder(folder);
  if (pair.source == nullptr) (void)Tokenizer::load(folder, Side::source);  // says what is missing
  return pair;
}

std::shared_ptr<const SubwordSampler> Tokenizer::sampler(double /*alpha*/) const {
  fail("sampler", "a unigram model of SentencePiece, whose pieces have probabilities; found a tokenizer of kind \"",
       kind(), "\"");
}

Tokens Tokenizer::tokens(std::string_view text, const TokensOptions& options) const {
  if (options.lowercase) return tokens_in_lower_case(*this, text, options);
  Tokens body;
  body.ids = encode(text);
  body.spans.resize(body.ids.size());
  for (size_t i = 0; i < body.ids.size(); ++i) body.words.push_back(static_cast<int32_t>(i));
  return with_begin_and_end(std::move(body), special(), options);
}

std::optional<int32_t> Tokenizer::id_of(std::string_view token) const {
  for (int32_t id = 0; id < vocabulary(); ++id) {
    if (piece(id) == token) return id;
  }
  return std::nullopt;
}

Tokens tokens_in_lower_case(const Tokenizer& tokenizer, std::string_view text, const TokensOptions& options) {
  const auto lowered = [](std::string_view one) {
    require_utf8(one, "encode");
    huggingface::check_size(one);
    huggingface::AlignedText lower(std::string(one), 0, true);
    huggingface::lowercase_normalizer()->apply(lower);
    return lower;
  };
  const huggingface::AlignedText first = lowered(text);
  std::optional<huggingface::AlignedText> pair;
  TokensOptions inner = options;
  inner.lowercase = false;
  if (options.pair) inner.pair = pair.emplace(lowered(*options.pair)).text();
  Tokens tokens = tokenizer.tokens(first.text(), inner);
  for (size_t i = 0; i < tokens.spans.size(); ++i) {
    Span& span = tokens.spans[i];
    const bool of_pair = !tokens.of_pair.empty() && tokens.of_pair[i] != 0;
    if (span.begin < span.end)
      span = (of_pair ? *pair : first).span(static_cast<size_t>(span.begin), static_cast<size_t>(span.end));
  }
  return tokens;
}

Tokens with_begin_and_end(Tokens body, const SpecialIds& special, const TokensOptions& options, Around around_text) {
  require(!options.pair, "tokens", "one text; found a pair, which this tokenizer has no form for");
  require(!options.parse_special, "tokens",
          "special tokens in the text as text; found a request to parse them, which this tokenizer cannot do");
  require(options.limit >= 0, "tokens", "a limit of 0 (none) or more tokens; found ", options.limit);
  const bool begins = options.add_special && special.begin >= 0 && around_text == Around::both,
             ends = options.add_special && special.end >= 0 && around_text != Around::none;
  const int64_t around = int64_t{begins} + int64_t{ends};
  if (options.limit > 0) {
    require(options.limit >= around, "tokens", "a limit of at least the ", around, " added tokens; found ",
            options.limit);
    const auto most = static_cast<size_t>(options.limit - around);
    if (body.ids.size() > most) {
      body.left_out = static_cast<int64_t>(body.ids.size() - most);
      body.ids.resize(most);
      body.spans.resize(most);
      body.words.resize(most);
    }
  }
  body.special.assign(body.ids.size(), 0);
  if (begins) {
    body.ids.insert(body.ids.begin(), special.begin);
    body.spans.insert(body.spans.begin(), Span{});
    body.words.insert(body.words.begin(), -1);
    body.special.insert(body.special.begin(), 1);
  }
  if (ends) {
    body.ids.push_back(special.end);
    body.spans.emplace_back();
    body.words.push_back(-1);
    body.special.push_back(1);
  }
  body.segments.assign(body.ids.size(), 0);
  return body;
}

void require_id(int32_t id, int64_t vocabulary, std::string_view function) {
  require(id >= 0 && id < vocabulary, function, "ids from 0 to ", vocabulary - 1, "; found ", id);
}

bool is_special(int32_t id, const SpecialIds& special) {
  return id == special.padding || id == special.begin || id == special.end || id == special.unknown;
}

}  // namespace heed::text
