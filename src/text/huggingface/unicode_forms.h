// The normal forms of Unicode, with what becomes of each character.
#pragma once

#include "text/huggingface/aligned_text.h"

namespace heed::text::huggingface {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

void normalise(AlignedText& text, NormalForm form);

}  // namespace heed::text::huggingface
