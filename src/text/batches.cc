// Length bucketing in the manner of fairseq's batch_by_size.
#include "text/batches.h"

#include <algorithm>

#include "base/philox.h"
#include "heed/error.h"

namespace heed::text {

namespace {

template <class Index>
void shuffled(std::span<Index> order, uint64_t seed, uint64_t stream) {
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<Index>(i);
  // Fisher-Yates. The pick is the high half of 64 random bits times i + 1: its bias is below 2^-32.
  for (size_t i = order.size(); i-- > 1;) {
    const auto words = philox(seed, stream, i);
    const uint64_t bits = (uint64_t{words[0]} << 32) | words[1];
    const auto pick = static_cast<size_t>((static_cast<unsigned __int128>(bits) * (i + 1)) >> 64);
    std::swap(order[i], order[pick]);
  }
}

}  // namespace

std::vector<int64_t> permutation(int64_t count, uint64_t seed, uint64_t stream) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  shuffled(std::span(order), seed, stream);
  return order;
}

void permutation(std::span<uint32_t> order, uint64_t seed, uint64_t stream) { shuffled(order, seed, stream); }

std::vector<std::vector<int64_t>> batches_by_tokens(std::span<const int64_t> lengths, int64_t max_tokens,
                                                    int64_t max_sentences, uint64_t seed, int64_t epoch) {
  constexpr const char* kFunction = "batches_by_tokens";
  require(max_tokens >= 0 && max_sentences >= 0 && max_tokens + max_sentences > 0, kFunction,
          "a limit of tokens or of sentences; found ", max_tokens, " and ", max_sentences);
  // Two streams an epoch: one for the sentences, one for the batches.
  const uint64_t stream = 2 * static_cast<uint64_t>(epoch);
  std::vector<int64_t> order = permutation(static_cast<int64_t>(lengths.size()), seed, stream);
  const auto length = [&](int64_t index) { return lengths[static_cast<size_t>(index)]; };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return length(a) < length(b); });

  std::vector<std::vector<int64_t>> batches;
  for (const int64_t index : order) {
    const int64_t longest = length(index);  // of the batch, because sentences are sorted by length
    require(longest >= 0 && (max_tokens == 0 || longest <= max_tokens), kFunction, "sentences of at most ", max_tokens,
            " tokens, the size of a batch; sentence ", index, " has ", longest);
    const int64_t with_it = batches.empty() ? 0 : static_cast<int64_t>(batches.back().size()) + 1;
    const bool fits = with_it > 0 && (max_tokens == 0 || longest * with_it <= max_tokens) &&
                      (max_sentences == 0 || with_it <= max_sentences);
    if (!fits) batches.emplace_back();
    batches.back().push_back(index);
  }
  const std::vector<int64_t> shuffled = permutation(static_cast<int64_t>(batches.size()), seed, stream + 1);
  std::vector<std::vector<int64_t>> result;
  result.reserve(batches.size());
  for (const int64_t batch : shuffled) result.push_back(std::move(batches[static_cast<size_t>(batch)]));
  return result;
}

}  // namespace heed::text
