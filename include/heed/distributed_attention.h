// Attention over a sequence that is too long for one machine: each rank holds a part of the queries, keys and values.
//
//   distributed::run_in_process(4, [&](distributed::Communicator& ranks) {
//     const auto layout = distributed::SequenceLayout::zig_zag(length, ranks.size());
//     const Tensor q = distributed::rows_of(query, layout, ranks.rank());          // and k, v likewise
//     const AttentionOptions options = {.causal = Causal::bottom_right(), .want = {.logsumexp = true}};
//     auto r = distributed::attention(ranks, q, k, v, options, {layout, layout});
//     auto g = distributed::attention_backward(ranks, d_output, q, k, v, r, options, {layout, layout});
//   });
//
// The bits. Output, logsumexp and all gradients are those of heed::attention() and heed::attention_backward() on the
// whole sequence in one process: for any number of ranks, any layout, any number of threads on each rank. In f32 the
// ranks may have different instruction sets. (In bf16 they must run the same engine; this is checked.)
//
// How. Keys and values travel in units of 512 keys, queries stay. A unit goes from the rank that holds it to the next
// one that needs it, and so on; a rank passes it on before it computes with it. Every rank meets the units in the order
// of the keys, so that the softmax states are merged in one order. In the backward pass a unit visits the ranks in the
// order of their queries, and the sums of its gradients travel with it: each rank adds its tiles of 48 queries.
//   The rank of a unit's first key holds the unit, and in the backward pass the rank of a tile's first query holds the
// tile: rows beyond are sent there first. Layouts whose runs begin at multiples of 1536 need none of that, unless the
// last run has 1 to 16 positions: where L % 48 is 1 to 16, the last tile begins 16 positions before the last multiple
// of 48.
//
// Bytes. With B = 1, P ranks with equal parts, no masks, sizes that are multiples of 16, numbers of `e` bytes:
//   forward:  a rank sends S Hkv (D + Dv) (P - 1) / P numbers of e bytes, as in any ring: 2 S Hkv D (P - 1) / P where
//             Dv = D
//   backward: keys and values once more, and on average at most S Hkv (D + Dv) numbers of 4 bytes, the sums of their
//             gradients. With zig_zag() a unit meets each rank twice, so both are up to twice as much.
// Keys and values travel once a group, not once a query head. A unit goes only to ranks one of whose queries may see
// it by position (causal, window, key_lengths): with a window, only neighbours talk. Traffic counts what was sent.
//
// Balance. With a causal mask the last rank of contiguous() has twice an even share of the work. zig_zag() gives all
// ranks the same, but not at the same time: units come in the order of the keys, and no rank runs far ahead. The pass
// takes up to 1.5 times an even share, with striped() and n runs a rank up to (n + 1) / n. In the backward pass a unit
// visits every run, so n runs a rank send n times as much. In the forward pass more runs send nothing more. But runs of
// queries should have 48 positions or more: a shorter run takes the memory, and up to the time, of 48.
//
// Memory of a rank beside its tensors: Dv + 3 floats a query and head in the forward pass, D in the backward pass, and
// at most six units of keys and values (in the backward pass for each of its runs, and with the sums of their
// gradients). Where rows have to be sent to align the layouts, a copy of those tensors, and until a tensor's rows have
// arrived those that are sent: up to a second copy of it. All this is linear in (L + S) / P. What has the length of the
// whole sequence are lists: of 8 bytes for each 48 queries, and of 36 bytes for each 512 keys, in the backward pass 40
// more for each run of the rank.
//
// All ranks call the same function with the same options, each with its own rows. Shapes and options are compared
// before anything is computed; where they differ, all ranks throw the same Error. A score function is compared by its
// table and by what it returns, to six digits, for some scores and pairs. Threads as for attention(). One call at a
// time with one Communicator.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "heed/attention.h"
#include "heed/distributed.h"
#include "heed/export.h"

HEED_EXPORT_BEGIN
namespace heed::distributed {

// Positions [first, first + count) of a sequence.
struct Run {
  int64_t first = 0, count = 0;
  [[nodiscard]] int64_t end() const { return first + count; }
  friend bool operator==(const Run&, const Run&) = default;
};

// Which positions of a sequence each rank holds. Every position belongs to one rank.
struct SequenceLayout {
  std::vector<std::vector<Run>> runs;  // of each rank, ascending: the order of its rows

