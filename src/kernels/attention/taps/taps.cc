// What is told of the weights of one tile: they are computed again, from its scores and logsumexp, looked at, and
// forgotten.
#include "kernels/attention/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/taps/taps.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <bit>

#include "kernels/attention/tile/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

using kernels::AttentionTaps;

// What a tap gathers for each lane while the blocks of keys go by.
struct Gathered {
  HWY_ALIGN float origin[kTileRows];  // logsumexp
  HWY_ALIGN float entropy[kTileRows];
  HWY_ALIGN float threshold[kTileRows];   // the smallest of the top weights: what another must exceed
  HWY_ALIGN float cell[kTileRows];        // of the column of cells that is open
  int64_t cell_column = 0, cell_end = 0;  // and where it ends
  int64_t top_row;                        // the top weights, descending, and their keys: rows so far apart, each after
  float* top_weights;                     // an infinity that nothing displaces
  int32_t* top_keys;

  Gathered(const Tile& tile, const AttentionTaps& taps, float* memory)
      : top_row(kernels::top_row_of(taps.top)),
        top_weights(memory),
        top_keys(reinterpret_cast<int32_t*>(memory + kTileRows * top_row)) {
    for (int64_t r = 0; r < tile.width; ++r) {
      origin[r] = r < tile.rows ? *taps.logsumexp.at(tile.head[r], tile.query[r]) : 0.0f;
    }
    std::fill_n(entropy, kTileRows, 0.0f);
    std::fill_n(threshold, kTileRows, 0.0f);
    std::fill_n(cell, kTileRows, 0.0f);
    std::fill_n(top_weights, kTileRows * top_row, 0.0f);
    std::fill_n(top_keys, kTileRows * top_row, -1);
    if (taps.top == 0) return;
    for (int64_t r = 0; r < kTileRows; ++r) weights_of(r)[-1] = -kMinusInfinity;
  }
  [[nodiscard]] float* weights_of(int64_t r) const { return top_weights + r * top_row + kernels::kColumns; }
  [[nodiscard]] int32_t* keys_of(int64_t r) const { return top_keys + r * top_row + kernels::kColumns; }
};

// weigh() for the vector of lanes at `lane` and kKeys keys from j on.
template <int kKeys>
HWY_INLINE void weigh_keys(const Tile& tile, const AttentionTaps& taps, const Bits& kept, float* scores, int64_t lane,
                           int64_t j, Gathered& g) {
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
      log = hn::Add(log, logarithm(scale));
    }
    hn::Store(w, kF, s + n * tile.width);
    if (taps.entropy.data != nullptr) {
      entropy = hn::IfThenElse(hn::Eq(w, hn::Zero(kF)), entropy, FmaNegated(w, log, entropy));
    }
  }
  hn::Store(entropy, kF, g.entropy + lane);
}

// scores become weights, and their entropy is added up: log w is the score less logsumexp.
void weigh(const Tile& tile, const Block& block, const AttentionTaps& taps, float* scores, Gathered& g) {
  Bits kept;
  if (tile.group.dropout_threshold > 0) find_kept(tile, block, kept);
  for (int64_t lane = 0; lane < tile.width; lane += kLanes) {
    int64_t j = 0;
    for (; j + kInStep <= block.count; j += kInStep) weigh_keys<kInStep>(tile, taps, kept, scores, lane, j, g);
    for (; j < block.count; ++j) weigh_keys<1>(tile, taps, kept, scores, lane, j, g);
  }
}

void copy_rows(const Tile& tile, const Block& block, const AttentionTaps& taps, const float* weights) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    if (taps.rows[r] == nullptr) continue;
    float* const to = taps.rows[r] + (block.from - taps.key_begin);
    for (int64_t j = 0; j < block.count; ++j) {
      const float w = weights[j * tile.width + r];
      to[j] = w == w ? w : std::numeric_limits<float>::quiet_NaN();
    }
  }
}

// Keys come in ascending order and only a larger weight displaces another, so of equals the smaller key stays ahead.
// Without a branch: each place takes what stands there, or what stood before it, or the new one.
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

// What the top weights of a row cannot be smaller than: there are as many sixteens of keys whose largest weights reach
// it. Without that a row of 1,024 keys takes in 39 weights for its top 8, with it about ten.
struct LowerBound {
  static constexpr int64_t kMost = 16;  // of a top that has one
  HWY_ALIGN float largest[kMost][kTileRows] = {};

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

  // The numbers right below the bounds, which weights must exceed.
  void write(const Tile& tile, int64_t top, float* thresholds) const {
    for (int64_t r = 0; r < tile.rows; ++r) {
      const float bound = largest[top - 1][r];
      thresholds[r] = bound > 0 ? std::bit_cast<float>(std::bit_cast<uint32_t>(bound) - 1) : 0.0f;
    }
  }
};

