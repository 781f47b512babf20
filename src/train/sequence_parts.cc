#include "train/sequence_parts.h"

#include <algorithm>

namespace heed::train {

namespace {

// Columns of a matrix of ids; those it does not have are padding.
Tensor columns_of(const Tensor& ids, const std::vector<distributed::Run>& runs, int64_t count, int32_t padding) {
  const int64_t rows = ids.size(0), there = ids.size(1);
  const Tensor from = ids.contiguous();
  Tensor to = Tensor::empty({rows, count}, DType::i32);
  std::fill_n(to.data<int32_t>(), to.numel(), padding);
  for (int64_t row = 0; row < rows; ++row) {
    const int32_t* const source = from.data<int32_t>() + row * there;
    int32_t* target = to.data<int32_t>() + row * count;
    for (const distributed::Run& run : runs) {
      const int64_t end = std::min(run.end(), there);
      if (run.first < end) std::copy(source + run.first, source + end, target);
      target += run.count;
    }
  }
  return to;
}

}  // namespace

distributed::SequenceLayout layout_of_parts(const Batch& batch, int parts) {
  constexpr int64_t kMultiple = 1536;  // where long runs may begin so that attention moves no rows
  return distributed::SequenceLayout::zig_zag(std::max<int64_t>(batch.output.size(1), 2 * parts), parts, kMultiple);
}

Batch part_of(const Batch& batch, const distributed::SequenceLayout& layout, int part) {
  const std::vector<distributed::Run>& runs = layout.runs[static_cast<size_t>(part)];
  const int64_t count = layout.rows(part);
  Batch own;
  own.padding_id = batch.padding_id;
  own.sentences = batch.sentences;
  own.input = columns_of(batch.input, runs, count, batch.padding_id);
  own.output = columns_of(batch.output, runs, count, batch.padding_id);
  const int32_t* const targets = own.output.data<int32_t>();
  own.tokens = own.output.numel() - std::count(targets, targets + own.output.numel(), batch.padding_id);
  return own;
}

}  // namespace heed::train
