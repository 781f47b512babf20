// The fused backward pass of one tile. The weights are computed again from logsumexp, so nothing of size L * S is
// stored. The unit that multiplies is a parameter.
//   dP = dO V^T, dS = P * (dP - rowsum(dO * O)), dV += P^T dO, dK += dS^T Q, dQ += dS K (all scaled as in forward).
#if defined(HEED_KERNELS_ATTENTION_BACKWARD_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_BACKWARD_BACKWARD_INL_H_
#undef HEED_KERNELS_ATTENTION_BACKWARD_BACKWARD_INL_H_
#else
#define HEED_KERNELS_ATTENTION_BACKWARD_BACKWARD_INL_H_
#endif

#include <algorithm>

#include "kernels/attention/backward/backward.h"
#include "kernels/attention/tile/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

using kernels::StridedRows;
using kernels::TileGradients;

// Scratch of a tile; each row of it starts on a cache line.
struct BackwardScratch {
  float *query_columns, *d_output_columns;  // pack_queries(), and (Dv, width)
  float *query_rows, *d_output_rows;        // (rows, padded(D)), scaled, and (rows, padded(Dv))
  float* d_query;                           // (D, width); of additive scores first (rows, padded(D))
  float* spare;                             // (max(64, Dv), width): a bias tile, before that the output's columns
  float *scores, *d_scores;                 // (64, width)
  ScoreSlopes slopes;                       // where the group has score functions
  HWY_ALIGN float origin[kTileQueries];     // logsumexp
  HWY_ALIGN float mean[kTileQueries];       // rowsum(dO * O)

  BackwardScratch(const Tile& tile, const TileGradients& gradients, float* memory) {
    const int64_t d = tile.group.size, dv = tile.group.value_size, width = tile.width;
    query_columns = memory;
    d_output_columns = query_columns + packed_queries(tile.group, width);
    query_rows = d_output_columns + dv * width;
    d_output_rows = query_rows + kTileQueries * padded(d);
    d_query = d_output_rows + kTileQueries * padded(dv);
    spare = d_query + kTileQueries * padded(d);
    scores = spare + std::max(kBlockKeys, dv) * width;
    d_scores = scores + kBlockKeys * width;
    if (tile.group.stage_count == 0) return;
    slopes.by_score = d_scores + kBlockKeys * width;
    slopes.spare = slopes.by_score + kBlockKeys * width;
    if (gradients.d_table == nullptr) return;
    slopes.by_entry = slopes.spare + kBlockKeys * width;
    slopes.entry = reinterpret_cast<int32_t*>(slopes.by_entry + kBlockKeys * width);
    slopes.stage = gradients.table_stage;
  }
};

// The tile's rows, scaled and contiguous, padded with zeros.
inline void copy_tile_rows(const Tile& tile, const StridedRows<const float>& source, int64_t columns, float scale,
                           float* to) {
  const int64_t stride = padded(columns);
  for (int64_t r = 0; r < tile.rows; ++r, to += stride) {
    const float* const from = source.at(tile.head[r], tile.query[r]);
    int64_t c = 0;
    if (source.column == 1) {
      for (; c + kLanes <= columns; c += kLanes) hn::Store(hn::Mul(hn::LoadU(kF, from + c), all(scale)), kF, to + c);
    }
    for (; c < columns; ++c) to[c] = from[c * source.column] * scale;
    for (; c < stride; ++c) to[c] = 0.0f;
  }
}

// Packs the tile's operands; `scale` goes into the queries.
inline void prepare(const Tile& tile, const TileGradients& gradients, float scale, BackwardScratch& w) {
  const AttentionGroup& g = tile.group;
  pack_queries(tile, scale, w.query_columns);
  pack_columns(tile, gradients.d_output, g.value_size, 1.0f, w.d_output_columns);
  pack_columns(tile, gradients.output, g.value_size, 1.0f, w.spare);
  const bool rows = gradients.d_key != nullptr || g.additive.data != nullptr;
  if (rows) copy_tile_rows(tile, g.query, g.size, scale, w.query_rows);
  if (gradients.d_value != nullptr) copy_tile_rows(tile, gradients.d_output, g.value_size, 1.0f, w.d_output_rows);
  // Lanes beyond the rows repeat the first query. Their weights are 0: bf16 units multiply them too, by rows of zeros,
  // and the exponential of a score that nothing is subtracted from can be an infinity.
  for (int64_t r = 0; r < tile.width; ++r) {
    w.origin[r] = r < tile.rows ? *gradients.logsumexp.at(tile.head[r], tile.query[r]) : -kMinusInfinity;
  }
  for (int64_t lane = 0; lane < tile.width; lane += kLanes) {
    FV sum = hn::Zero(kF);
    for (int64_t d = 0; d < g.value_size; ++d) {
      const int64_t at = d * tile.width + lane;
      sum = fma(hn::Load(kF, w.d_output_columns + at), hn::Load(kF, w.spare + at), sum);
    }
    hn::Store(sum, kF, w.mean + lane);
  }
}

