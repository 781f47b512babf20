// Scores of texts: numbers in place of classes. Their losses, and how well predicted ones go with given ones.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/autograd.h"

namespace heed::train {

enum class ScoreLoss {
  cross_entropy,  // a score is from 0 to 1, and what is predicted is the logit of a probability
  squared_error   // any numbers
};

// The sums over all rows, in double precision and in the order of the rows. predicted (B), scores (B) f32.
[[nodiscard]] Value score_loss(const Value& predicted, const Tensor& scores, ScoreLoss loss);

// The scores that predicted (B) stands for: probabilities in place of logits, or the numbers themselves.
[[nodiscard]] Tensor scores_from(const Tensor& predicted, ScoreLoss loss);

// x and y (B, E) -> (B): the product of each row of x with that of y.
[[nodiscard]] Value products_of_rows(const Value& x, const Value& y);

// Which scores a text may have, and what a message says of others.
struct ScoreRange {
  double low = 0, high = 0;
  std::string_view reason = {};
};
[[nodiscard]] ScoreRange range_of(ScoreLoss loss);
inline constexpr ScoreRange kCosines = {.low = -1, .high = 1, .reason = "as a cosine is"};
// Throws Error, which begins with `place`, for what is no number or is outside of the range.
[[nodiscard]] float read_score(std::string_view text, const ScoreRange& range, const std::string& place);

// Pearson's correlation of the values, and that of their ranks (Spearman), where equal values share the mean of their
// ranks. 0 where one side is constant, NaN where a number is not finite.
struct Correlation {
  double pearson = 0, spearman = 0;
};
[[nodiscard]] Correlation correlation_of(std::span<const float> x, std::span<const float> y);

}  // namespace heed::train
