// The online softmax: the states of a tile's rows, how they are merged, and how they end. Shared by the tiles and by
// decoding.
#if defined(HEED_KERNELS_ATTENTION_FORWARD_STATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_FORWARD_STATE_INL_H_
#undef HEED_KERNELS_ATTENTION_FORWARD_STATE_INL_H_
#else
#define HEED_KERNELS_ATTENTION_FORWARD_STATE_INL_H_
#endif

#include <algorithm>
#include <utility>

#include "kernels/attention/forward/forward.h"
#include "kernels/attention/tile/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

using kernels::kChunkKeys;
using kernels::TileOutputs;

// The softmax over some keys, for every row: the largest score, the sum of exp(score - largest), and that sum weighted
// with the values. Its user chooses the layout of `output`. Without keys: -inf, 0, 0.
struct State {
  float* output;
  HWY_ALIGN float largest[kTileQueries];
  HWY_ALIGN float sum[kTileQueries];
  bool empty = true;  // no block was seen, and `output` holds nothing yet

  void clear(int64_t width) {
    std::fill_n(largest, width, kMinusInfinity);
    std::fill_n(sum, width, 0.0f);
    empty = true;
  }
};

// What is subtracted from scores: the largest one; or 0 in a row that has none, because -inf - -inf is NaN.
HWY_INLINE FV origin(FV largest) { return hn::IfThenZeroElse(hn::Eq(largest, all(kMinusInfinity)), largest); }

// Merges the largest scores and the sums of `next`, the state of the following keys, into `total`. The caller then
// makes the outputs total * old_factors + next * new_factors, unless this returns false: nothing is left to do for
// them.
inline bool merge_sums(const Tile& tile, State& next, State& total, float* old_factors, float* new_factors) {
  if (next.empty) return false;
  if (total.empty) {
    std::swap(total.output, next.output);
    std::copy_n(next.largest, tile.width, total.largest);
    std::copy_n(next.sum, tile.width, total.sum);
    total.empty = false;
    return false;
  }
  for (int64_t lane = 0; lane < tile.width; lane += kLanes) {
    const FV a = hn::Load(kF, total.largest + lane), b = hn::Load(kF, next.largest + lane);
    const FV largest = larger(b, a), from = origin(largest);
    const FV old_factor = attention_exp(hn::Sub(a, from)), new_factor = attention_exp(hn::Sub(b, from));
    const FV sum = hn::Mul(hn::Load(kF, total.sum + lane), old_factor);
    hn::Store(fma(hn::Load(kF, next.sum + lane), new_factor, sum), kF, total.sum + lane);
    hn::Store(largest, kF, total.largest + lane);
    hn::Store(old_factor, kF, old_factors + lane);
    hn::Store(new_factor, kF, new_factors + lane);
  }
  return true;
}

// The state of a tile between the calls for two parts of its keys.
inline void load_state(const Tile& tile, const float* sums, State& state) {
  std::copy_n(sums, tile.width, state.largest);
  std::copy_n(sums + kTileQueries, tile.width, state.sum);
  state.empty = sums[2 * kTileQueries] != 0;
  if (!state.empty) {
    std::copy_n(sums + 2 * kTileQueries + kernels::kStripe, tile.group.value_size * tile.width, state.output);
  }
}
inline void store_state(const Tile& tile, const State& state, float* sums) {
  std::copy_n(state.largest, tile.width, sums);
  std::copy_n(state.sum, tile.width, sums + kTileQueries);
  sums[2 * kTileQueries] = state.empty ? 1.0f : 0.0f;
  if (!state.empty) {
    std::copy_n(state.output, tile.group.value_size * tile.width, sums + 2 * kTileQueries + kernels::kStripe);
  }
}

// Clears the state and calls add(block, coverage, bits, state) for every block of keys [begin, end) in which some pair
// is attended.
template <class Add>
HWY_INLINE void for_blocks(const Tile& tile, int64_t begin, int64_t end, State& state, const Add& add) {
  state.clear(tile.width);
  const int64_t last = std::min(end, tile.end);
  for (int64_t from = std::max(begin, tile.begin / kBlockKeys * kBlockKeys); from < last; from += kBlockKeys) {
    const Block block = clip(tile, from, 0, tile.group.keys);
    Bits bits;
    const Coverage coverage = find_attended(tile, block, bits);
    if (coverage != Coverage::none) add(block, coverage, bits, state);
  }
}

// The same for all keys of a tile, into `total`. Where there are several chunks, each goes into `chunk` and is followed
// by merge(chunk).
template <class Add, class Merge>
HWY_INLINE void for_chunks(const Tile& tile, State& total, State& chunk, const Add& add, const Merge& merge) {
  if (tile.group.single_chunk) {
    for_blocks(tile, tile.begin / kBlockKeys * kBlockKeys, tile.end, total, add);
    return;
  }
  for (int64_t begin = tile.begin / kChunkKeys * kChunkKeys; begin < tile.end; begin += kChunkKeys) {
    for_blocks(tile, begin, begin + kChunkKeys, chunk, add);
    merge(chunk);
  }
}

// Writes logsumexp, and for every lane the factor that makes exp(score - largest) a weight: 0 in a row that attends to
// nothing.
inline void finish(const Tile& tile, const TileOutputs& outputs, const State& total, float* factors) {
  const AttentionGroup& g = tile.group;
  HWY_ALIGN float sinks[kTileQueries];
  HWY_ALIGN float logsumexp[kTileQueries];
  if (g.sinks.data != nullptr) {
    for (int64_t r = 0; r < tile.width; ++r) sinks[r] = *g.sinks.at(tile.head[r], 0);
  }
  for (int64_t lane = 0; lane < tile.width; lane += kLanes) {
    const FV largest = hn::Load(kF, total.largest + lane);
    FV sum = hn::Load(kF, total.sum + lane), above = largest, factor = all(1.0f);
    if (g.sinks.data != nullptr) {
      const FV sink = hn::Load(kF, sinks + lane);
      above = larger(sink, largest);
      factor = attention_exp(hn::Sub(largest, origin(above)));
      sum = fma(sum, factor, attention_exp(hn::Sub(sink, origin(above))));
    }
    const auto nothing = hn::Eq(sum, hn::Zero(kF));
    const FV per_weight = hn::Div(hn::Mul(factor, all(g.dropout_scale)), sum);
    hn::Store(hn::IfThenZeroElse(nothing, per_weight), kF, factors + lane);
    if (outputs.logsumexp.data == nullptr) continue;
    const FV log = hn::Add(above, hn::IfThenElse(hn::IsNaN(sum), sum, attention_log(sum)));
    hn::Store(canonical_nan(hn::IfThenElse(nothing, all(kMinusInfinity), log)), kF, logsumexp + lane);
  }
  if (outputs.logsumexp.data == nullptr) return;
  for (int64_t r = 0; r < tile.rows; ++r) *outputs.logsumexp.at(tile.head[r], tile.query[r]) = logsumexp[r];
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
