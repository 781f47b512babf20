// Packing for products of pairs, and the two passes over any unit that multiplies them. See attention_pairs.h.
#if defined(HEED_KERNELS_ATTENTION_BF16_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_BF16_TILE_INL_H_
#undef HEED_KERNELS_ATTENTION_BF16_TILE_INL_H_
#else
#define HEED_KERNELS_ATTENTION_BF16_TILE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/half.h"
#include "kernels/attention/backward/backward-inl.h"
#include "kernels/attention/forward/forward-inl.h"
#include "kernels/attention/bf16/bf16.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

using kernels::AttentionBackward;
using kernels::AttentionForward;
using kernels::kPairDepth;
using kernels::PackedKeys;
using kernels::PackedRows;
using kernels::padded_depth;

struct PairProduct {
  float* c;
  int64_t c_row;
  const uint16_t* a;  // rows up to a multiple of 16 may be read
  int64_t a_row;
  const uint32_t* x;
  int64_t x_row;
  int64_t rows, depth, n;          // depth a multiple of the unit's step, n of 16
  const float* factors = nullptr;  // Into::scaled: n numbers
  kernels::Ahead* ahead = nullptr;
};

// Rounded to bf16, to nearest even, in the upper half of each lane; the lower half is arbitrary.
HWY_INLINE UV rounded(FV x) {
  const UV bits = hn::BitCast(kU, x);
  const UV odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(kU, 1));
  const UV up = hn::Add(hn::Add(bits, hn::Set(kU, 0x7FFF)), odd);
  return hn::IfThenElse(hn::RebindMask(kU, hn::IsNaN(x)), hn::Set(kU, 0x7FC00000), up);
}

HWY_INLINE UV pair_of(FV low, FV high) {
  return hn::Or(hn::ShiftRight<16>(rounded(low)), hn::And(rounded(high), hn::Set(kU, 0xFFFF0000)));
}

// Lines of f32 (count, width) as pairs of lines; zeros up to a multiple of kPairDepth lines.
template <class Unit>
HWY_INLINE void pack_pairs(const float* HWY_RESTRICT lines, int64_t count, int64_t width, uint32_t* HWY_RESTRICT to) {
  int64_t i = 0;
  for (; i + 2 <= count; i += 2, lines += 2 * width, to += width) {
    for (int64_t lane = 0; lane < width; lane += kLanes) {
      hn::Store(Unit::pair(hn::Load(kF, lines + lane), hn::Load(kF, lines + width + lane)), kU, to + lane);
    }
  }
  if (i < count) {
    for (int64_t lane = 0; lane < width; lane += kLanes) {
      hn::Store(Unit::pair(hn::Load(kF, lines + lane), hn::Zero(kF)), kU, to + lane);
    }
    i += 2, to += width;
  }
  if (i < padded_depth(count)) std::fill_n(to, (padded_depth(count) - i) / 2 * width, uint32_t{0});
}

HWY_INLINE void store_rounded(FV x, uint16_t* to) {
  const hn::Rebind<uint16_t, F> d16;
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(kI, hn::ShiftRight<16>(rounded(x)))), d16, to);
}

// Lines of f32 (count, width), times `factor`, as bf16 lines of kBlockKeys numbers, the rest of each 0.
HWY_INLINE void round_lines(const float* HWY_RESTRICT lines, int64_t count, int64_t width, float factor,
                            uint16_t* HWY_RESTRICT to) {
  static_assert(kTileRows <= kBlockKeys);
  for (int64_t j = 0; j < count; ++j, lines += width, to += kBlockKeys) {
    for (int64_t lane = 0; lane < width; lane += kLanes) {
      store_rounded(hn::Mul(hn::Load(kF, lines + lane), all(factor)), to + lane);
    }
    std::memset(to + width, 0, static_cast<size_t>(kBlockKeys - width) * sizeof(uint16_t));
  }
}

