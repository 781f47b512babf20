// Tokenizers that belong to another kind of model.
#pragma once

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

}  // namespace heed::generate
