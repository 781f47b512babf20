// The order of the data: which sentences go together, and when. A pure function of (lengths, limits, seed, epoch).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace heed::text {

// 0 .. count-1 in an order drawn by Philox from (seed, stream).
[[nodiscard]] std::vector<int64_t> permutation(int64_t count, uint64_t seed, uint64_t stream);
// The same permutation as 32-bit numbers: half the memory.
void permutation(std::span<uint32_t> order, uint64_t seed, uint64_t stream);

// Batches of indices of `lengths`, the tokens of each sentence: max(source, target) + 1. Sentences are
// shuffled, sorted by length (equal ones stay shuffled), cut where longest * count would exceed max_tokens or the count
// max_sentences (0: no such limit), and the batches are shuffled. Every index comes once. Throws Error when one
// sentence alone is longer than max_tokens.
[[nodiscard]] std::vector<std::vector<int64_t>> batches_by_tokens(std::span<const int64_t> lengths, int64_t max_tokens,
                                                                  int64_t max_sentences, uint64_t seed, int64_t epoch);

}  // namespace heed::text