template <class Unit>
HWY_INLINE int64_t depth_of(int64_t count) {
  return (count + Unit::kStep - 1) / Unit::kStep * Unit::kStep;
}

// A power of two can go into bf16 numbers without changing their digits; any other scale is applied afterwards.
inline bool scales_exactly(float scale) {
  int exponent = 0;
  return std::frexp(scale, &exponent) == 0.5f && exponent > -32 && exponent < 32;
}

inline void scale_lines(float* lines, int64_t count, int64_t width, float factor) {
  if (factor == 1.0f) return;
  for (int64_t n = 0; n < count * width; n += kLanes)
    hn::Store(hn::Mul(hn::Load(kF, lines + n), all(factor)), kF, lines + n);
}

// scores (64, width) = rows of the block times the packed lanes.
template <class Unit>
HWY_INLINE void multiply_rows(const Tile& tile, const Block& block, const PackedRows& packed, int64_t depth,
                              const uint32_t* lanes, float* scores, kernels::Ahead* ahead = nullptr) {
  Unit::template multiply<Into::fresh>({.c = scores,
                                        .c_row = tile.width,
                                        .a = packed.rows + block.from * packed.row,
                                        .a_row = packed.row,
                                        .x = lanes,
                                        .x_row = tile.width,
                                        .rows = block.count,
                                        .depth = depth_of<Unit>(depth),
                                        .n = tile.width,
                                        .ahead = ahead});
}

// sums (columns, width) += special numbers of the block times `lanes` (64, width), where attended.
inline void add_special(const Tile& tile, const Block& block, const PackedRows& packed, bool partial, const Bits& bits,
                        const float* lanes, float* sums) {
  const int64_t index = block.from / kBlockKeys;
  for (int64_t n = packed.special_begin[index]; n < packed.special_begin[index + 1]; ++n) {
    const kernels::Special& special = packed.special[n];
    const int64_t j = special.key - block.from;
    if (j < 0 || j >= block.count) continue;
    for (int64_t lane = 0; lane < tile.width; lane += kLanes) {
      float* const to = sums + special.column * tile.width + lane;
      const FV before = hn::Load(kF, to);
      const FV after = Fma(hn::Load(kF, lanes + j * tile.width + lane), all(special.value), before);
      hn::Store(partial ? hn::IfThenElse(test_bit(bits.word, j, lane), after, before) : after, kF, to);
    }
  }
}

// Pairs of columns (padded_depth(columns) / 2, width) of bf16 rows, times `factor`, a power of two: both numbers of a
// pair are turned over as if they were one f32.
template <class Unit>
HWY_INLINE void pack_narrow_columns(const Tile& tile, const kernels::Strided<const uint16_t>& source, int64_t columns,
                                    float factor, uint32_t* to) {
  const float* rows[kTileRows];
  for (int64_t r = 0; r < tile.width; ++r) {
    rows[r] = reinterpret_cast<const float*>(source.at(tile.head[r], tile.query[r]));
  }
  pack_rows(tile, rows, 1, columns / 2, reinterpret_cast<float*>(to), [factor](FV pair) HWY_ATTR {
    const UV bits = hn::BitCast(kU, pair);
    const FV low = hn::BitCast(kF, hn::ShiftLeft<16>(bits));
    const FV high = hn::BitCast(kF, hn::And(bits, hn::Set(kU, 0xFFFF0000)));
    return hn::BitCast(kF, Unit::pair(hn::Mul(low, all(factor)), hn::Mul(high, all(factor))));
  });
  std::fill_n(to + columns / 2 * tile.width, (padded_depth(columns) - columns) / 2 * tile.width, uint32_t{0});
}

