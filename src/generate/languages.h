// Families whose models know several languages, and are told which one to write.
#pragma once

#include "heed/models.h"
#include "heed/text.h"

namespace heed::generate {

// M2M100 (NLLB) and mBART. Tokens of other families may look like languages.
[[nodiscard]] bool is_of_many_languages(const models::Model& model);

// Whether the decoder begins with the language that it writes, as in mBART's first models (Liu et al. 2020). In others
// the language is the first token that is written (Fan et al. 2020, Tang et al. 2020). `begin`: the first token that
// the folder names; `behind`: the source's language stands behind the end of its text.
[[nodiscard]] bool begins_with_language(const models::Model& model, const text::Tokenizer& target, int64_t begin,
                                        bool behind);

}  // namespace heed::generate
