// The scores of a unigram vocabulary, to the last bit as PyPI's `tokenizers` reads them.
#pragma once

#include "formats/json_document.h"

namespace heed::text::huggingface {

// serde_json, which `tokenizers` reads with, rounds twice: two of a hundred scores of 17 digits are not the number that
// is nearest to what is written. The last bit decides between two cuts of a text whose sums are equal but for it.
[[nodiscard]] double score_of(const io::JsonValue& number);

}  // namespace heed::text::huggingface