// The output as bf16, pairs of columns as if they were one f32.
inline void write_narrow_output(const Tile& tile, const kernels::Strided<uint16_t>& output, const State& total,
                                const float* factors) {
  const int64_t columns = tile.group.value_size, width = tile.width;
  float* const o = total.output;
  for (int64_t c = 0; c < columns; c += 2) {
    for (int64_t lane = 0; lane < width; lane += kLanes) {
      const FV factor = hn::Load(kF, factors + lane);
      FV low = hn::Zero(kF), high = hn::Zero(kF);  // no key at all: 0, unless a NaN sink makes the row NaN
      if (!total.empty) low = hn::Load(kF, o + c * width + lane), high = hn::Load(kF, o + (c + 1) * width + lane);
      const UV pair = pair_of(tidy(hn::Mul(low, factor)), tidy(hn::Mul(high, factor)));
      hn::Store(hn::BitCast(kF, pair), kF, o + c / 2 * width + lane);
    }
  }
  float* rows[kTileRows];
  for (int64_t r = 0; r < tile.rows; ++r) rows[r] = reinterpret_cast<float*>(output.at(tile.head[r], tile.query[r]));
  unpack_columns(tile, o, columns / 2, rows, [](FV pair, int64_t) HWY_ATTR { return pair; });
}

// sums (columns, width) (+)= the block, turned, times pairs of `lanes` (64, width).
template <class Unit, Into kInto>
HWY_INLINE void multiply_columns(const Tile& tile, const Block& block, const PackedRows& packed, int64_t columns,
                                 const uint32_t* pairs, const float* factors, float* sums,
                                 kernels::Ahead* ahead = nullptr) {
  Unit::template multiply<kInto>(
      {.c = sums,
       .c_row = tile.width,
       .a = packed.columns + block.from / kBlockKeys * packed.block + block.from % kBlockKeys,
       .a_row = kBlockKeys,
       .x = pairs,
       .x_row = tile.width,
       .rows = columns,
       .depth = depth_of<Unit>(block.count),
       .n = tile.width,
       .factors = factors,
       .ahead = ahead});
}

template <class Unit>
struct PairsForward {
  static constexpr bool kRounds = true;

  const PackedKeys& keys;
  const uint32_t* queries;  // (padded_depth(D) / 2, width)
  uint32_t* pairs;          // (32, width)
  float scale;              // of the products
  kernels::Ahead* ahead;

  void multiply_keys(const Tile& tile, const Block& block, float* scores) const {
    multiply_rows<Unit>(tile, block, keys.key, tile.group.size, queries, scores, ahead);
    scale_lines(scores, block.count, tile.width, scale);
  }

  static HWY_INLINE UV pair(FV low, FV high) { return Unit::pair(low, high); }

  // Unless they are needed as f32 as well.
  [[nodiscard]] uint32_t* weights_as_pairs(const Tile& tile, const Block& block) const {
    const int64_t* const special = keys.value.special_begin + block.from / kBlockKeys;
    return tile.group.dropout_threshold == 0 && special[0] == special[1] ? pairs : nullptr;
  }

  void add_values(const Tile& tile, const Block& block, bool partial, const Bits& bits, const float* weights,
                  const float* factors, bool grew, State& state) const {
    const int64_t columns = tile.group.value_size;
    if (weights_as_pairs(tile, block) == nullptr) {
      pack_pairs<Unit>(weights, block.count, tile.width, pairs);
    } else {
      const int64_t made = (block.count + 1) / 2, needed = padded_depth(block.count) / 2;
      std::fill_n(pairs + made * tile.width, (needed - made) * tile.width, uint32_t{0});
    }
    if (state.empty) {
      multiply_columns<Unit, Into::fresh>(tile, block, keys.value, columns, pairs, factors, state.output, ahead);
    } else if (grew) {
      multiply_columns<Unit, Into::scaled>(tile, block, keys.value, columns, pairs, factors, state.output, ahead);
    } else {
      multiply_columns<Unit, Into::added>(tile, block, keys.value, columns, pairs, factors, state.output, ahead);
    }
    state.empty = false;
    add_special(tile, block, keys.value, partial, bits, weights, state.output);
  }

