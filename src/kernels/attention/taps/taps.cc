// Taps of one tile: the weights are computed again, block by block, and looked at.
#include "kernels/attention/taps/taps.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/taps/taps.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <bit>

#include "kernels/attention/tile/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

using kernels::TileTaps;

// What is gathered for each lane over the blocks of keys.
struct RowTaps {
  HWY_ALIGN float origin[kTileQueries];  // logsumexp
  HWY_ALIGN float entropy[kTileQueries];
  HWY_ALIGN float threshold[kTileQueries];  // a weight must exceed it to be one of the top weights
  HWY_ALIGN float cell[kTileQueries];       // of the column of cells that is open
  int64_t cell_column = 0, cell_end = 0;    // that column, and where it ends
  // The top weights, descending, and their keys: rows of `top_row` numbers, each after a sentinel, an infinity that no
  // weight replaces.
  int64_t top_row;
  float* top_weights;
  int32_t* top_keys;

  RowTaps(const Tile& tile, const TileTaps& taps, float* memory)
      : top_row(kernels::top_row_of(taps.top)),
        top_weights(memory),
        top_keys(reinterpret_cast<int32_t*>(memory + kTileQueries * top_row)) {
    for (int64_t r = 0; r < tile.width; ++r) {
      origin[r] = r < tile.rows ? *taps.logsumexp.at(tile.head[r], tile.query[r]) : 0.0f;
    }
    std::fill_n(entropy, kTileQueries, 0.0f);
    std::fill_n(threshold, kTileQueries, 0.0f);
    std::fill_n(cell, kTileQueries, 0.0f);
    std::fill_n(top_weights, kTileQueries * top_row, 0.0f);
    std::fill_n(top_keys, kTileQueries * top_row, -1);
    if (taps.top == 0) return;
    for (int64_t r = 0; r < kTileQueries; ++r) weights_of(r)[-1] = -kMinusInfinity;
  }
  [[nodiscard]] float* weights_of(int64_t r) const { return top_weights + r * top_row + kernels::kStripe; }
  [[nodiscard]] int32_t* keys_of(int64_t r) const { return top_keys + r * top_row + kernels::kStripe; }
};

// to_weights() for the vector of lanes at `lane` and kKeys keys from j on.
template <int kKeys>
HWY_INLINE void keys_to_weights(const Tile& tile, const TileTaps& taps, const Bits& kept, float* scores, int64_t lane,
                                int64_t j, RowTaps& g) {
  const FV origin = hn::Load(kF, g.origin + lane);
  const FV scale = all(tile.group.dropout_scale);
  float* const s = scores + j * tile.width + lane;
  FV below[kKeys], weight[kKeys];
  HWY_UNROLL(8)
  for (int n = 0; n < kKeys; ++n) weight[n] = below[n] = hn::Sub(hn::Load(kF, s + n * tile.width), origin);
  weights_of(weight);
  FV entropy = hn::Load(kF, g.entropy + lane);
  HWY_UNROLL(8)
  for (int n = 0; n < kKeys; ++n) {
    const auto masked = hn::Eq(hn::Load(kF, s + n * tile.width), all(kMinusInfinity));
    FV w = hn::IfThenZeroElse(masked, weight[n]), log = below[n];
    if (tile.group.dropout_threshold > 0) {
      w = hn::IfThenElseZero(test_bit(kept.word, j + n, lane), hn::Mul(w, scale));
      log = hn::Add(log, attention_log(scale));
    }
    hn::Store(w, kF, s + n * tile.width);
    if (taps.entropy.data != nullptr) {
      entropy = hn::IfThenElse(hn::Eq(w, hn::Zero(kF)), entropy, fma_negated(w, log, entropy));
    }
  }
  hn::Store(entropy, kF, g.entropy + lane);
}

