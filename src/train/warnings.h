// What a training is told before it begins: it may run, but hardly as it was meant.
#pragma once

#include <string>
#include <vector>

#include "heed/train.h"
#include "train/corpus.h"

namespace heed::train {

// "this processor cannot multiply bf16; ..."
[[nodiscard]] std::string why_not_bf16();
// Of the recipe, beside its text.
[[nodiscard]] std::vector<std::string> warnings_of(const Recipe& recipe, const Corpus& corpus);

}  // namespace heed::train
