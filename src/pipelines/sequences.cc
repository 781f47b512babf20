#include "pipelines/sequences.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "heed/error.h"
#include "models/batches.h"

namespace heed::pipelines {
namespace {

// No smaller batches are made for the sake of more threads. MiniLM is as fast with batches of 512 tokens as with 4,096
// in f32 on Zen 4, and in int8 faster.
constexpr int64_t kLeastTokens = 512;
// In f32 MiniLM takes the same time for texts of 128 tokens with 512 to 2,048 tokens on Zen 4, and with 256 to 1,024 on
// Zen 5; there, short texts take 1.5 % less with 1,024 than with 384. But a thread needs 22 MB for 1,024 tokens, and 7
// for 384. In int8, Zen 4 takes 3 % less time with 256 than with 1,024: what lies between two products then stays in
// L2.
constexpr int64_t kBatchTokens = 384, kInt8BatchTokens = 256;

}  // namespace

int64_t batch_tokens(int64_t wanted, const models::Bert& model, const char* function) {
  require(wanted >= 0, function, "batches of 1 token or more, or 0; found ", wanted);
  if (wanted > 0) return wanted;
  return model.packed_as(WeightFormat::int8) ? kInt8BatchTokens : kBatchTokens;
}

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

void require_numbers(std::span<const float> values) {
  require(std::ranges::all_of(values, [](float value) { return std::isfinite(value); }), "Encoder",
          "results that are numbers; the model gave NaN or infinity");
}

Tensor rows_of(std::span<const Sequence> sequences, int64_t batch_tokens, int64_t padding_id, int64_t width,
               const std::function<Tensor(const SequenceBatch& batch)>& compute,
               const std::function<void(int64_t done)>& progress) {
  std::vector<int64_t> lengths;
  for (const Sequence& sequence : sequences) lengths.push_back(std::max<int64_t>(1, std::ssize(sequence.ids)));
  const Tensor result = Tensor::empty({std::ssize(sequences), width});
  models::Batches batches(lengths, {.most = batch_tokens, .least = kLeastTokens});
  batches.run(
      [&](std::span<const int64_t> members) {
        std::vector<const Sequence*> batch;
        for (const int64_t i : members) batch.push_back(&sequences[static_cast<size_t>(i)]);
        const Tensor rows = compute(batch_of(batch, padding_id)).contiguous();  // (B, width)
        for (int64_t b = 0; b < std::ssize(members); ++b) {
          std::memcpy(result.data<float>() + members[static_cast<size_t>(b)] * width, rows.data<float>() + b * width,
                      static_cast<size_t>(width) * sizeof(float));
          require_numbers({rows.data<float>() + b * width, static_cast<size_t>(width)});
        }
      },
      batches.tells(progress));
  return result;
}

Tensor embed_sequences(const models::Bert& model, const SentenceModules& modules, std::span<const Sequence> sequences,
                       int64_t batch_tokens, const std::function<void(int64_t done)>& progress, int64_t skipped) {
  return rows_of(
      sequences, batch_tokens, model.config().padding_id, modules.size(),
      [&](const SequenceBatch& batch) {
        return modules(model.encode(batch.ids, batch.lengths, batch.types).data(), batch.lengths, skipped);
      },
      progress);
}

}  // namespace heed::pipelines
