// The softmax states of a tile's rows, and what becomes of them: shared by the kernels of the forward pass.
#if defined(HEED_KERNELS_ATTENTION_FORWARD_STATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_FORWARD_STATE_INL_H_
#undef HEED_KERNELS_ATTENTION_FORWARD_STATE_INL_H_
#else
#define HEED_KERNELS_ATTENTION_FORWARD_STATE_INL_H_
#endif

#include <algorithm>
#include <utility>

#include "kernels/attention/tile/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

using kernels::AttentionForward;
using kernels::kChunkKeys;

// The softmax of some keys, for every row: the largest score, the sum of exp(score - largest), and the same sum of
// values, in a layout that is its user's. Without keys: -inf, 0, 0.
struct State {
  float* output;
  HWY_ALIGN float largest[kTileRows];
  HWY_ALIGN float sum[kTileRows];
  bool empty = true;  // no block was seen; `output` holds nothing yet

  void clear(int64_t width) {
    std::fill_n(largest, width, kMinusInfinity);
    std::fill_n(sum, width, 0.0f);
    empty = true;
  }
};

// What scores are measured from: the largest one, or 0 in a row that has none, so that -inf - -inf does not come up.
HWY_INLINE FV origin(FV largest) { return hn::IfThenZeroElse(hn::Eq(largest, all(kMinusInfinity)), largest); }

// The part of a merge that concerns the largest scores and the sums: `total` takes in `next`, the state of the keys
// after its own. The outputs become total * old_factors + next * new_factors; false: nothing is left to do for them.
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
    const FV old_factor = exponential(hn::Sub(a, from)), new_factor = exponential(hn::Sub(b, from));
    const FV sum = hn::Mul(hn::Load(kF, total.sum + lane), old_factor);
    hn::Store(Fma(hn::Load(kF, next.sum + lane), new_factor, sum), kF, total.sum + lane);
    hn::Store(largest, kF, total.largest + lane);
    hn::Store(old_factor, kF, old_factors + lane);
    hn::Store(new_factor, kF, new_factors + lane);
  }
  return true;
}

// The state of keys [begin, end) of a tile: add(block, coverage, bits, state) for every block with something to attend
// to.
template <class Add>
HWY_INLINE void add_chunk(const Tile& tile, int64_t begin, int64_t end, State& state, const Add& add) {
  state.clear(tile.width);
  const int64_t last = std::min(end, tile.end);
  for (int64_t from = std::max(begin, tile.begin / kBlockKeys * kBlockKeys); from < last; from += kBlockKeys) {
    const Block block = clip(tile, from, 0, tile.group.keys);
    Bits bits;
    const Coverage coverage = find_attended(tile, block, bits);
    if (coverage != Coverage::none) add(block, coverage, bits, state);
  }
}

// Takes all keys of a tile into `total`; where there are several chunks, merge(chunk) follows each.
template <class Add, class Merge>
HWY_INLINE void add_keys(const Tile& tile, State& total, State& chunk, const Add& add, const Merge& merge) {
  if (tile.group.single_chunk) {
    add_chunk(tile, tile.begin / kBlockKeys * kBlockKeys, tile.end, total, add);
    return;
  }
  for (int64_t begin = tile.begin / kChunkKeys * kChunkKeys; begin < tile.end; begin += kChunkKeys) {
    add_chunk(tile, begin, begin + kChunkKeys, chunk, add);
    merge(chunk);
  }
}

// For every lane, what a weight exp(score - largest) is multiplied by in the end; 0 in a row that attends to nothing.
inline void finish(const Tile& tile, const AttentionForward& result, const State& total, float* factors) {
  const AttentionGroup& g = tile.group;
  HWY_ALIGN float sinks[kTileRows];
  HWY_ALIGN float logsumexp[kTileRows];
  if (g.sinks.data != nullptr) {
    for (int64_t r = 0; r < tile.width; ++r) sinks[r] = *g.sinks.at(tile.head[r], 0);
  }
  for (int64_t lane = 0; lane < tile.width; lane += kLanes) {
    const FV largest = hn::Load(kF, total.largest + lane);
    FV sum = hn::Load(kF, total.sum + lane), above = largest, factor = all(1.0f);
    if (g.sinks.data != nullptr) {
      const FV sink = hn::Load(kF, sinks + lane);
      above = larger(sink, largest);
      factor = exponential(hn::Sub(largest, origin(above)));
      sum = Fma(sum, factor, exponential(hn::Sub(sink, origin(above))));
    }
    const auto nothing = hn::Eq(sum, hn::Zero(kF));
    const FV per_weight = hn::Div(hn::Mul(factor, all(g.dropout_scale)), sum);
    hn::Store(hn::IfThenZeroElse(nothing, per_weight), kF, factors + lane);
    if (result.logsumexp.data == nullptr) continue;
    const FV log = hn::Add(above, hn::IfThenElse(hn::IsNaN(sum), sum, logarithm(sum)));
    hn::Store(one_nan(hn::IfThenElse(nothing, all(kMinusInfinity), log)), kF, logsumexp + lane);
  }
  if (result.logsumexp.data == nullptr) return;
  for (int64_t r = 0; r < tile.rows; ++r) *result.logsumexp.at(tile.head[r], tile.query[r]) = logsumexp[r];
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
