// Forward and loss, by architecture.
#include "train/objective.h"

#include "heed/error.h"

namespace heed::train {

Value loss_sum(const models::Model& model, const Batch& batch, float label_smoothing) {
  const CrossEntropyOptions options{.ignored_id = batch.padding_id, .label_smoothing = label_smoothing, .sum = true};
  if (const auto* transformer = dynamic_cast<const models::Transformer*>(&model)) {
    return transformer->loss(batch.source, batch.source_lengths, batch.input, batch.output, options);
  }
  if (const auto* gpt = dynamic_cast<const models::Gpt*>(&model)) {
    return gpt->loss(batch.input, batch.output, options);
  }
  const auto* bert = dynamic_cast<const models::Bert*>(&model);
  require(bert != nullptr, "train", "a Transformer, Gpt or Bert; found another kind of model");
  return bert->loss(batch.source, batch.source_lengths, batch.output, options);
}

MeanLoss mean_loss(const models::Model& model, DataSet& data) {
  const NoGradScope no_grad;
  MeanLoss mean;
  double sum = 0;
  for (int64_t i = 0; i < data.batches(0); ++i) {
    const Batch batch = data.batch(0, i);
    sum += static_cast<double>(loss_sum(model, batch, 0.0f).item());
    mean.tokens += batch.tokens;
    mean.sentences += batch.sentences;
  }
  mean.loss = mean.tokens > 0 ? sum / static_cast<double>(mean.tokens) : 0.0;
  return mean;
}

}  // namespace heed::train
