// The fused forward pass of one tile: scores, online softmax, output. The unit that multiplies is a parameter.
#if defined(HEED_KERNELS_ATTENTION_FORWARD_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_FORWARD_FORWARD_INL_H_
#undef HEED_KERNELS_ATTENTION_FORWARD_FORWARD_INL_H_
#else
#define HEED_KERNELS_ATTENTION_FORWARD_FORWARD_INL_H_
#endif

#include <algorithm>

#include "kernels/attention/forward/state-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// Turns the scores of kKeys keys into weights, for kVectors adjacent vectors of lanes, and adds these to `sum`. The
// weights replace the scores; where kPairs they go to `pairs` instead, as pairs of keys.
template <class Unit, int kKeys, bool kPairs, int kVectors>
HWY_INLINE void to_weights(float* HWY_RESTRICT scores, int64_t width, const FV (&from)[kVectors], FV (&sum)[kVectors],
                           [[maybe_unused]] uint32_t* HWY_RESTRICT pairs) {
  FV weight[kKeys * kVectors];
  HWY_UNROLL(8)
  for (int n = 0; n < kKeys * kVectors; ++n) {
    weight[n] = hn::Sub(hn::Load(kF, scores + n / kVectors * width + n % kVectors * kLanes), from[n % kVectors]);
  }
  if constexpr (Unit::kRounds) {
    rough_weights_of(weight);
  } else {
    weights_of(weight);
  }
  HWY_UNROLL(8)
  for (int n = 0; n < kKeys * kVectors; ++n) {
    if (!kPairs) hn::Store(weight[n], kF, scores + n / kVectors * width + n % kVectors * kLanes);
    sum[n % kVectors] = hn::Add(sum[n % kVectors], weight[n]);
  }
  if constexpr (kPairs) {
    HWY_UNROLL(8)
    for (int n = 0; n < (kKeys + 1) / 2 * kVectors; ++n) {
      const int even = n / kVectors * 2 * kVectors + n % kVectors, odd = even + kVectors;
      const FV last = odd < kKeys * kVectors ? weight[odd % (kKeys * kVectors)] : hn::Zero(kF);
      hn::Store(Unit::pair(weight[even], last), kU, pairs + n / kVectors * width + n % kVectors * kLanes);
    }
  }
}

// The same for all keys.
template <class Unit, bool kPairs, int kVectors>
HWY_INLINE void keys_to_weights(float* HWY_RESTRICT scores, int64_t width, int64_t count, const FV (&from)[kVectors],
                                FV (&sum)[kVectors], uint32_t* HWY_RESTRICT pairs) {
  constexpr int kKeys = !kPairs ? kExpsInStep / kVectors : kVectors == 3 ? 2 : 4;
  int64_t j = 0;
  for (; j + kKeys <= count; j += kKeys) {
    to_weights<Unit, kKeys, kPairs>(scores + j * width, width, from, sum, pairs + j / 2 * width);
  }
  if constexpr (kPairs) {
    for (; j + 2 <= count; j += 2) {
      to_weights<Unit, 2, true>(scores + j * width, width, from, sum, pairs + j / 2 * width);
    }
  }
  for (; j < count; ++j) to_weights<Unit, 1, kPairs>(scores + j * width, width, from, sum, pairs + j / 2 * width);
}

// update() for kVectors adjacent vectors of lanes: enough chains of additions and of maxima to hide their latency.
// Returns whether some maximum grew; `factors` is what the earlier sums must then be multiplied by.
template <class Unit, int kVectors>
HWY_INLINE bool update_lanes(float* HWY_RESTRICT scores, int64_t width, int64_t count, float* largest_of, float* sum_of,
                             float* factors, uint32_t* pairs) {
  FV before[kVectors], largest[kVectors], from[kVectors], sum[kVectors];
  HWY_UNROLL(3)
  for (int v = 0; v < kVectors; ++v) largest[v] = from[v] = before[v] = hn::Load(kF, largest_of + v * kLanes);
  for (int64_t j = 0; j < count; j += 2) {  // odd keys in `from`
    const float* const even = scores + j * width;
    const float* const odd = j + 1 < count ? even + width : even;
    HWY_UNROLL(3)
    for (int v = 0; v < kVectors; ++v) {
      largest[v] = larger(hn::Load(kF, even + v * kLanes), largest[v]);
      from[v] = larger(hn::Load(kF, odd + v * kLanes), from[v]);
    }
  }
  bool grew = false;
  HWY_UNROLL(3)
  for (int v = 0; v < kVectors; ++v) {
    largest[v] = larger(from[v], largest[v]);
    hn::Store(largest[v], kF, largest_of + v * kLanes);
    from[v] = origin(largest[v]);
    sum[v] = hn::Load(kF, sum_of + v * kLanes);
    grew = grew || !hn::AllFalse(kF, hn::Gt(largest[v], before[v]));
  }
  // Lanes that keep their maximum are multiplied by exactly 1, so skipping the product for all of them changes no bits.
  if (grew) {
    FV factor[kVectors];
    HWY_UNROLL(3)
    for (int v = 0; v < kVectors; ++v) factor[v] = hn::Sub(before[v], from[v]);
    attention_exps(factor, kLeastNormalExponent);
    HWY_UNROLL(3)
    for (int v = 0; v < kVectors; ++v) {
      hn::Store(factor[v], kF, factors + v * kLanes);
      sum[v] = hn::Mul(sum[v], factor[v]);
    }
  } else {
    HWY_UNROLL(3)
    for (int v = 0; v < kVectors; ++v) hn::Store(all(1.0f), kF, factors + v * kLanes);
  }
  if (Unit::kRounds && pairs != nullptr) {
    keys_to_weights<Unit, Unit::kRounds>(scores, width, count, from, sum, pairs);
  } else {
    keys_to_weights<Unit, false>(scores, width, count, from, sum, nullptr);
  }
  HWY_UNROLL(3)
  for (int v = 0; v < kVectors; ++v) hn::Store(sum[v], kF, sum_of + v * kLanes);
  return grew;
}