  static void write(const Tile& tile, const AttentionForward& result, const State& total, const float* factors) {
    if (result.narrow_output.data != nullptr) {
      write_narrow_output(tile, result.narrow_output, total, factors);
    } else {
      write_output(tile, result, total, factors);
    }
  }
};

template <class Unit>
void forward_pairs_tile(const AttentionGroup& group, const PackedKeys& keys, const AttentionForward& result,
                        int64_t first, int64_t rows, float* scratch) {
  [[maybe_unused]] const typename Unit::Scope scope;
  const Tile tile(group, first, rows);
  const bool exact = scales_exactly(group.scale);
  float* const columns = scratch;
  auto* const queries = reinterpret_cast<uint32_t*>(columns + group.size * tile.width);
  uint32_t* const pairs = queries + padded_depth(group.size) / 2 * tile.width;
  if (group.narrow_query.data != nullptr) {
    pack_narrow_columns<Unit>(tile, group.narrow_query, group.size, exact ? group.scale : 1.0f, queries);
  } else {
    pack_columns(tile, group.query, group.size, exact ? group.scale : 1.0f, columns);
    pack_pairs<Unit>(columns, group.size, tile.width, queries);
  }
  forward_tile(tile, PairsForward<Unit>{keys, queries, pairs, exact ? 1.0f : group.scale, result.ahead}, result,
               reinterpret_cast<float*>(pairs + kBlockKeys / 2 * tile.width));
}

// Rows of the tile (rows, padded(columns)) as pairs of rows, without what is not finite. Returns whether all was.
template <class Unit>
bool pack_tile_rows(const Tile& tile, const float* rows, int64_t columns, float* spare, uint32_t* to) {
  const int64_t stride = padded(columns);
  if (all_finite(rows, stride, 1, tile.rows, stride)) {
    pack_pairs<Unit>(rows, tile.rows, stride, to);
    return true;
  }
  for (int64_t n = 0; n < tile.rows * stride; ++n) spare[n] = std::isfinite(rows[n]) ? rows[n] : 0.0f;
  pack_pairs<Unit>(spare, tile.rows, stride, to);
  return false;
}

// sums (keys, stride) += what is not finite in the tile's rows times its lines, for the keys that its rows attend to.
inline void add_special_rows(const Tile& tile, const Block& block, const float* rows, int64_t columns, bool partial,
                             const Bits& bits, const float* lines, float factor, float* sums) {
  const int64_t stride = padded(columns);
  for (int64_t r = 0; r < tile.rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const float value = rows[r * stride + c];
      if (std::isfinite(value)) continue;
      for (int64_t j = 0; j < block.count; ++j) {
        if (partial && (bits.word[j / 32][r] >> (j % 32) & 1u) == 0) continue;
        sums[j * stride + c] += lines[j * tile.width + r] * factor * value;
      }
    }
  }
}

template <class Unit>
struct PairsBackward {
  static constexpr bool kRounds = true;

  const PackedKeys& keys;
  const Workspace& w;
  float scale;                                 // of the products, where it is not in the queries
  uint32_t *query_columns, *d_output_columns;  // (padded_depth(D) / 2, width), (padded_depth(Dv) / 2, width)
  uint32_t *query_rows, *d_output_rows;        // (32, padded(D)), (32, padded(Dv)): pairs of queries
  uint32_t* pairs;                             // (32, width)
  uint16_t* lines;                             // (64, 64)
  bool query_finite = true, d_output_finite = true;