// differentiate() for the vector of lanes at `lane` and kKeys keys from j on.
template <bool kRounds, bool kDropout, int kKeys>
HWY_INLINE void differentiate_keys(const Tile& tile, const Bits& kept, const BackwardScratch& w, int64_t lane,
                                   int64_t j) {
  const FV dropout_scale = all(tile.group.dropout_scale);
  const FV origin = hn::Load(kF, w.origin + lane), mean = hn::Load(kF, w.mean + lane);
  float* const scores = w.scores + j * tile.width + lane;
  float* const d_scores = w.d_scores + j * tile.width + lane;
  FV weights[kKeys];
  HWY_UNROLL(8)
  for (int n = 0; n < kKeys; ++n) weights[n] = hn::Sub(hn::Load(kF, scores + n * tile.width), origin);
  if constexpr (kRounds) {
    rough_weights_of(weights);
  } else {
    weights_of(weights);
  }
  HWY_UNROLL(8)
  for (int n = 0; n < kKeys; ++n) {
    float* const s = scores + n * tile.width;
    float* const d = d_scores + n * tile.width;
    // Selected, not multiplied: behind a mask there may be a NaN.
    const auto masked = hn::Eq(hn::Load(kF, s), all(kMinusInfinity));
    FV weight = hn::IfThenZeroElse(masked, weights[n]);
    FV d_weight = hn::Load(kF, d);
    if (kDropout) d_weight = hn::IfThenElseZero(test_bit(kept.word, j + n, lane), hn::Mul(d_weight, dropout_scale));
    hn::Store(hn::IfThenZeroElse(masked, hn::Mul(weight, hn::Sub(d_weight, mean))), kF, d);
    if (kDropout) weight = hn::IfThenElseZero(test_bit(kept.word, j + n, lane), hn::Mul(weight, dropout_scale));
    hn::Store(weight, kF, s);
  }
}

// The scores become weights after dropout, and the gradient of the weights in d_scores becomes that of the scores.
template <bool kRounds, bool kDropout>
void differentiate(const Tile& tile, const Block& block, const Bits& kept, const BackwardScratch& w) {
  for (int64_t lane = 0; lane < tile.width; lane += kLanes) {
    int64_t j = 0;
    for (; j + kExpsInStep <= block.count; j += kExpsInStep) {
      differentiate_keys<kRounds, kDropout, kExpsInStep>(tile, kept, w, lane, j);
    }
    for (; j < block.count; ++j) differentiate_keys<kRounds, kDropout, 1>(tile, kept, w, lane, j);
  }
}

// Adds the gradients of sixteen rows to the table of a score function, in double precision. The rows often use
// neighbouring entries (tables by position) or all the same one (tables by head). What goes to one entry is first added
// up row by row in `sums`, until another entry is used.
struct TableSums {
  double* table;
  int32_t open = -1;  // the entry that `sums` belongs to
  HWY_ALIGN double sums[kernels::kStripe] = {};

  // Adds `sums` in one fixed tree, whatever the vector width.
  void close() {
    if (open < 0) return;
    for (int64_t half = kernels::kStripe / 2; half > 0; half /= 2) {
      for (int64_t n = 0; n < half; ++n) sums[n] += sums[n + half];
    }
    table[open] += sums[0];
    std::fill_n(sums, kernels::kStripe, 0.0);
    open = -1;
  }

