// DistanceBias: a number for each head and distance that is added to the scores of self-attention, with the distances
// in buckets that grow wider. Raffel et al. 2020 (T5), section 2.1; Song et al. 2020 (MPNet).
#pragma once

#include "heed/models.h"

namespace heed::models {

class DistanceBias : public nn::Module {
 public:
  // `both_sides`: keys before and after the query have buckets of their own; else those after it are never seen.
  DistanceBias(const Config& config, bool both_sides, nn::Initializer& init);

  // (H, 2 R + 1), as nn::Places::distance_bias wants it.
  [[nodiscard]] Value operator()() const;

 private:
  Value table_;     // (buckets, H)
  Tensor buckets_;  // (1, 2 R + 1) i32: the bucket of each distance i - j from -R to R
};

}  // namespace heed::models