  PairsBackward(const Tile& tile, const PackedKeys& packed, const AttentionBackward& gradients,
                const Workspace& workspace, float product_scale, float* scratch)
      : keys(packed), w(workspace), scale(product_scale) {
    const AttentionGroup& g = tile.group;
    query_columns = reinterpret_cast<uint32_t*>(scratch);
    d_output_columns = query_columns + padded_depth(g.size) / 2 * tile.width;
    query_rows = d_output_columns + padded_depth(g.value_size) / 2 * tile.width;
    d_output_rows = query_rows + kBlockKeys / 2 * padded(g.size);
    pairs = d_output_rows + kBlockKeys / 2 * padded(g.value_size);
    lines = reinterpret_cast<uint16_t*>(pairs + kBlockKeys / 2 * tile.width);
    auto* const spare = reinterpret_cast<float*>(lines + kBlockKeys * kBlockKeys);
    pack_pairs<Unit>(w.query_columns, g.size, tile.width, query_columns);
    pack_pairs<Unit>(w.d_output_columns, g.value_size, tile.width, d_output_columns);
    if (gradients.d_key != nullptr) query_finite = pack_tile_rows<Unit>(tile, w.query_rows, g.size, spare, query_rows);
    if (gradients.d_value != nullptr) {
      d_output_finite = pack_tile_rows<Unit>(tile, w.d_output_rows, g.value_size, spare, d_output_rows);
    }
  }

  void multiply_keys(const Tile& tile, const Block& block, float* scores) const {
    multiply_rows<Unit>(tile, block, keys.key, tile.group.size, query_columns, scores);
    scale_lines(scores, block.count, tile.width, scale);
  }

  void multiply_values(const Tile& tile, const Block& block, float* d_weights) const {
    multiply_rows<Unit>(tile, block, keys.value, tile.group.value_size, d_output_columns, d_weights);
  }

  // sums (keys, columns) += lines (keys, queries) times the tile's rows.
  void add_rows(const Tile& tile, const Block& block, const uint32_t* rows, int64_t columns, float* sums) const {
    const int64_t stride = padded(columns);
    Unit::template multiply<Into::added>({.c = sums,
                                          .c_row = stride,
                                          .a = lines,
                                          .a_row = kBlockKeys,
                                          .x = rows,
                                          .x_row = stride,
                                          .rows = block.count,
                                          .depth = depth_of<Unit>(tile.rows),
                                          .n = stride});
  }

  void add_to_queries(const Tile& tile, const Block& block, bool partial, const Bits& bits) const {
    pack_pairs<Unit>(w.d_scores, block.count, tile.width, pairs);
    multiply_columns<Unit, Into::added>(tile, block, keys.key, tile.group.size, pairs, nullptr, w.d_query);
    add_special(tile, block, keys.key, partial, bits, w.d_scores, w.d_query);
  }

  void add_to_keys(const Tile& tile, const AttentionBackward& gradients, const Block& block, bool partial,
                   const Bits& bits) const {
    const AttentionGroup& g = tile.group;
    if (gradients.d_value != nullptr) {
      float* const sums = gradients.d_value + block.from * padded(g.value_size);
      round_lines(w.scores, block.count, tile.width, 1.0f, lines);
      add_rows(tile, block, d_output_rows, g.value_size, sums);
      if (!d_output_finite) {
        add_special_rows(tile, block, w.d_output_rows, g.value_size, partial, bits, w.scores, 1.0f, sums);
      }
    }
    if (gradients.d_key != nullptr) {
      float* const sums = gradients.d_key + block.from * padded(g.size);
      round_lines(w.d_scores, block.count, tile.width, scale, lines);
      add_rows(tile, block, query_rows, g.size, sums);
      if (!query_finite) add_special_rows(tile, block, w.query_rows, g.size, partial, bits, w.d_scores, scale, sums);
    }
  }
};

template <class Unit>
void backward_pairs_tile(const AttentionGroup& group, const PackedKeys& keys, const AttentionBackward& gradients,
                         int64_t first, int64_t rows, float* scratch) {
  [[maybe_unused]] const typename Unit::Scope scope;
  const Tile tile(group, first, rows);
  const bool exact = scales_exactly(group.scale);
  Workspace w(tile, gradients, scratch);
  prepare(tile, gradients, exact ? group.scale : 1.0f, w);
  const PairsBackward<Unit> unit(tile, keys, gradients, w, exact ? 1.0f : group.scale,
                                 scratch + kernels::attention_backward_scratch(group));
  backward_tile(tile, unit, gradients, w);
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