// The scores become weights, and their entropy is added up: log w = score - logsumexp.
void to_weights(const Tile& tile, const Block& block, const TileTaps& taps, float* scores, RowTaps& g) {
  Bits kept;
  if (tile.group.dropout_threshold > 0) find_kept(tile, block, kept);
  for (int64_t lane = 0; lane < tile.width; lane += kLanes) {
    int64_t j = 0;
    for (; j + kExpsInStep <= block.count; j += kExpsInStep)
      keys_to_weights<kExpsInStep>(tile, taps, kept, scores, lane, j, g);
    for (; j < block.count; ++j) keys_to_weights<1>(tile, taps, kept, scores, lane, j, g);
  }
}

// Copies the block's column of each row that has a place in `rows`.
void copy_rows(const Tile& tile, const Block& block, const TileTaps& taps, const float* columns, float* const* rows) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    if (rows[r] == nullptr) continue;
    float* const to = rows[r] + (block.from - taps.key_begin);
    for (int64_t j = 0; j < block.count; ++j) {
      const float x = columns[j * tile.width + r];
      to[j] = x == x ? x : std::numeric_limits<float>::quiet_NaN();
    }
  }
}

// Keys come in ascending order and only a larger weight replaces another, so of equal weights the smaller key comes
// first. There is no branch: each place keeps its weight, or takes that of the place before it, or the new one.
inline void insert(float* best, int32_t* keys, int64_t places, float weight, int32_t key) {
  const FV w = all(weight);
  for (int64_t at = places - kLanes; at >= 0; at -= kLanes) {
    const FV here = hn::Load(kF, best + at), before = hn::LoadU(kF, best + at - 1);
    const auto moves = hn::Gt(w, here), from_before = hn::Gt(w, before);
    hn::Store(hn::IfThenElse(moves, hn::IfThenElse(from_before, before, w), here), kF, best + at);
    const auto key_here = hn::Load(kI, keys + at), key_before = hn::LoadU(kI, keys + at - 1);
    const auto moved = hn::IfThenElse(hn::RebindMask(kI, from_before), key_before, hn::Set(kI, key));
    hn::Store(hn::IfThenElse(hn::RebindMask(kI, moves), moved, key_here), kI, keys + at);
  }
}

// A lower bound of the top weights of a row: the k-th largest among the maxima of sixteen keys each. With it a row of
// 1,024 keys inserts about ten weights for its top 8, without it 39.
struct TopBound {
  static constexpr int64_t kMost = 16;  // the largest k that has a bound
  HWY_ALIGN float largest[kMost][kTileQueries] = {};

  void add(const Tile& tile, const Block& block, int64_t top, const float* weights) {
    for (int64_t lane = 0; lane < tile.width; lane += kLanes) {
      for (int64_t j = 0; j < block.count; j += 16) {
        FV next = hn::Load(kF, weights + j * tile.width + lane);
        for (int64_t n = j + 1; n < std::min(j + 16, block.count); ++n) {
          next = hn::Max(next, hn::Load(kF, weights + n * tile.width + lane));
        }
        for (int64_t n = 0; n < top; ++n) {
          const FV here = hn::Load(kF, largest[n] + lane);
          hn::Store(hn::Max(here, next), kF, largest[n] + lane);
          next = hn::Min(here, next);
        }
      }
    }
  }

  // The numbers next below the bounds: a weight must exceed them.
  void write(const Tile& tile, int64_t top, float* thresholds) const {
    for (int64_t r = 0; r < tile.rows; ++r) {
      const float bound = largest[top - 1][r];
      thresholds[r] = bound > 0 ? std::bit_cast<float>(std::bit_cast<uint32_t>(bound) - 1) : 0.0f;
    }
  }
};

void rank(const Tile& tile, const Block& block, const TileTaps& taps, const float* weights, RowTaps& g) {
  for (int64_t lane = 0; lane < tile.width; lane += kLanes) {
    FV threshold = hn::Load(kF, g.threshold + lane);
    for (int64_t j = 0; j < block.count; ++j) {
      const float* const w = weights + j * tile.width + lane;
      const auto larger_ones = hn::Gt(hn::Load(kF, w), threshold);
      if (hn::AllFalse(kF, larger_ones)) continue;
      uint8_t above[8] = {};
      hn::StoreMaskBits(kF, larger_ones, above);
      for (uint32_t left = above[0] | static_cast<uint32_t>(above[1]) << 8; left != 0; left &= left - 1) {
        const int64_t r = lane + std::countr_zero(left);
        if (r >= tile.rows) break;
        insert(g.weights_of(r), g.keys_of(r), padded(taps.top), w[r - lane], static_cast<int32_t>(block.from + j));
        g.threshold[r] = std::max(g.threshold[r], g.weights_of(r)[taps.top - 1]);
      }
      threshold = hn::Load(kF, g.threshold + lane);
    }
  }
}