  void add(const float* d_scores, const float* slopes, const int32_t* entry, int64_t rows) {
    constexpr int64_t kStep = static_cast<int64_t>(hn::MaxLanes(kD));
    HWY_ALIGN double products[kernels::kStripe];
    for (int64_t n = 0; n < kernels::kStripe; n += kStep) {
      const auto d = hn::PromoteTo(kD, hn::Load(kHalf, d_scores + n));
      const auto product = hn::Mul(d, hn::PromoteTo(kD, hn::Load(kHalf, slopes + n)));
      hn::Store(hn::IfThenZeroElse(hn::Eq(d, hn::Zero(kD)), product), kD,
                products + n);  // masked: its slope may be NaN
    }
    bool same = true, next = true;
    for (int64_t n = 0; n < kernels::kStripe; n += kLanes) {
      const auto here = hn::Load(kI, entry + n), first = hn::Set(kI, entry[0]);
      same = same && hn::AllTrue(kI, hn::Eq(here, first));
      next = next && hn::AllTrue(kI, hn::Eq(here, hn::Add(first, hn::Iota(kI, static_cast<int32_t>(n)))));
    }
    if (rows == kernels::kStripe && same) {
      if (entry[0] != open) close();
      open = entry[0];
      add_to(sums, products);
    } else if (rows == kernels::kStripe && next) {
      add_to(table + entry[0], products);
    } else {
      for (int64_t n = 0; n < rows; ++n) table[entry[n]] += products[n];
    }
  }

 private:
  static constexpr hn::ScalableTag<double> kD{};
  static constexpr hn::Rebind<float, hn::ScalableTag<double>> kHalf{};

  static void add_to(double* to, const double* products) {
    for (int64_t n = 0; n < kernels::kStripe; n += static_cast<int64_t>(hn::MaxLanes(kD))) {
      hn::StoreU(hn::Add(hn::LoadU(kD, to + n), hn::Load(kD, products + n)), kD, to + n);
    }
  }
};

inline void add_to_table(const Tile& tile, const Block& block, const BackwardScratch& w, double* d_table) {
  for (int64_t lane = 0; lane < tile.rows; lane += kernels::kStripe) {
    TableSums sums{d_table};
    for (int64_t j = 0; j < block.count; ++j) {
      const int64_t at = j * tile.width + lane;
      sums.add(w.d_scores + at, w.slopes.by_entry + at, w.slopes.entry + at,
               std::min(kernels::kStripe, tile.rows - lane));
    }
    sums.close();
  }
}

inline void write_query_gradient(const Tile& tile, const TileGradients& gradients, const BackwardScratch& w) {
  const AttentionGroup& g = tile.group;
  float* rows[kTileQueries];
  for (int64_t r = 0; r < tile.rows; ++r) rows[r] = gradients.d_query.at(tile.head[r], tile.query[r]);
  if (g.additive.data != nullptr) {
    HWY_ALIGN float lanes[kLanes];
    for (int64_t r = 0; r < tile.rows; ++r) {
      for (int64_t d = 0; d < g.size; d += kLanes) {
        hn::Store(canonical(hn::Load(kF, w.d_query + r * padded(g.size) + d)), kF, lanes);
        std::copy_n(lanes, std::min(kLanes, g.size - d), rows[r] + d);
      }
    }
  } else {
    unpack_columns(tile, w.d_query, g.size, rows,
                   [&](FV d, int64_t) HWY_ATTR { return canonical(hn::Mul(d, all(g.scale))); });
  }
  if (gradients.d_sink.data == nullptr) return;
  HWY_ALIGN float sinks[kTileQueries];
  for (int64_t r = 0; r < tile.width; ++r) sinks[r] = *g.sinks.at(tile.head[r], 0);
  for (int64_t lane = 0; lane < tile.width; lane += kLanes) {
    const FV sink = hn::Load(kF, sinks + lane);
    const FV weight = attention_exp(hn::Sub(sink, hn::Load(kF, w.origin + lane)));
    const FV d_sink = hn::Neg(hn::Mul(weight, hn::Load(kF, w.mean + lane)));
    hn::Store(hn::IfThenZeroElse(hn::Eq(sink, all(kMinusInfinity)), d_sink), kF, sinks + lane);
  }
  for (int64_t r = 0; r < tile.rows; ++r) *gradients.d_sink.at(tile.head[r], tile.query[r]) = sinks[r];
}