// The scores of a block become weights exp(score - largest), as pairs of keys in `pairs` unless that is null. The state
// takes in the largest score and the sum. `factors` is what the state's output must be multiplied by; returns whether
// any of them is not 1.
template <class Unit>
inline bool update(const Tile& tile, const Block& block, float* scores, State& state, float* factors, uint32_t* pairs) {
  const int64_t width = tile.width;
  bool grew = false;
  int64_t lane = 0;
  const auto lanes = [&]<int kVectors>() HWY_ATTR {
    grew |= update_lanes<Unit, kVectors>(scores + lane, width, block.count, state.largest + lane, state.sum + lane,
                                         factors + lane, pairs == nullptr ? nullptr : pairs + lane);
    lane += kVectors * kLanes;
  };
  while (lane + 3 * kLanes <= width) lanes.template operator()<3>();
  while (lane + 2 * kLanes <= width) lanes.template operator()<2>();
  while (lane < width) lanes.template operator()<1>();  // NOLINT: it moves `lane`
  return grew;
}

inline void drop_weights(const Tile& tile, const Block& block, float* weights) {
  Bits kept;
  find_kept(tile, block, kept);
  for (int64_t lane = 0; lane < tile.width; lane += kLanes) {
    for (int64_t j = 0; j < block.count; ++j) {
      float* const w = weights + j * tile.width + lane;
      hn::Store(hn::IfThenElseZero(test_bit(kept.word, j, lane), hn::Load(kF, w)), kF, w);
    }
  }
}

// Merges `next`, the state of the following keys, into `total`. `next` holds nothing of use afterwards.
inline void merge(const Tile& tile, State& next, State& total) {
  HWY_ALIGN float old_factors[kTileQueries], new_factors[kTileQueries];
  if (!merge_sums(tile, next, total, old_factors, new_factors)) return;
  for (int64_t d = 0; d < tile.group.value_size; ++d) {
    for (int64_t lane = 0; lane < tile.width; lane += kLanes) {
      float* const o = total.output + d * tile.width + lane;
      const FV scaled = hn::Mul(hn::Load(kF, o), hn::Load(kF, old_factors + lane));
      const FV added = hn::Load(kF, next.output + d * tile.width + lane);
      hn::Store(fma(added, hn::Load(kF, new_factors + lane), scaled), kF, o);
    }
  }
}

inline void write_output(const Tile& tile, const TileOutputs& outputs, const State& total, const float* factors) {
  float* rows[kTileQueries];
  for (int64_t r = 0; r < tile.rows; ++r) rows[r] = outputs.output.at(tile.head[r], tile.query[r]);
  if (total.empty) {  // no key at all: 0, unless a NaN sink makes the row NaN
    for (int64_t r = 0; r < tile.rows; ++r) {
      std::fill_n(rows[r], tile.group.value_size, factors[r] == factors[r] ? 0.0f : factors[r]);
    }
    return;
  }
  unpack_columns(tile, total.output, tile.group.value_size, rows,
                 [&](FV o, int64_t lane) HWY_ATTR { return canonical(hn::Mul(o, hn::Load(kF, factors + lane))); });
}

// Where the tile leaves the scores of a block.
inline float* kept_block(const Tile& tile, const Block& block, const TileOutputs& outputs) {
  return outputs.kept + block.from / kBlockKeys * kBlockKeys * tile.width;
}

