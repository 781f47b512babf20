#include "generate/tokenizer_kind.h"

#include <algorithm>

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

}  // namespace heed::generate
