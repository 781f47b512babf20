// The loss of a batch under any of the three architectures.
#pragma once

#include "heed/models.h"
#include "train/data.h"

namespace heed::train {

// The sum of the cross entropies of the batch's targets.
[[nodiscard]] Value loss_sum(const models::Model& model, const Batch& batch, float label_smoothing);

// The mean over all targets of all batches of epoch 0, without smoothing or dropout.
struct MeanLoss {
  double loss = 0;  // nats a token
  int64_t tokens = 0;
  int64_t sentences = 0;
};
[[nodiscard]] MeanLoss mean_loss(const models::Model& model, DataSet& data);

}  // namespace heed::train
