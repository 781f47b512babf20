// The forward and backward pass of one tile on any unit that multiplies bf16 pairs, and the packing they need.
// bf16.h says what is multiplied; units-inl.h has the units.
#if defined(HEED_KERNELS_ATTENTION_BF16_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_BF16_TILE_INL_H_
#undef HEED_KERNELS_ATTENTION_BF16_TILE_INL_H_
#else
#define HEED_KERNELS_ATTENTION_BF16_TILE_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "kernels/attention/backward/backward-inl.h"
#include "kernels/attention/bf16/pairs-inl.h"
#include "kernels/attention/engine.h"
#include "kernels/attention/forward/forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

using kernels::Bf16Operands;
using kernels::Bf16Panels;

// C (rows, n) = A (rows, depth) X (depth, n), as bf16.h has it.
struct PairProduct {
  float* c;
  int64_t c_row;
  const uint16_t* a;  // rows up to a multiple of 16 may be read
  int64_t a_row;
  const uint32_t* x;
  int64_t x_row;
  int64_t rows, depth, n;          // depth a multiple of the unit's step, n of 16
  const float* factors = nullptr;  // Into::scaled: n numbers
  kernels::Prefetch* prefetch = nullptr;
};

template <class Unit>
HWY_INLINE int64_t depth_of(int64_t count) {
  return (count + Unit::kStep - 1) / Unit::kStep * Unit::kStep;
}

// A scale that is a power of two changes no digit of a bf16 number, so it goes into the queries. Any other scale is
// applied to the products.
inline bool scales_exactly(float scale) {
  int exponent = 0;
  return std::frexp(scale, &exponent) == 0.5f && exponent > -32 && exponent < 32;
}

inline void scale_lines(float* lines, int64_t count, int64_t width, float factor) {
  if (factor == 1.0f) return;
  for (int64_t n = 0; n < count * width; n += kLanes)
    hn::Store(hn::Mul(hn::Load(kF, lines + n), all(factor)), kF, lines + n);
}

// scores (64, width) = rows of the block times the packed queries.
template <class Unit>
HWY_INLINE void multiply_rows(const Tile& tile, const Block& block, const Bf16Panels& packed, int64_t depth,
                              const uint32_t* lanes, float* scores, kernels::Prefetch* prefetch = nullptr) {
  Unit::template multiply<Into::fresh>({.c = scores,
                                        .c_row = tile.width,
                                        .a = packed.rows + block.from * packed.row,
                                        .a_row = packed.row,
                                        .x = lanes,
                                        .x_row = tile.width,
                                        .rows = block.count,
                                        .depth = depth_of<Unit>(depth),
                                        .n = tile.width,
                                        .prefetch = prefetch});
}

// sums (columns, width) += the block's NaN and infinities times `lanes` (64, width), where attended.
inline void add_non_finite(const Tile& tile, const Block& block, const Bf16Panels& packed, bool partial,
                           const Bits& bits, const float* lanes, float* sums) {
  const int64_t index = block.from / kBlockKeys;
  for (int64_t n = packed.non_finite_begin[index]; n < packed.non_finite_begin[index + 1]; ++n) {
    const kernels::NonFinite& number = packed.non_finite[n];
    const int64_t j = number.key - block.from;
    if (j < 0 || j >= block.count) continue;
    for (int64_t lane = 0; lane < tile.width; lane += kLanes) {
      float* const to = sums + number.column * tile.width + lane;
      const FV before = hn::Load(kF, to);
      const FV after = fma(hn::Load(kF, lanes + j * tile.width + lane), all(number.value), before);
      hn::Store(partial ? hn::IfThenElse(test_bit(bits.word, j, lane), after, before) : after, kF, to);
    }
  }
}

