// Ids of texts in batches: a row of results for each text, whatever stands beside it.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "heed/models.h"
#include "pipelines/encoding.h"
#include "pipelines/sentence_modules.h"

namespace heed::pipelines {

struct Sequence {
  Ids ids;
  Ids types;  // of the tokens; none where the model has none
};

// Side by side, as a model of class Bert takes them.
struct SequenceBatch {
  Tensor ids, lengths, types;  // (B, L) i32, (B) i32, and (B, L) i32 or undefined
};
[[nodiscard]] SequenceBatch batch_of(std::span<const Sequence* const> sequences, int64_t padding_id);

// EncoderOptions::batch_tokens, or what suits the model where that is 0. Throws Error, naming `function`, below 0.
[[nodiscard]] int64_t batch_tokens(int64_t wanted, const models::Bert& model, const char* function);

// Throws Error unless all are finite.
void require_numbers(std::span<const float> values);

// The rows (N, width) that `compute` gives, (B, width) for a batch, in the order of the sequences. Those of similar
// length share batches of at most `batch_tokens` tokens, padding included, or of one sequence. After each, `progress`
// (if any) gets the number of those done.
// Throws Error where a result is NaN or infinite.
[[nodiscard]] Tensor rows_of(std::span<const Sequence> sequences, int64_t batch_tokens, int64_t padding_id,
                             int64_t width, const std::function<Tensor(const SequenceBatch& batch)>& compute,
                             const std::function<void(int64_t done)>& progress = {});

// The texts' vectors (N, modules.size()), without the first `skipped` tokens of each: see SentenceModules.
[[nodiscard]] Tensor embed_sequences(const models::Bert& model, const SentenceModules& modules,
                                     std::span<const Sequence> sequences, int64_t batch_tokens,
                                     const std::function<void(int64_t done)>& progress = {}, int64_t skipped = 0);

}  // namespace heed::pipelines