// A second pass over the keys, now that the sums are known: writes the scores and the weights that are wanted.
template <class Unit>
void write_weights(const Tile& tile, const Unit& unit, const TileOutputs& outputs, const State& total,
                   const float* factors, float* scores, float* spare) {
  const bool want_scores = outputs.scores.data != nullptr, want_weights = outputs.weights.data != nullptr;
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t h = tile.head[r], i = tile.query[r];
    if (want_weights) std::fill_n(outputs.weights.at(h, i), outputs.all_keys, 0.0f);
    if (want_scores) std::fill_n(outputs.scores.at(h, i), outputs.all_keys, kMinusInfinity);
  }
  for (int64_t begin = tile.begin / kBlockKeys * kBlockKeys; begin < tile.end; begin += kBlockKeys) {
    const Block block = clip(tile, begin, 0, tile.group.keys);
    Bits bits;
    const Coverage coverage = find_attended(tile, block, bits);
    if (coverage == Coverage::none) continue;
    if (outputs.kept != nullptr) {
      std::copy_n(kept_block(tile, block, outputs), block.count * tile.width, scores);
    } else {
      unit.multiply_keys(tile, block, scores);
      (void)modify_scores(tile, block, coverage, scores, spare, {}, bits);
    }
    float* rows[kTileQueries];
    if (want_scores) {
      for (int64_t r = 0; r < tile.rows; ++r) rows[r] = outputs.scores.at(tile.head[r], tile.query[r]) + block.from;
      unpack_columns(tile, scores, block.count, rows, [](FV s, int64_t) HWY_ATTR { return canonical_nan(s); });
    }
    if (!want_weights) continue;
    for (int64_t lane = 0; lane < tile.width; lane += kLanes) {
      const FV from = origin(hn::Load(kF, total.largest + lane)), factor = hn::Load(kF, factors + lane);
      for (int64_t j = 0; j < block.count; ++j) {
        float* const s = scores + j * tile.width + lane;
        const FV score = hn::Load(kF, s);
        const FV weight = hn::Mul(weight_of(hn::Sub(score, from)), factor);
        hn::Store(hn::IfThenZeroElse(hn::Eq(score, all(kMinusInfinity)), canonical_nan(weight)), kF, s);
      }
    }
    if (tile.group.dropout_threshold > 0) drop_weights(tile, block, scores);
    for (int64_t r = 0; r < tile.rows; ++r) rows[r] = outputs.weights.at(tile.head[r], tile.query[r]) + block.from;
    unpack_columns(tile, scores, block.count, rows, [](FV w, int64_t) HWY_ATTR { return w; });
  }
}

// The unit holds the tile's queries and does the two products:
//   multiply_keys(tile, block, scores)  scores (64, width) = keys of the block times the scaled queries
//   add_values(tile, block, partial, bits, weights, factors, grew, state)  state.output (Dv, width) = itself times the
//     factors, plus values of the block times weights (64, width); where `partial`, only of the pairs in `bits`
//   write(tile, outputs, total, factors)  the output: total.output (Dv, width) times the factors
//   kRounds                             whether it rounds weights to bf16 before it multiplies them
//   weights_as_pairs(tile, block)       where add_values() wants them as pairs of keys, made by Unit::pair(); or null
template <class Unit>
HWY_INLINE void forward_tile_with(const Tile& tile, const Unit& unit, const TileOutputs& outputs, float* scratch) {
  const AttentionGroup& group = tile.group;
  float* const scores = scratch;  // (64, width)
  float* const spare = scores + kBlockKeys * tile.width;
  State total, chunk;
  total.output = spare + kBlockKeys * tile.width;
  chunk.output = total.output + group.value_size * tile.width;
  if (outputs.parts.first) {
    total.clear(tile.width);
  } else {
    load_state(tile, outputs.parts.sums, total);
  }

  for_chunks(
      tile, total, chunk,
      [&](const Block& block, Coverage coverage, Bits& bits, State& state) HWY_ATTR {
        unit.multiply_keys(tile, block, scores);
        const bool partial = modify_scores(tile, block, coverage, scores, spare, {}, bits);
        if (outputs.kept != nullptr) std::copy_n(scores, block.count * tile.width, kept_block(tile, block, outputs));
        HWY_ALIGN float factors[kTileQueries];
        const bool grew = update<Unit>(tile, block, scores, state, factors, unit.weights_as_pairs(tile, block));
        if (group.dropout_threshold > 0) drop_weights(tile, block, scores);
        unit.add_values(tile, block, partial, bits, scores, factors, grew, state);
      },
      [&](State& next) HWY_ATTR { merge(tile, next, total); });
  if (!outputs.parts.last) return store_state(tile, total, outputs.parts.sums);

  HWY_ALIGN float factors[kTileQueries];
  finish(tile, outputs, total, factors);
  unit.write(tile, outputs, total, factors);
  const bool second_pass = outputs.weights.data != nullptr || outputs.scores.data != nullptr;
  if (second_pass) write_weights(tile, unit, outputs, total, factors, scores, spare);
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