// Pairs of columns (padded_depth(columns) / 2, width) of bf16 rows, times `factor`, a power of two. Both numbers of a
// pair are transposed together, as if they were one f32.
template <class Unit>
HWY_INLINE void pack_bf16_columns(const Tile& tile, const kernels::StridedRows<const uint16_t>& source, int64_t columns,
                                  float factor, uint32_t* to) {
  const float* rows[kTileQueries];
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

// The output as bf16. Pairs of columns are transposed together, as if they were one f32.
inline void write_bf16_output(const Tile& tile, const kernels::StridedRows<uint16_t>& output, const State& total,
                              const float* factors) {
  const int64_t columns = tile.group.value_size, width = tile.width;
  float* const o = total.output;
  for (int64_t c = 0; c < columns; c += 2) {
    for (int64_t lane = 0; lane < width; lane += kLanes) {
      const FV factor = hn::Load(kF, factors + lane);
      FV low = hn::Zero(kF), high = hn::Zero(kF);  // no key at all: 0, unless a NaN sink makes the row NaN
      if (!total.empty) low = hn::Load(kF, o + c * width + lane), high = hn::Load(kF, o + (c + 1) * width + lane);
      const UV pair = pair_of(canonical(hn::Mul(low, factor)), canonical(hn::Mul(high, factor)));
      hn::Store(hn::BitCast(kF, pair), kF, o + c / 2 * width + lane);
    }
  }
  float* rows[kTileQueries];
  for (int64_t r = 0; r < tile.rows; ++r) rows[r] = reinterpret_cast<float*>(output.at(tile.head[r], tile.query[r]));
  unpack_columns(tile, o, columns / 2, rows, [](FV pair, int64_t) HWY_ATTR { return pair; });
}

// sums (columns, width) (+)= the block, transposed, times the pairs of lines (64, width).
template <class Unit, Into kInto>
HWY_INLINE void multiply_columns(const Tile& tile, const Block& block, const Bf16Panels& packed, int64_t columns,
                                 const uint32_t* pairs, const float* factors, float* sums,
                                 kernels::Prefetch* prefetch = nullptr) {
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
       .prefetch = prefetch});
}

template <class Unit>
struct Bf16Forward {
  static constexpr bool kRounds = true;

  const Bf16Operands& keys;
  const uint32_t* queries;  // (padded_depth(D) / 2, width)
  uint32_t* pairs;          // (32, width)
  float scale;              // of the products
  kernels::Prefetch* prefetch;

  void multiply_keys(const Tile& tile, const Block& block, float* scores) const {
    multiply_rows<Unit>(tile, block, keys.key, tile.group.size, queries, scores, prefetch);
    scale_lines(scores, block.count, tile.width, scale);
  }

  static HWY_INLINE UV pair(FV low, FV high) { return Unit::pair(low, high); }

  // Null where the weights are needed as f32 as well.
  [[nodiscard]] uint32_t* weights_as_pairs(const Tile& tile, const Block& block) const {
    const int64_t* const non_finite = keys.value.non_finite_begin + block.from / kBlockKeys;
    return tile.group.dropout_threshold == 0 && non_finite[0] == non_finite[1] ? pairs : nullptr;
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
      multiply_columns<Unit, Into::fresh>(tile, block, keys.value, columns, pairs, factors, state.output, prefetch);
    } else if (grew) {
      multiply_columns<Unit, Into::scaled>(tile, block, keys.value, columns, pairs, factors, state.output, prefetch);
    } else {
      multiply_columns<Unit, Into::added>(tile, block, keys.value, columns, pairs, factors, state.output, prefetch);
    }
    state.empty = false;
    add_non_finite(tile, block, keys.value, partial, bits, weights, state.output);
  }

  static void write(const Tile& tile, const TileOutputs& outputs, const State& total, const float* factors) {
    if (outputs.bf16_output.data != nullptr) {
      write_bf16_output(tile, outputs.bf16_output, total, factors);
    } else {
      write_output(tile, outputs, total, factors);
    }
  }
};

