// Which tokenizers belong to a model, and the token that hides a word.
#pragma once

#include <cstdint>
#include <string>

#include "heed/models.h"
#include "heed/text.h"

namespace heed::generate {

// Throws Error for a tokenizer that a model of others was not trained with: an encoder-decoder ends its texts with the
// end token of config.json, as the encoder of one does alone, and other encoders read a token before them. Further ids
// of config.json do not count: the padding of multilingual BERT models and the end of Chinese ones are not those of
// their tokenizers.
void require_kind_of_tokenizer(const text::Tokenizer& tokenizer, const models::Model& model, const std::string& where,
                               const char* function);

// Whether a tokenizer has as many tokens as the model has rows. The token of mask_id may be in the model alone. Models
// of others may have more rows than there are tokens: a number of rows that processors like. And they may lack the last
// rows if all of their tokens are special: no text has these unless it is asked for, and then it is refused.
[[nodiscard]] bool fits_rows(const text::Tokenizer& tokenizer, const models::Model& model, int64_t rows);

struct MaskToken {
  int32_t id = -1;  // -1: none
  std::string text = {};
  bool is_token = false;  // the tokenizer finds it in a text; heed's own tokenizers have none
};
// Of a model that guesses masked tokens; none for others.
[[nodiscard]] MaskToken mask_token_of(const models::Model& model, const text::Tokenizer& tokenizer);

}  // namespace heed::generate
