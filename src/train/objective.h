// The loss of a batch under any of the three architectures.
#pragma once

#include <functional>
#include <optional>

#include "heed/distributed.h"
#include "heed/models.h"
#include "train/data.h"

namespace heed::train {

// Options of the loss; see CrossEntropyOptions.
struct LossOptions {
  float label_smoothing = 0;
  float consistency = 0;  // more than 0: the batch holds every row twice, as `twice` arranges them
};
// The sum of the cross entropies of the batch's targets, with label smoothing and consistency as the options say. A
// batch of texts and their classes has a target a text, and so has one of scores, whose loss is batch.score_loss
// without any smoothing.
[[nodiscard]] Value loss_sum(const models::Model& model, const Batch& batch, const LossOptions& options);

// The batch with all its rows twice. Dropout draws other masks for the second half.
[[nodiscard]] Batch twice(const Batch& batch);

// The mean over all targets of all batches of epoch 0, without smoothing or dropout.
struct MeanLoss {
  double loss = 0;                      // nats a token, or a text
  std::optional<double> accuracy = {};  // of classes: the share of the texts whose likeliest class is the right one
  std::optional<Correlation> correlation = {};  // of scores
  int64_t tokens = 0;
  int64_t sentences = 0;
};
[[nodiscard]] MeanLoss mean_loss(const models::Model& model, DataSet& data);
// Each rank computes some of the batches; all get the same bits as one rank would.
[[nodiscard]] MeanLoss mean_loss(const models::Model& model, DataSet& data, distributed::Communicator& ranks,
                                 const std::function<void()>& before_batch = {});

}  // namespace heed::train
