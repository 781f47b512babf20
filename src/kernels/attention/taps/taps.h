// Taps: statistics of the weights of one tile. The weights are computed again from scores and logsumexp, looked at,
// and forgotten.
#pragma once

#include "kernels/attention/group.h"

namespace heed::kernels {

struct TileTaps {
  StridedRows<const float> logsumexp;  // (G, L)
  float* kept = nullptr;               // this tile's scores, which are overwritten; null: they are computed again
  int64_t key_begin = 0, key_end = 0;  // the keys to visit; key_begin a multiple of kBlockKeys
  // Written; null where not wanted.
  StridedRows<float> entropy;          // (G, L); needs the full range of keys, as do the top keys
  StridedRows<int32_t> top_keys;       // (G, L, top), unit column stride
  StridedRows<float> top_weights;      // likewise
  int64_t top = 0;                     // k
  float* const* rows = nullptr;        // for each row of the tile where its weights go, or null
  float* const* row_scores = nullptr;  // likewise its scores; null: not wanted
  // Added to; null where not wanted.
  float* column_sums = nullptr;   // (key_end - key_begin)
  float* const* cells = nullptr;  // for each row of the tile its row of the map: sums, or the largest weight
  int64_t cell_columns = 0, all_keys = 0;
  bool largest = false;
};

// Floats in which a tile keeps one row's `top` weights, or their keys, behind a sentinel that no weight replaces.
[[nodiscard]] constexpr int64_t top_row_of(int64_t top) { return top == 0 ? 0 : kStripe + padded(top); }
// Floats of scratch that one tile needs.
[[nodiscard]] int64_t taps_scratch(const AttentionGroup& group, int64_t top);
// Rows [first, first + rows) of the group, whose logsumexp is known. Keys and values are dense f32.
void taps_tile(const AttentionGroup& group, const TileTaps& taps, int64_t first, int64_t rows, float* scratch);

}  // namespace heed::kernels