template <class Unit>
void forward_bf16_tile(const AttentionGroup& group, const kernels::Operands& operands, const TileOutputs& outputs,
                       int64_t first, int64_t rows, float* scratch) {
  [[maybe_unused]] const typename Unit::Scope scope;
  const Tile tile(group, first, rows);
  const bool exact = scales_exactly(group.scale);
  float* const columns = scratch;
  auto* const queries = reinterpret_cast<uint32_t*>(columns + group.size * tile.width);
  uint32_t* const pairs = queries + padded_depth(group.size) / 2 * tile.width;
  if (group.bf16_query.data != nullptr) {
    pack_bf16_columns<Unit>(tile, group.bf16_query, group.size, exact ? group.scale : 1.0f, queries);
  } else {
    pack_columns(tile, group.query, group.size, exact ? group.scale : 1.0f, columns);
    pack_pairs<Unit>(columns, group.size, tile.width, queries);
  }
  const Bf16Forward<Unit> unit{operands.bf16.operands, queries, pairs, exact ? 1.0f : group.scale, outputs.prefetch};
  forward_tile_with(tile, unit, outputs, reinterpret_cast<float*>(pairs + kBlockKeys / 2 * tile.width));
}

// Rows of the tile (rows, padded(columns)) as pairs of rows; NaN and infinities become 0. Returns whether there were
// none.
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

// sums (keys, stride) += the NaN and infinities of the tile's rows times its lines, for the keys that its rows attend
// to.
inline void add_non_finite_rows(const Tile& tile, const Block& block, const float* rows, int64_t columns, bool partial,
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
struct Bf16Backward {
  static constexpr bool kRounds = true;

  const Bf16Operands& keys;
  const BackwardScratch& w;
  float scale;                                 // of the products, where it is not in the queries
  uint32_t *query_columns, *d_output_columns;  // (padded_depth(D) / 2, width), (padded_depth(Dv) / 2, width)
  uint32_t *query_rows, *d_output_rows;        // (32, padded(D)), (32, padded(Dv)): pairs of queries
  uint32_t* pairs;                             // (32, width)
  uint16_t* lines;                             // (64, 64)
  bool query_finite = true, d_output_finite = true;

  Bf16Backward(const Tile& tile, const Bf16Operands& packed, const TileGradients& gradients,
               const BackwardScratch& workspace, float product_scale, float* scratch)
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
    add_non_finite(tile, block, keys.key, partial, bits, w.d_scores, w.d_query);
  }

  void add_to_keys(const Tile& tile, const TileGradients& gradients, const Block& block, bool partial,
                   const Bits& bits) const {
    const AttentionGroup& g = tile.group;
    if (gradients.d_value != nullptr) {
      float* const sums = gradients.d_value + block.from * padded(g.value_size);
      round_lines(w.scores, block.count, tile.width, 1.0f, lines);
      add_rows(tile, block, d_output_rows, g.value_size, sums);
      if (!d_output_finite) {
        add_non_finite_rows(tile, block, w.d_output_rows, g.value_size, partial, bits, w.scores, 1.0f, sums);
      }
    }
    if (gradients.d_key != nullptr) {
      float* const sums = gradients.d_key + block.from * padded(g.size);
      round_lines(w.d_scores, block.count, tile.width, scale, lines);
      add_rows(tile, block, query_rows, g.size, sums);
      if (!query_finite) add_non_finite_rows(tile, block, w.query_rows, g.size, partial, bits, w.d_scores, scale, sums);
    }
  }
};

template <class Unit>
void backward_bf16_tile(const AttentionGroup& group, const kernels::Operands& operands, const TileGradients& gradients,
                        int64_t first, int64_t rows, float* scratch) {
  [[maybe_unused]] const typename Unit::Scope scope;
  const Tile tile(group, first, rows);
  const bool exact = scales_exactly(group.scale);
  BackwardScratch w(tile, gradients, scratch);
  prepare(tile, gradients, exact ? group.scale : 1.0f, w);
  const Bf16Backward<Unit> unit(tile, operands.bf16.operands, gradients, w, exact ? 1.0f : group.scale,
                                scratch + kernels::backward_scratch(group));
  backward_tile_with(tile, unit, gradients, w);
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