  // One run a rank, rank 0 first. Where there are enough positions, runs begin at multiples of `multiple`.
  [[nodiscard]] static SequenceLayout contiguous(int64_t length, int ranks, int64_t multiple = 1);
  [[nodiscard]] static SequenceLayout of_lengths(std::span<const int64_t> lengths);
  // 2 P parts: rank r has parts r and 2 P - 1 - r. With a causal mask all ranks then compute as many pairs.
  [[nodiscard]] static SequenceLayout zig_zag(int64_t length, int ranks, int64_t multiple = 1);
  // n P parts: rank r has parts r, r + P, r + 2 P and so on.
  [[nodiscard]] static SequenceLayout striped(int64_t length, int ranks, int64_t n, int64_t multiple = 1);

  [[nodiscard]] int ranks() const { return static_cast<int>(runs.size()); }
  [[nodiscard]] int64_t length() const;        // of the sequence
  [[nodiscard]] int64_t rows(int rank) const;  // positions that the rank holds
  // Throws Error, in the name of `function`, unless every position up to the largest belongs to one rank.
  void check(std::string_view function) const;
  friend bool operator==(const SequenceLayout&, const SequenceLayout&) = default;
};

// The rows of a rank, cut out of axis 2 of a whole tensor (B, H, L, D). A copy.
[[nodiscard]] Tensor rows_of(const Tensor& whole, const SequenceLayout& layout, int rank);
// The rows (axis 2) of a tensor (B, H, L, D) that lies in layout `from`, moved to layout `to`: for all ranks together.
// Shapes, dtypes and layouts are compared before anything is sent; where they differ, all ranks throw the same Error.
[[nodiscard]] Tensor redistribute(Communicator& ranks, const Tensor& rows, const SequenceLayout& from,
                                  const SequenceLayout& to);

// How queries and keys are spread over the ranks. Empty: one run a rank, rank 0 first, as long as its tensors are.
struct AttentionLayouts {
  SequenceLayout queries = {};
  SequenceLayout keys = {};
};

// Bytes that this rank sent in one call.
struct Traffic {
  int64_t keys_values = 0;  // keys, values and documents of keys on their way around
  int64_t gradients = 0;    // sums of the gradients of keys and values
  int64_t alignment = 0;    // rows moved to the rank that computes with them, and their gradients moved back
  int64_t control = 0;      // shapes, options and the gradient of sinks
  [[nodiscard]] int64_t total() const { return keys_values + gradients + alignment + control; }
};

struct DistributedAttention : AttentionResult {
  Traffic traffic;
};
struct DistributedGradients : AttentionGradients {
  Traffic traffic;
};

// heed::attention() of the whole sequence: query (B, H, Lr, D), key (B, Hkv, Sr, D) and value (B, Hkv, Sr, Dv) are this
// rank's rows of it; any of Lr and Sr may be 0. Returned are output (B, H, Lr, Dv) and logsumexp (B, H, Lr).
//   Options, as in heed::attention() of the whole: scale, causal, window, key_lengths (of the whole sequences),
//   softcap,
// alibi_slopes, sinks, score, dropout. Of these rows: mask and bias, which broadcast to (B, H, Lr, S), query_documents
// (B, Lr) and key_documents (B, Sr). want.output is of this rank's shape.
//   Not computed across ranks, refused by name: want.weights, want.scores, want.taps.
[[nodiscard]] DistributedAttention attention(Communicator& ranks, const Tensor& query, const Tensor& key,
                                             const Tensor& value, const AttentionOptions& options = {},
                                             const AttentionLayouts& layouts = {});

// heed::attention_backward() of the whole sequence: this rank's rows of the gradients of query, key and value; and the
// whole gradient of sinks on all ranks. `forward` is what attention() returned here, with logsumexp.
//   The gradients of bias, alibi_slopes and a score function's table are not computed across ranks.
[[nodiscard]] DistributedGradients attention_backward(Communicator& ranks, const Tensor& d_output, const Tensor& query,
                                                      const Tensor& key, const Tensor& value,
                                                      const AttentionResult& forward,
                                                      const AttentionOptions& options = {},
                                                      const AttentionLayouts& layouts = {});

}  // namespace heed::distributed
HEED_EXPORT_END
