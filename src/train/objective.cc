// Forward and loss, by architecture.
#include "train/objective.h"

#include <algorithm>

#include "heed/error.h"
#include "train/sentence_model.h"

namespace heed::train {

namespace {

const models::Bert& bert_of(const models::Model& model) {
  if (const auto* sentence = dynamic_cast<const SentenceModel*>(&model)) return sentence->encoder();
  const auto* bert = dynamic_cast<const models::Bert*>(&model);
  require(bert != nullptr, "train", "a Transformer, Gpt or Bert; found another kind of model");
  return *bert;
}

// Whether each row has one right class among several.
bool has_classes(const Batch& batch) { return batch.output.rank() == 1; }

// The vectors of both texts of each pair, of length 1.
struct VectorPairs {
  Value anchors, positives;  // (B, E)
};
VectorPairs vectors_of(const models::Model& model, const Batch& batch) {
  const models::Bert& bert = bert_of(model);
  const auto* const sentence = dynamic_cast<const SentenceModel*>(&model);
  const auto vectors = [&](const Tensor& ids, const Tensor& lengths) {
    const Value pooled = models::pooled_states(bert.encode(ids, lengths), lengths, batch.contrast->poolings);
    return models::unit_rows(sentence != nullptr ? sentence->vectors(pooled) : pooled);
  };
  Value anchors = vectors(batch.source, batch.source_lengths);
  return {.anchors = std::move(anchors), .positives = vectors(batch.positives, batch.positive_lengths)};
}

// The scaled cosine of each row's text with the positives of all rows, (B, B): its own is the right one, the others are
// negatives (Henderson et al. 2017).
Value similarities(const models::Model& model, const Batch& batch) {
  const VectorPairs pairs = vectors_of(model, batch);
  const ops::MatmulPrecisionScope exact(ops::Precision::f32);  // scaled cosines are too close for bf16
  return matmul(pairs.anchors, transpose(pairs.positives, 0, 1)) * batch.contrast->scale;
}

// What a batch that has scores is compared by, (B): the cosines of pairs, or the head's one number.
Value predicted_scores(const models::Model& model, const Batch& batch) {
  if (batch.contrast) {
    const VectorPairs pairs = vectors_of(model, batch);
    return products_of_rows(pairs.anchors, pairs.positives);
  }
  const Value numbers = bert_of(model).forward(batch.source, batch.source_lengths, batch.types);
  require(numbers.size(1) == 1, "train", "a model that gives one number for a text; found ", numbers.size(1));
  return reshape(numbers, {numbers.size(0)});
}

// The logits (B, N) of a batch that has classes.
Value class_logits(const models::Model& model, const Batch& batch) {
  if (batch.contrast) return similarities(model, batch);
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

Value loss_sum(const models::Model& model, const Batch& batch, const LossOptions& options) {
  const CrossEntropyOptions cross{.ignored_id = batch.padding_id,
                                  .label_smoothing = options.label_smoothing,
                                  .sum = true,
                                  .consistency = options.consistency};
  if (const auto* transformer = dynamic_cast<const models::Transformer*>(&model)) {
    return transformer->loss(batch.source, batch.source_lengths, batch.input, batch.output, cross);
  }
  if (const auto* gpt = dynamic_cast<const models::Gpt*>(&model)) {
    return gpt->loss(batch.input, batch.output, cross);
  }
  if (batch.scores.defined()) return score_loss(predicted_scores(model, batch), batch.scores, batch.score_loss);
  if (has_classes(batch)) return cross_entropy(class_logits(model, batch), batch.output, cross);
  return bert_of(model).loss(batch.source, batch.source_lengths, batch.output, cross, batch.types);
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

namespace {

// What a rank finds of one batch.
struct OfBatch {
  double loss = 0;
  int64_t tokens = 0, sentences = 0;
  int64_t right = -1;  // -1: there are no classes
  int64_t scores = 0;  // of them one is predicted for each text
};

// Scores that were predicted, and those that should have been.
struct Scored {
  std::vector<float> found, wanted;
  void add(const Tensor& more_found, const Tensor& more_wanted) {
    for (const auto& [to, from] : {std::pair{&found, more_found.contiguous()}, {&wanted, more_wanted.contiguous()}}) {
      to->insert(to->end(), from.data<float>(), from.data<float>() + from.numel());
    }
  }
};

OfBatch measure(const models::Model& model, const Batch& batch, Scored& scored) {
  OfBatch one{.tokens = batch.tokens, .sentences = batch.sentences};
  if (batch.scores.defined()) {
    const Value predicted = predicted_scores(model, batch);
    one.loss = static_cast<double>(score_loss(predicted, batch.scores, batch.score_loss).item());
    one.scores = batch.sentences;
    scored.add(scores_from(predicted.data(), batch.score_loss), batch.scores);
  } else if (has_classes(batch)) {
    const Value logits = class_logits(model, batch);
    one.loss = static_cast<double>(cross_entropy(logits, batch.output, {.sum = true}).item());
    one.right = right_rows(logits.data(), batch.output);
  } else {
    one.loss = static_cast<double>(loss_sum(model, batch, {}).item());
  }
  return one;
}

// The numbers of all ranks, each rank's `most` behind each other.
std::vector<float> gathered(std::vector<float> mine, size_t most, distributed::Communicator& ranks) {
  mine.resize(most);
  std::vector<float> all(most * static_cast<size_t>(ranks.size()));
  ranks.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  return all;
}

// Of all batches in their order, whoever computed them. Batch i is that of rank i modulo their number.
std::optional<Correlation> correlation_of_all(const Scored& mine, std::span<const OfBatch> in_order,
                                              distributed::Communicator& ranks) {
  const auto size = static_cast<size_t>(ranks.size());
  std::vector<size_t> counts(size);
  for (size_t i = 0; i < in_order.size(); ++i) counts[i % size] += static_cast<size_t>(in_order[i].scores);
  const size_t most = *std::ranges::max_element(counts);
  if (most == 0) return std::nullopt;
  const std::vector<float> found = gathered(mine.found, most, ranks), wanted = gathered(mine.wanted, most, ranks);
  Scored all;
  std::vector<size_t> taken(size);
  for (size_t i = 0; i < in_order.size(); ++i) {
    const size_t rank = i % size, begin = rank * most + taken[rank],
                 end = begin + static_cast<size_t>(in_order[i].scores);
    taken[rank] += end - begin;
    for (size_t j = begin; j < end; ++j) {
      all.found.push_back(found[j]);
      all.wanted.push_back(wanted[j]);
    }
  }
  return correlation_of(all.found, all.wanted);
}

}  // namespace

MeanLoss mean_loss(const models::Model& model, DataSet& data, distributed::Communicator& ranks,
                   const std::function<void()>& before_batch) {
  const NoGradScope no_grad;
  const int64_t batches = data.batches(0), size = ranks.size();
  const int64_t most = (batches + size - 1) / size;
  std::vector<OfBatch> mine(static_cast<size_t>(most)), all(static_cast<size_t>(most * size));
  Scored scored;
  for (int64_t i = ranks.rank(); i < batches; i += size) {
    if (before_batch) before_batch();
    mine[static_cast<size_t>(i / size)] = measure(model, data.batch(0, i), scored);
  }
  ranks.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  std::vector<OfBatch> in_order;  // whoever computed them
  for (int64_t i = 0; i < batches; ++i) in_order.push_back(all[static_cast<size_t>(i % size * most + i / size)]);
  MeanLoss mean;
  double sum = 0;
  int64_t right = 0;
  for (const OfBatch& one : in_order) {
    sum += one.loss;
    mean.tokens += one.tokens;
    mean.sentences += one.sentences;
    right += one.right;
    if (one.right >= 0) mean.accuracy = static_cast<double>(right) / static_cast<double>(mean.sentences);
  }
  mean.correlation = correlation_of_all(scored, in_order, ranks);
  mean.loss = mean.tokens > 0 ? sum / static_cast<double>(mean.tokens) : 0.0;
  return mean;
}

}  // namespace heed::train