// The unit holds the tile's queries and output gradients and does the products:
//   multiply_keys(tile, block, scores)       scores (64, width) = keys of the block times the scaled queries
//   multiply_values(tile, block, d_weights)  d_weights (64, width) = values of the block times the output's gradient
//   add_to_queries(tile, block, partial, bits)       d_query of the scratch += dS K
//   add_to_keys(tile, gradients, block, partial, bits)  what is wanted of dV += P^T dO and dK += dS^T Q
//     P in scores and dS in d_scores of the scratch; where `partial`, only of the pairs in `bits`
//   kRounds                                  whether it rounds those to bf16 before it multiplies them
template <class Unit>
HWY_INLINE void backward_tile_with(const Tile& tile, const Unit& unit, const TileGradients& gradients,
                                   const BackwardScratch& w) {
  const AttentionGroup& group = tile.group;
  const int64_t d_query_floats = gradients.d_query.data != nullptr ? tile.width * padded(group.size) : 0;
  if (gradients.parts.first) {
    std::fill_n(w.d_query, d_query_floats, 0.0f);
  } else {
    std::copy_n(gradients.parts.sums, d_query_floats, w.d_query);
  }
  float* score_rows[kTileQueries];
  if (gradients.d_scores.data != nullptr) {
    for (int64_t r = 0; r < tile.rows; ++r) {
      score_rows[r] = gradients.d_scores.data + r * gradients.d_scores.row;
      std::fill_n(score_rows[r], gradients.key_end - gradients.key_begin, 0.0f);
    }
  }

  kernels::KeyTurns* const turns = gradients.turns;
  const int64_t first = std::max(tile.begin / kBlockKeys * kBlockKeys, gradients.key_begin);
  const int64_t end = std::min(tile.end, gradients.key_end);
  const auto skip = [&](int64_t from, int64_t to) {
    for (int64_t block = from / kBlockKeys; turns != nullptr && block * kBlockKeys < to; ++block) {
      turns->begin(block);
      turns->end(block);
    }
  };
  skip(0, first < end ? first : gradients.key_end);
  for (int64_t begin = first; begin < end; begin += kBlockKeys) {
    const Block block = clip(tile, begin, gradients.key_begin, gradients.key_end);
    Bits bits, kept;
    const Coverage coverage = find_attended(tile, block, bits);
    if (coverage == Coverage::none) {
      skip(begin, begin + 1);
      continue;
    }
    unit.multiply_keys(tile, block, w.scores);
    const bool partial = modify_scores(tile, block, coverage, w.scores, w.spare, w.slopes, bits);
    unit.multiply_values(tile, block, w.d_scores);
    if (group.dropout_threshold > 0) {
      find_kept(tile, block, kept);
      differentiate<Unit::kRounds, true>(tile, block, kept, w);
    } else {
      differentiate<Unit::kRounds, false>(tile, block, kept, w);
    }
    if (gradients.d_scores.data != nullptr) {
      float* to[kTileQueries];
      for (int64_t r = 0; r < tile.rows; ++r) to[r] = score_rows[r] + (block.from - gradients.key_begin);
      unpack_columns(tile, w.d_scores, block.count, to, [](FV d, int64_t) HWY_ATTR { return canonical(d); });
    }
    if (gradients.d_table != nullptr) add_to_table(tile, block, w, gradients.d_table);
    if (group.stage_count > 0) {
      for (int64_t n = 0; n < block.count * tile.width; n += kLanes) {
        // Masked pairs hold 0 already; a slope that is NaN must not change that.
        const FV d = hn::Load(kF, w.d_scores + n);
        const FV scaled = hn::Mul(d, hn::Load(kF, w.slopes.by_score + n));
        hn::Store(hn::IfThenZeroElse(hn::Eq(d, hn::Zero(kF)), scaled), kF, w.d_scores + n);
      }
    }
    if (gradients.d_query.data != nullptr) unit.add_to_queries(tile, block, partial, bits);
    if (turns != nullptr) turns->begin(begin / kBlockKeys);
    unit.add_to_keys(tile, gradients, block, partial, bits);
    if (turns != nullptr) turns->end(begin / kBlockKeys);
  }
  if (first < end) skip((end + kBlockKeys - 1) / kBlockKeys * kBlockKeys, gradients.key_end);
  if (!gradients.parts.last) {
    std::copy_n(w.d_query, d_query_floats, gradients.parts.sums);
  } else if (gradients.d_query.data != nullptr) {
    write_query_gradient(tile, gradients, w);
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
