#include "pipelines/sequences.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace heed::pipelines {

SequenceBatch batch_of(std::span<const Sequence* const> sequences, int64_t padding_id) {
  std::vector<Ids> ids, types;
  for (const Sequence* const sequence : sequences) {
    ids.push_back(sequence->ids);
    if (!sequence->types.empty()) types.push_back(sequence->types);
  }
  const text::Padded padded = text::pad(ids, static_cast<int32_t>(padding_id));
  return {.ids = padded.ids,
          .lengths = padded.lengths,
          .types = types.size() == ids.size() ? text::pad(types, 0).ids : Tensor()};
}

Tensor rows_of(std::span<const Sequence> sequences, int64_t batch_tokens, int64_t padding_id, int64_t width,
               const std::function<Tensor(const SequenceBatch& batch)>& compute,
               const std::function<void(int64_t done)>& progress) {
  std::vector<size_t> order(sequences.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return sequences[a].ids.size() > sequences[b].ids.size(); });
  const Tensor result = Tensor::empty({static_cast<int64_t>(sequences.size()), width});
  const NoGradScope no_grad;
  for (size_t begin = 0; begin < order.size();) {
    const size_t longest = std::max<size_t>(1, sequences[order[begin]].ids.size());
    const size_t fit = std::max<size_t>(1, static_cast<size_t>(batch_tokens) / longest);
    const size_t end = std::min(order.size(), begin + fit);
    std::vector<const Sequence*> batch;
    for (size_t i = begin; i < end; ++i) batch.push_back(&sequences[order[i]]);
    const Tensor rows = compute(batch_of(batch, padding_id)).contiguous();  // (B, width)
    for (size_t i = begin; i < end; ++i) {
      std::memcpy(result.data<float>() + static_cast<int64_t>(order[i]) * width,
                  rows.data<float>() + static_cast<int64_t>(i - begin) * width,
                  static_cast<size_t>(width) * sizeof(float));
    }
    begin = end;
    if (progress) progress(static_cast<int64_t>(end));
  }
  return result;
}

Tensor embed_sequences(const models::Bert& model, const SentenceModules& modules, std::span<const Sequence> sequences,
                       int64_t batch_tokens, const std::function<void(int64_t done)>& progress) {
  return rows_of(
      sequences, batch_tokens, model.config().padding_id, modules.size(),
      [&](const SequenceBatch& batch) {
        return modules(model.encode(batch.ids, batch.lengths, batch.types).data(), batch.lengths);
      },
      progress);
}

void look_up(int64_t texts_read, const std::function<void(int64_t done)>& progress) {
  constexpr int64_t kTexts = 256;
  if (progress && texts_read % kTexts == 0) progress(0);
}

}  // namespace heed::pipelines
