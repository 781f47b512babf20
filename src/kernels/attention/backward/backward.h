// The backward pass of one tile in f32.
#pragma once

#include "kernels/attention/group.h"
#include "kernels/attention/tile/prefetch.h"

namespace heed::kernels {

// Lets the tiles of several threads add to the gradients of one group's keys and values: block by block, and in each
// block one tile after the other. Every tile of the group takes its turn, also where it attends to no key of the block.
class KeyTurns {
 public:
  virtual ~KeyTurns() = default;
  virtual void begin(int64_t block) = 0;  // waits for the tile's turn at keys [block * kBlockKeys, ...)
  virtual void end(int64_t block) = 0;
};

// What the backward pass of a tile reads beside the group, and where its gradients go.
struct TileGradients {
  StridedRows<const float> output;     // (G, L, Dv)
  StridedRows<const float> d_output;   // (G, L, Dv)
  StridedRows<const float> logsumexp;  // (G, L)
  // Null where not wanted. d_key (S, padded(D)) and d_value (S, padded(Dv)) are added to, rows in order.
  float* d_key = nullptr;
  float* d_value = nullptr;
  StridedRows<float> d_query;    // (G, L, D), unit column stride, written; needs all keys, in one call or in `parts`
  StridedRows<float> d_sink;     // (G, L): this row's part of the sink's gradient, written with d_query
  StridedRows<float> d_scores;   // (rows, key_end - key_begin) from the tile's first row, unit column stride, written
  double* d_table = nullptr;     // of the table of score function `table_stage`, added to, in an order of its own
  double* d_additive = nullptr;  // (D), of the head's `additive`, added to: keys in order, then rows
  int64_t table_stage = 0;
  int64_t key_begin = 0, key_end = 0;  // the keys to visit; key_begin a multiple of kBlockKeys
  KeyTurns* turns = nullptr;           // of d_key and d_value, with the full range of keys; null: the caller's alone
  Prefetch* prefetch = nullptr;        // as in the forward pass
  TileParts parts;                     // of d_query
};

// Floats of TileParts::sums: the gradient of the tile's queries.
[[nodiscard]] constexpr int64_t backward_sums_floats(int64_t size) { return kTileQueries * padded(size); }

// Floats of scratch that one tile needs.
[[nodiscard]] int64_t backward_scratch(const AttentionGroup& group);
// Rows [first, first + rows) of the group, rows <= kTileQueries. Keys and values are dense f32.
void backward_tile(const AttentionGroup& group, const TileGradients& gradients, int64_t first, int64_t rows,
                   float* scratch);

}  // namespace heed::kernels
