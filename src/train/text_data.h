// Data sets of whole texts, each with what its tokenizer puts around it.
#pragma once

#include <memory>
#include <vector>

#include "train/data.h"
#include "train/examples.h"

namespace heed::train {

// Texts and the numbers of their classes. A batch has its classes in `output` (B), and `types` where `with_types`.
[[nodiscard]] std::unique_ptr<DataSet> classified_data(TokenizedTexts texts, std::vector<int32_t> classes,
                                                       bool with_types, int32_t padding, const BatchLimits& limits);

struct TextScores {
  std::vector<float> values;  // one a text, or none at all
  ScoreLoss loss = ScoreLoss::cross_entropy;
};
// The same with scores, which a batch has in `scores`.
[[nodiscard]] std::unique_ptr<DataSet> scored_data(TokenizedTexts texts, TextScores scores, bool with_types,
                                                   int32_t padding, const BatchLimits& limits);

// Pairs of texts that belong together, or have a score each: a batch has the first ones in `source` and the second ones
// in `positives`.
[[nodiscard]] std::unique_ptr<DataSet> paired_data(std::vector<Ids> anchors, std::vector<Ids> positives,
                                                   std::shared_ptr<const Contrast> contrast, int32_t padding,
                                                   const BatchLimits& limits, TextScores scores = {});

}  // namespace heed::train