void rank(const Tile& tile, const Block& block, const AttentionTaps& taps, const float* weights, Gathered& g) {
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

// The upper half of 2 * kHalf numbers is added to the lower.
template <size_t kHalf>
HWY_INLINE void fold(float* lanes) {
  const hn::CappedTag<float, kHalf> d;
  for (size_t n = 0; n < kHalf; n += hn::Lanes(d)) {
    hn::Store(hn::Add(hn::Load(d, lanes + n), hn::Load(d, lanes + kHalf + n)), d, lanes + n);
  }
}

// Sixteen lanes are folded in one fixed tree, after the sixteens of the tile were added, whatever the vector width.
void add_columns(const Tile& tile, const Block& block, const AttentionTaps& taps, const float* weights) {
  for (int64_t j = 0; j < block.count; ++j) {
    HWY_ALIGN float lanes[kernels::kColumns];
    for (int64_t part = 0; part < kernels::kColumns; part += kLanes) {
      FV sum = hn::Zero(kF);
      for (int64_t lane = part; lane < tile.rows; lane += kernels::kColumns) {
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

// The column of cells that is open is added to the picture.
void close_cells(const Tile& tile, const AttentionTaps& taps, Gathered& g) {
  if (g.cell_end == 0) return;
  for (int64_t r = 0; r < tile.rows; ++r) {
    float& cell = taps.cells[r][g.cell_column];
    if (!taps.largest) {
      cell += g.cell[r];
    } else if (!(cell >= g.cell[r]) && cell == cell) {  // a NaN stays
      cell = g.cell[r];
    }
  }
  std::fill_n(g.cell, kTileRows, 0.0f);
}

void add_cells(const Tile& tile, const Block& block, const AttentionTaps& taps, const float* weights, Gathered& g) {
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

void TapsTile(const AttentionGroup& group, const AttentionTaps& taps, int64_t first, int64_t rows, float* scratch) {
  const Tile tile(group, first, rows);
  float* const columns = scratch;  // pack_queries()
  float* const scores = columns + packed_queries(group, tile.width);
  float* const spare = scores + kBlockKeys * tile.width;
  Gathered gathered(tile, taps, spare + kBlockKeys * tile.width);
  if (taps.kept == nullptr) pack_queries(tile, group.scale, columns);
  for (int64_t r = 0; taps.rows != nullptr && r < rows; ++r) {
    if (taps.rows[r] != nullptr) std::fill_n(taps.rows[r], taps.key_end - taps.key_begin, 0.0f);
  }

  const auto for_blocks = [&](const auto& f) HWY_ATTR {
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
    if (taps.rows != nullptr) copy_rows(tile, block, taps, weights);
    if (taps.top > 0) rank(tile, block, taps, weights, gathered);
    if (taps.column_sums != nullptr) add_columns(tile, block, taps, weights);
    if (taps.cells != nullptr) add_cells(tile, block, taps, weights, gathered);
  };
  if (taps.kept != nullptr && taps.top > 0 && taps.top <= LowerBound::kMost) {
    LowerBound bound;
    for_blocks([&](const Block& block, Coverage, const Bits&, float* kept) HWY_ATTR {
      weigh(tile, block, taps, kept, gathered);
      bound.add(tile, block, taps.top, kept);
    });
    bound.write(tile, taps.top, gathered.threshold);
    for_blocks([&](const Block& block, Coverage, const Bits&, const float* kept) HWY_ATTR { look_at(block, kept); });
  } else {
    for_blocks([&](const Block& block, Coverage coverage, Bits& bits, float* block_scores) HWY_ATTR {
      if (taps.kept == nullptr) {
        multiply_keys(tile, block, columns, block_scores);
        (void)apply_rules(tile, block, coverage, block_scores, spare, {}, bits);
      }
      weigh(tile, block, taps, block_scores, gathered);
      look_at(block, block_scores);
    });
  }
  if (taps.cells != nullptr) close_cells(tile, taps, gathered);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t h = tile.head[r], i = tile.query[r];
    if (taps.entropy.data != nullptr) {
      const float entropy = gathered.entropy[r];
      *taps.entropy.at(h, i) = entropy == entropy ? entropy : std::numeric_limits<float>::quiet_NaN();
    }
    if (taps.top > 0) {
      std::copy_n(gathered.weights_of(r), taps.top, taps.top_weights.at(h, i));
      std::copy_n(gathered.keys_of(r), taps.top, taps.top_keys.at(h, i));
    }
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(TapsTile);

int64_t attention_taps_scratch(const AttentionGroup& group, int64_t top) {
  return kTileRows * (2 * group.size + 2 * kBlockKeys + 2 * top_row_of(top));
}

void attention_taps_tile(const AttentionGroup& group, const AttentionTaps& taps, int64_t first, int64_t rows,
                         float* scratch) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(TapsTile)(group, taps, first, rows, scratch);
}

}  // namespace heed::kernels
#endif
