// Forward and loss, by architecture.
#include "train/objective.h"

#include <algorithm>

#include "heed/error.h"

namespace heed::train {

namespace {

const models::Bert& bert_of(const models::Model& model) {
  const auto* bert = dynamic_cast<const models::Bert*>(&model);
  require(bert != nullptr, "train", "a Transformer, Gpt or Bert; found another kind of model");
  return *bert;
}

// Whether each row has one right class among several.
bool has_classes(const Batch& batch) { return batch.output.rank() == 1; }

// The scaled cosine of each row's text with the positives of all rows, (B, B): its own is the right one, the others are
// negatives (Henderson et al. 2017).
Value similarities(const models::Bert& bert, const Batch& batch) {
  const Contrast& contrast = *batch.contrast;
  const auto vectors = [&](const Tensor& ids, const Tensor& lengths) {
    return models::unit_rows(models::pooled_states(bert.encode(ids, lengths), lengths, contrast.poolings));
  };
  const Value anchors = vectors(batch.source, batch.source_lengths);
  const Value positives = vectors(batch.positives, batch.positive_lengths);
  const ops::MatmulPrecisionScope exact(ops::Precision::f32);  // scaled cosines are too close for bf16
  return matmul(anchors, transpose(positives, 0, 1)) * contrast.scale;
}

// The logits (B, N) of a batch that has classes.
Value class_logits(const models::Model& model, const Batch& batch) {
  if (batch.contrast) return similarities(bert_of(model), batch);
  return bert_of(model).forward(batch.source, batch.source_lengths, batch.types);
}

// The rows whose largest logit is that of the target; of equal ones the first counts.
int64_t right_rows(const Tensor& logits, const Tensor& targets) {
  const Tensor rows = logits.contiguous(), classes = targets.contiguous();
  const int64_t columns = rows.size(1);
  int64_t right = 0;
  for (int64_t i = 0; i < rows.size(0); ++i) {
    const float* const row = rows.data<float>() + i * columns;
    if (std::max_element(row, row + columns) - row == classes.data<int32_t>()[i]) ++right;
  }
  return right;
}

}  // namespace

Value loss_sum(const models::Model& model, const Batch& batch, const LossOptions& asked) {
  const CrossEntropyOptions options{.ignored_id = batch.padding_id,
                                    .label_smoothing = asked.label_smoothing,
                                    .sum = true,
                                    .consistency = asked.consistency};
  if (const auto* transformer = dynamic_cast<const models::Transformer*>(&model)) {
    return transformer->loss(batch.source, batch.source_lengths, batch.input, batch.output, options);
  }
  if (const auto* gpt = dynamic_cast<const models::Gpt*>(&model)) {
    return gpt->loss(batch.input, batch.output, options);
  }
  if (has_classes(batch)) return cross_entropy(class_logits(model, batch), batch.output, options);
  return bert_of(model).loss(batch.source, batch.source_lengths, batch.output, options, batch.types);
}

Batch twice(const Batch& batch) {
  Batch both = batch;
  for (Tensor* const tensor : {&both.source, &both.source_lengths, &both.types, &both.input, &both.output}) {
    if (!tensor->defined()) continue;
    const Tensor once = tensor->contiguous();
    Shape shape = once.shape();
    shape[0] *= 2;
    *tensor = Tensor::empty(shape, DType::i32);
    std::copy_n(once.data<int32_t>(), once.numel(), tensor->data<int32_t>());
    std::copy_n(once.data<int32_t>(), once.numel(), tensor->data<int32_t>() + once.numel());
  }
  both.tokens *= 2;
  both.sentences *= 2;
  return both;
}

MeanLoss mean_loss(const models::Model& model, DataSet& data) { return mean_loss(model, data, *distributed::single()); }

MeanLoss mean_loss(const models::Model& model, DataSet& data, distributed::Communicator& ranks) {
  const NoGradScope no_grad;
  struct OfBatch {
    double loss = 0;
    int64_t tokens = 0, sentences = 0;
    int64_t right = -1;  // -1: there are no classes
  };
  const int64_t batches = data.batches(0), size = ranks.size();
  const int64_t most = (batches + size - 1) / size;
  std::vector<OfBatch> mine(static_cast<size_t>(most)), all(static_cast<size_t>(most * size));
  for (int64_t i = ranks.rank(); i < batches; i += size) {
    const Batch batch = data.batch(0, i);
    OfBatch& one = mine[static_cast<size_t>(i / size)];
    one.tokens = batch.tokens;
    one.sentences = batch.sentences;
    if (has_classes(batch)) {
      const Value logits = class_logits(model, batch);
      one.loss = static_cast<double>(cross_entropy(logits, batch.output, {.sum = true}).item());
      one.right = right_rows(logits.data(), batch.output);
    } else {
      one.loss = static_cast<double>(loss_sum(model, batch, {}).item());
    }
  }
  ranks.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  MeanLoss mean;
  double sum = 0;
  int64_t right = 0;
  for (int64_t i = 0; i < batches; ++i) {  // in the order of batches, whoever computed them
    const OfBatch& one = all[static_cast<size_t>(i % size * most + i / size)];
    sum += one.loss;
    mean.tokens += one.tokens;
    mean.sentences += one.sentences;
    right += one.right;
    if (one.right >= 0) mean.accuracy = static_cast<double>(right) / static_cast<double>(mean.sentences);
  }
  mean.loss = mean.tokens > 0 ? sum / static_cast<double>(mean.tokens) : 0.0;
  return mean;
}

}  // namespace heed::train
