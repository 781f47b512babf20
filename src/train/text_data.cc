#include "train/text_data.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "heed/error.h"
#include "text/batch_order.h"

namespace heed::train {

namespace {

constexpr int32_t kNoClass = -1;

// The rows of one batch, padded.
std::vector<Ids> rows_of_texts(const std::vector<Ids>& all, std::span<const int64_t> rows) {
  std::vector<Ids> some;
  for (const int64_t row : rows) some.push_back(all[static_cast<size_t>(row)]);
  return some;
}

// What is to be predicted of these texts: their classes, or their scores and the numbers of the rows.
void set_targets(const std::vector<int32_t>& classes, const TextScores& scores, std::span<const int64_t> rows,
                 Batch& batch) {
  const auto count = std::ssize(rows);
  batch.output = Tensor::empty({count}, DType::i32);
  batch.padding_id = kNoClass;
  batch.tokens = batch.sentences = count;
  if (!classes.empty()) {
    for (int64_t i = 0; i < count; ++i) {
      batch.output.data<int32_t>()[i] = classes[static_cast<size_t>(rows[static_cast<size_t>(i)])];
    }
    return;
  }
  std::iota(batch.output.data<int32_t>(), batch.output.data<int32_t>() + count, 0);
  if (scores.values.empty()) return;
  batch.score_loss = scores.loss;
  batch.scores = Tensor::empty({count});
  for (int64_t i = 0; i < count; ++i) {
    batch.scores.data<float>()[i] = scores.values[static_cast<size_t>(rows[static_cast<size_t>(i)])];
  }
}

Ids bits_of(const TextScores& scores) {
  Ids bits;
  for (const float value : scores.values) bits.push_back(std::bit_cast<int32_t>(value));
  return bits;
}

class ClassifiedData : public DataSet {
 public:
  ClassifiedData(TokenizedTexts texts, std::vector<int32_t> classes, TextScores scores, bool with_types,
                 int32_t padding, const BatchLimits& limits)
      : texts_(std::move(texts)),
        classes_(std::move(classes)),
        scores_(std::move(scores)),
        with_types_(with_types),
        padding_(padding),
        order_(std::ssize(texts_.ids),
               [this](int64_t first, std::span<int64_t> out) {
                 for (size_t i = 0; i < out.size(); ++i)
                   out[i] = std::ssize(texts_.ids[static_cast<size_t>(first) + i]);
               },
               {.tokens = limits.tokens, .sentences = limits.sentences, .seed = limits.seed}) {
    const size_t targets = classes_.size() + scores_.values.size();
    require(texts_.ids.size() == targets, "train", "a class or a score for each of ", texts_.ids.size(),
            " texts; found ", targets);
  }

  int64_t batches(int64_t epoch) override { return order_.batches(epoch); }

  Batch batch(int64_t epoch, int64_t index) override {
    const std::vector<int64_t> rows = order_.batch(epoch, index);
    const text::Padded padded = text::pad(rows_of_texts(texts_.ids, rows), padding_);
    Batch batch;
    batch.source = padded.ids;
    batch.source_lengths = padded.lengths;
    if (with_types_) batch.types = text::pad(rows_of_texts(texts_.types, rows), 0).ids;
    set_targets(classes_, scores_, rows, batch);
    return batch;
  }

  uint32_t checksum() const override {
    const Ids targets = classes_.empty() ? bits_of(scores_) : classes_;
    return checksum_of({targets}, checksum_of(texts_.types, checksum_of(texts_.ids)));
  }

 private:
  TokenizedTexts texts_;
  std::vector<int32_t> classes_;
  TextScores scores_;
  bool with_types_;
  int32_t padding_;
  text::BatchOrder order_;
};

class PairedData : public DataSet {
 public:
  PairedData(std::vector<Ids> anchors, std::vector<Ids> positives, std::shared_ptr<const Contrast> contrast,
             int32_t padding, const BatchLimits& limits, TextScores scores)
      : anchors_(std::move(anchors)),
        positives_(std::move(positives)),
        contrast_(std::move(contrast)),
        scores_(std::move(scores)),
        padding_(padding),
        order_(std::ssize(anchors_),
               [this](int64_t first, std::span<int64_t> out) {
                 for (size_t i = 0; i < out.size(); ++i) {
                   const size_t row = static_cast<size_t>(first) + i;
                   out[i] = std::max(std::ssize(anchors_[row]), std::ssize(positives_[row]));
                 }
               },
               {.tokens = limits.tokens, .sentences = limits.sentences, .seed = limits.seed}) {
    require(anchors_.size() == positives_.size(), "train", "a positive for each of ", anchors_.size(), " texts; found ",
            positives_.size());
    require(scores_.values.empty() || scores_.values.size() == anchors_.size(), "train", "a score for each of ",
            anchors_.size(), " pairs; found ", scores_.values.size());
  }

  int64_t batches(int64_t epoch) override { return order_.batches(epoch); }

  Batch batch(int64_t epoch, int64_t index) override {
    const std::vector<int64_t> rows = order_.batch(epoch, index);
    const text::Padded anchors = text::pad(rows_of_texts(anchors_, rows), padding_);
    const text::Padded positives = text::pad(rows_of_texts(positives_, rows), padding_);
    Batch batch;
    batch.source = anchors.ids;
    batch.source_lengths = anchors.lengths;
    batch.positives = positives.ids;
    batch.positive_lengths = positives.lengths;
    batch.contrast = contrast_;
    set_targets({}, scores_, rows, batch);
    return batch;
  }

  uint32_t checksum() const override {
    const uint32_t texts = checksum_of(positives_, checksum_of(anchors_));
    return scores_.values.empty() ? texts : checksum_of({bits_of(scores_)}, texts);
  }

 private:
  std::vector<Ids> anchors_, positives_;
  std::shared_ptr<const Contrast> contrast_;
  TextScores scores_;
  int32_t padding_;
  text::BatchOrder order_;
};

}  // namespace

std::unique_ptr<DataSet> paired_data(std::vector<Ids> anchors, std::vector<Ids> positives,
                                     std::shared_ptr<const Contrast> contrast, int32_t padding,
                                     const BatchLimits& limits, TextScores scores) {
  return std::make_unique<PairedData>(std::move(anchors), std::move(positives), std::move(contrast), padding, limits,
                                      std::move(scores));
}

std::unique_ptr<DataSet> classified_data(TokenizedTexts texts, std::vector<int32_t> classes, bool with_types,
                                         int32_t padding, const BatchLimits& limits) {
  return std::make_unique<ClassifiedData>(std::move(texts), std::move(classes), TextScores(), with_types, padding,
                                          limits);
}

std::unique_ptr<DataSet> scored_data(TokenizedTexts texts, TextScores scores, bool with_types, int32_t padding,
                                     const BatchLimits& limits) {
  return std::make_unique<ClassifiedData>(std::move(texts), std::vector<int32_t>(), std::move(scores), with_types,
                                          padding, limits);
}

}  // namespace heed::train
