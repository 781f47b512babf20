// The forward pass of one tile in f32.
#pragma once

#include "kernels/attention/group.h"
#include "kernels/attention/tile/prefetch.h"

namespace heed::kernels {

// Where a tile writes. Rows are those of the group.
struct TileOutputs {
  StridedRows<float> output;          // (G, L, Dv), unit column stride
  StridedRows<uint16_t> bf16_output;  // the same as bf16, even Dv, in place of `output`; or null
  StridedRows<float> logsumexp;       // (G, L), null: not wanted
  StridedRows<float> weights;         // (G, L, S), unit column stride, null: not wanted
  StridedRows<float> scores;          // likewise: what enters the softmax
  int64_t all_keys = 0;               // columns of weights and scores: beyond the attended length they get 0 and -inf
  float* kept = nullptr;              // where the tile leaves its scores, kept_scores_floats() of them; null: nowhere
  Prefetch* prefetch = nullptr;       // issued by the inner products; null: none
  TileParts parts;                    // without `weights`, `scores` and `kept`
};

// Floats of TileParts::sums: the largest score and the sum of every row, whether there is an output, and the output.
[[nodiscard]] constexpr int64_t forward_sums_floats(int64_t value_size) {
  return 2 * kTileQueries + kStripe + kTileQueries * value_size;
}

// Floats in which a tile keeps all of its scores.
[[nodiscard]] constexpr int64_t kept_scores_floats(int64_t keys) {
  return (keys + kBlockKeys - 1) / kBlockKeys * kBlockKeys * kTileQueries;
}

// Floats of scratch that one tile needs.
[[nodiscard]] int64_t forward_scratch(const AttentionGroup& group);
// Rows [first, first + rows) of the group, rows <= kTileQueries. Keys and values are dense f32.
void forward_tile(const AttentionGroup& group, const TileOutputs& outputs, int64_t first, int64_t rows, float* scratch);

}  // namespace heed::kernels
