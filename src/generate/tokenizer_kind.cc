#include "generate/tokenizer_kind.h"

#include <algorithm>
#include <optional>
#include <span>

#include "formats/json.h"
#include "heed/error.h"
#include "models/families/weights.h"

namespace heed::generate {

namespace {

void require_token_before_text(const text::Tokenizer& tokenizer, const std::string& where, const char* function) {
  const text::Tokens read = tokenizer.tokens("a");
  const auto behind = std::ranges::find(read.special, 1);
  if (behind == read.special.end() || read.special.front() == 1) return;
  const int32_t id = read.ids[static_cast<size_t>(behind - read.special.begin())];
  fail(function, where, ": a tokenizer that puts a token before a text, [CLS] or <s>, as an encoder reads it; found ",
       "one that puts only ", tokenizer.piece(id), " behind it");
}

void require_end(const text::Tokenizer& tokenizer, const models::Model& model, const std::string& where,
                 const char* function) {
  const auto wanted = static_cast<int32_t>(model.config().end_id);
  const int32_t end = tokenizer.special().end;
  const text::Ids around = tokenizer.tokens("").ids;
  if (end < 0 || end == wanted || std::ranges::find(around, wanted) != around.end()) return;
  // Chinese T5 models read BERT's tokens, as their config.json says, and have the other ids of T5's.
  const bool names_class = io::parse_json(model.origin()->config_json).value.contains("tokenizer_class");
  if (names_class && tokenizer.kind() == "wordpiece") return;
  fail(function, where, ": a tokenizer that ends a text with the id ", wanted, ", \"eos_token_id\" of config.json; ",
       "found one that ends it with ", end, ", ", tokenizer.piece(end));
}

// BART's models for summaries have no row for <mask>. What is special decodes to nothing.
bool all_special(const text::Tokenizer& tokenizer, int64_t begin, int64_t end) {
  constexpr int64_t kMost = 1000;
  if (end - begin > kMost) return false;
  for (auto id = static_cast<int32_t>(begin); id < end; ++id) {
    if (!tokenizer.decode(std::span(&id, 1)).empty()) return false;
  }
  return true;
}

}  // namespace

void require_kind_of_tokenizer(const text::Tokenizer& tokenizer, const models::Model& model, const std::string& where,
                               const char* function) {
  if (model.origin() == nullptr) return;
  const models::Config& config = model.config();
  const bool encodes = config.architecture == models::Architecture::encoder_only;
  if (encodes && config.end_id < 0) require_token_before_text(tokenizer, where, function);
  if (config.architecture == models::Architecture::encoder_decoder || (encodes && config.end_id >= 0))
    require_end(tokenizer, model, where, function);
}

bool fits_rows(const text::Tokenizer& tokenizer, const models::Model& model, int64_t rows) {
  const int64_t tokens = tokenizer.vocabulary();
  // Training adds the mask behind the tokenizer's own tokens.
  const bool adds_mask = model.config().mask_id == tokens && tokens + 1 == rows;
  const bool by_others = model.origin() != nullptr;
  return tokens == rows || adds_mask || (by_others && (tokens < rows || all_special(tokenizer, rows, tokens)));
}

MaskToken mask_token_of(const models::Model& model, const text::Tokenizer& tokenizer) {
  const models::Config& config = model.config();
  const bool by_others = model.origin() != nullptr;
  if (config.head != models::Head::masked_token) return {};
  // The row that training adds behind the tokenizer's own tokens. "[MASK]" may be a word among these.
  if (config.mask_id >= 0 && (!by_others || config.mask_id == tokenizer.vocabulary()))
    return {.id = static_cast<int32_t>(config.mask_id), .text = "[MASK]"};
  // The one that a text can name: MPNet's vocabulary has BERT's [MASK] too, as a word that no text is cut into.
  for (const char* const token : {"[MASK]", "<mask>"}) {
    const auto id = by_others ? tokenizer.id_of(token) : std::nullopt;
    if (id && std::ranges::count(tokenizer.tokens(token, {.parse_special = true}).ids, *id) > 0)
      return {.id = *id, .text = token, .is_token = true};
  }
  return {};
}

}  // namespace heed::generate