// Adds the upper half of 2 * kHalf numbers to the lower half.
template <size_t kHalf>
HWY_INLINE void fold(float* lanes) {
  const hn::CappedTag<float, kHalf> d;
  for (size_t n = 0; n < kHalf; n += hn::Lanes(d)) {
    hn::Store(hn::Add(hn::Load(d, lanes + n), hn::Load(d, lanes + kHalf + n)), d, lanes + n);
  }
}

// Stripes of sixteen lanes are added, and the sixteen sums folded in one fixed tree, whatever the vector width.
void add_columns(const Tile& tile, const Block& block, const TileTaps& taps, const float* weights) {
  for (int64_t j = 0; j < block.count; ++j) {
    HWY_ALIGN float lanes[kernels::kStripe];
    for (int64_t part = 0; part < kernels::kStripe; part += kLanes) {
      FV sum = hn::Zero(kF);
      for (int64_t lane = part; lane < tile.rows; lane += kernels::kStripe) {
        const auto live = hn::FirstN(kF, static_cast<size_t>(std::min(kLanes, tile.rows - lane)));
        sum = hn::Add(sum, hn::IfThenElseZero(live, hn::Load(kF, weights + j * tile.width + lane)));
      }
      hn::Store(sum, kF, lanes + part);
    }
    fold<8>(lanes);
    fold<4>(lanes);
    taps.column_sums[block.from + j - taps.key_begin] += (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
  }
}

// Adds the open column of cells to the map.
void close_cells(const Tile& tile, const TileTaps& taps, RowTaps& g) {
  if (g.cell_end == 0) return;
  for (int64_t r = 0; r < tile.rows; ++r) {
    float& cell = taps.cells[r][g.cell_column];
    if (!taps.largest) {
      cell += g.cell[r];
    } else if (!(cell >= g.cell[r]) && cell == cell) {  // a NaN stays
      cell = g.cell[r];
    }
  }
  std::fill_n(g.cell, kTileQueries, 0.0f);
}

void add_cells(const Tile& tile, const Block& block, const TileTaps& taps, const float* weights, RowTaps& g) {
  for (int64_t j = 0; j < block.count;) {
    const int64_t key = block.from + j;
    if (key >= g.cell_end) {
      close_cells(tile, taps, g);
      // The column c with c S / C <= key < (c + 1) S / C, in whole numbers rounded down.
      int64_t column = key * taps.cell_columns / taps.all_keys;
      while ((column + 1) * taps.all_keys / taps.cell_columns <= key) ++column;
      g.cell_column = column;
      g.cell_end = (column + 1) * taps.all_keys / taps.cell_columns;
    }
    const int64_t end = std::min(block.count, g.cell_end - block.from);
    for (int64_t lane = 0; lane < tile.width; lane += kLanes) {
      FV cell = hn::Load(kF, g.cell + lane);
      for (int64_t n = j; n < end; ++n) {
        const FV w = hn::Load(kF, weights + n * tile.width + lane);
        if (taps.largest) {
          cell = hn::IfThenElse(hn::Or(hn::Ge(cell, w), hn::IsNaN(cell)), cell, w);
        } else {
          cell = hn::Add(cell, w);
        }
      }
      hn::Store(cell, kF, g.cell + lane);
    }
    j = end;
  }
}

void run_taps_tile(const AttentionGroup& group, const TileTaps& taps, int64_t first, int64_t rows, float* scratch) {
  const Tile tile(group, first, rows);
  float* const columns = scratch;  // pack_queries()
  float* const scores = columns + packed_queries(group, tile.width);
  float* const spare = scores + kBlockKeys * tile.width;
  RowTaps row_taps(tile, taps, spare + kBlockKeys * tile.width);
  if (taps.kept == nullptr) pack_queries(tile, group.scale, columns);
  for (int64_t r = 0; taps.rows != nullptr && r < rows; ++r) {
    if (taps.rows[r] != nullptr) std::fill_n(taps.rows[r], taps.key_end - taps.key_begin, 0.0f);
  }
  for (int64_t r = 0; taps.row_scores != nullptr && r < rows; ++r) {
    if (taps.row_scores[r] != nullptr) std::fill_n(taps.row_scores[r], taps.key_end - taps.key_begin, kMinusInfinity);
  }

  const auto each_block = [&](const auto& f) HWY_ATTR {
    const int64_t end = std::min(tile.end, taps.key_end);
    for (int64_t begin = std::max(tile.begin / kBlockKeys * kBlockKeys, taps.key_begin); begin < end;
         begin += kBlockKeys) {
      const Block block = clip(tile, begin, taps.key_begin, taps.key_end);
      Bits bits;
      const Coverage coverage = find_attended(tile, block, bits);
      if (coverage != Coverage::none)
        f(block, coverage, bits, taps.kept == nullptr ? scores : taps.kept + begin * tile.width);
    }
  };
  const auto look_at = [&](const Block& block, const float* weights) HWY_ATTR {
    if (taps.rows != nullptr) copy_rows(tile, block, taps, weights, taps.rows);
    if (taps.top > 0) rank(tile, block, taps, weights, row_taps);
    if (taps.column_sums != nullptr) add_columns(tile, block, taps, weights);
    if (taps.cells != nullptr) add_cells(tile, block, taps, weights, row_taps);
  };
  if (taps.kept != nullptr && taps.top > 0 && taps.top <= TopBound::kMost) {
    TopBound bound;
    each_block([&](const Block& block, Coverage, const Bits&, float* kept) HWY_ATTR {
      if (taps.row_scores != nullptr) copy_rows(tile, block, taps, kept, taps.row_scores);
      to_weights(tile, block, taps, kept, row_taps);
      bound.add(tile, block, taps.top, kept);
    });
    bound.write(tile, taps.top, row_taps.threshold);
    each_block([&](const Block& block, Coverage, const Bits&, const float* kept) HWY_ATTR { look_at(block, kept); });
  } else {
    each_block([&](const Block& block, Coverage coverage, Bits& bits, float* block_scores) HWY_ATTR {
      if (taps.kept == nullptr) {
        key_products(tile, block, columns, block_scores);
        (void)modify_scores(tile, block, coverage, block_scores, spare, {}, bits);
      }
      if (taps.row_scores != nullptr) copy_rows(tile, block, taps, block_scores, taps.row_scores);
      to_weights(tile, block, taps, block_scores, row_taps);
      look_at(block, block_scores);
    });
  }
  if (taps.cells != nullptr) close_cells(tile, taps, row_taps);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t h = tile.head[r], i = tile.query[r];
    if (taps.entropy.data != nullptr) {
      const float entropy = row_taps.entropy[r];
      *taps.entropy.at(h, i) = entropy == entropy ? entropy : std::numeric_limits<float>::quiet_NaN();
    }
    if (taps.top > 0) {
      std::copy_n(row_taps.weights_of(r), taps.top, taps.top_weights.at(h, i));
      std::copy_n(row_taps.keys_of(r), taps.top, taps.top_keys.at(h, i));
    }
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(run_taps_tile);

int64_t taps_scratch(const AttentionGroup& group, int64_t top) {
  return kTileQueries * (2 * group.size + 2 * kBlockKeys + 2 * top_row_of(top));
}

void taps_tile(const AttentionGroup& group, const TileTaps& taps, int64_t first, int64_t rows, float* scratch) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_taps_tile)(group, taps, first, rows, scratch);
}

}  // namespace heed::kernels
#endif
