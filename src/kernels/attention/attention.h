// Fused attention, forward and backward, over one group: the query heads that share one key/value head of one sequence.
//
// Vector lanes run over queries. A tile is up to 48 rows (of one head, or of several heads of the group where L is
// small); each lane is one sequential chain of fused multiply-adds over D, then over the keys, so the bits are the same
// whatever the vector width, and softmax needs no horizontal sums. Everything is computed in f32.
//
// Keys are read in blocks of 64 and cut into chunks of 512; each chunk has its own (maximum, sum, output), merged in
// order. What is masked for a whole tile is skipped; a masked lane passes through unchanged, so neither tiles nor
// skipping show in the bits.
#pragma once

#include <cstdint>

#include "heed/lanes.h"
#include "kernels/attention/tile/prefetch.h"

namespace heed::kernels {

inline constexpr int64_t kTileRows = 48;    // queries of a tile
inline constexpr int64_t kBlockKeys = 64;   // keys of a block: one bit each in a 64-bit word
inline constexpr int64_t kChunkKeys = 512;  // keys of a softmax state
inline constexpr int64_t kFewRows = 8;      // groups of so few rows (queries times heads) have a kernel of their own
inline constexpr int64_t kColumns = 16;     // rows of scratch are padded to this many floats

[[nodiscard]] constexpr int64_t padded(int64_t count) { return (count + kColumns - 1) / kColumns * kColumns; }

// Memory by strides in elements, any sign. `head` counts from the group's first head; unused strides are 0.
template <class T>
struct Strided {
  T* data = nullptr;
  int64_t head = 0;
  int64_t row = 0;
  int64_t column = 0;
  [[nodiscard]] T* at(int64_t h, int64_t i) const { return data + h * head + i * row; }
  operator Strided<const T>() const { return {data, head, row, column}; }  // NOLINT: as pointers convert
};

// Rows kept otherwise than as f32 in one piece: narrower, or in pages. Row j is row j % page_rows of page
// pages[j / page_rows].
enum class Element : uint8_t { f32, bf16, f16, i8 };
struct StoredRows {
  const void* data = nullptr;  // null: nothing is stored so
  Element element = Element::f32;
  int64_t page = 0, row = 0, column = 0;  // strides in elements
  const float* scales = nullptr;          // i8: what the numbers of a row are multiplied by
  int64_t scale_page = 0, scale_row = 0;
  const int32_t* pages = nullptr;  // null: all rows in page 0
  int64_t pages_step = 0;
  int64_t page_rows = 1;
};

// Rows [from, from + count) as f32, `columns` numbers each, `to_row` apart.
void attention_unpack_rows(const StoredRows& rows, int64_t columns, int64_t from, int64_t count, float* to,
                           int64_t to_row);
// The other way, into bf16 or f16, rounded to nearest even; unit column strides.
void attention_narrow_rows(const float* from, int64_t from_row, int64_t rows, int64_t columns, Element element,
                           void* to, int64_t to_row);
// One row of `count` numbers into a narrower type, rounded to nearest even; i8: `scale` gets what to multiply by.
void attention_pack_row(const float* from, int64_t count, Element element, void* to, float* scale);

// A score function, compiled for the instruction set in use.
struct ScoreStage {
  const void* function = nullptr;
  void (*run)(const void* function, const score::Block& block) = nullptr;
  const float* table = nullptr;  // dense
  int32_t entries = 0;
};

// One sequence, one key/value head, `heads` query heads. Row r of the group is query r % queries of head r / queries.
struct AttentionGroup {
  int64_t heads = 1, queries = 0, keys = 0, size = 0, value_size = 0;  // G, L, S (the attended length), D, Dv
  Strided<const float> query;                                          // (G, L, D)
  Strided<const uint16_t> narrow_query;  // the same as bf16, unit column stride, D even, or null; for pairs alone
  Strided<const float> key;              // (S, D)
  Strided<const float> value;            // (S, Dv)
  StoredRows stored_key, stored_value;   // where keys and values are not f32 in one piece: both or neither
  StoredRows next_key, next_value;       // those of the group that comes next, of any kind, to be asked for; or none
  float scale = 1;
  Strided<const float> additive;       // (G, 1, D): scores are sum_d additive_d tanh(q_d + k_d); null: scale * q . k
  const ScoreStage* stages = nullptr;  // what scores go through, in this order, before bias and masks
  int64_t stage_count = 0;
  // Query i sees keys i + first_shift <= j < i + last_shift.
  int64_t first_shift = 0, last_shift = 0;
  int64_t offset = 0;                      // query i stands at key position i + offset (for the stages)
  Strided<const bool> mask;                // (G, L, S), null: none
  Strided<const float> bias;               // (G, L, S), null: none
  Strided<const float> sinks;              // (G), null: none
  Strided<const int32_t> query_documents;  // (L), null: none
  Strided<const int32_t> key_documents;    // (S)
  uint32_t dropout_threshold = 0;          // a weight is kept iff its 16 bits are at least this; 0: no dropout
  float dropout_scale = 1;                 // 1 / (1 - rate)
  uint64_t dropout_seed = 0;
  uint32_t sequence = 0, first_head = 0;  // b, and h of the group's first head: the dropout's counter
  bool single_chunk = false;              // S <= kChunkKeys: no states to merge
};

struct AttentionForward {
  Strided<float> output;            // (G, L, Dv), unit column stride
  Strided<uint16_t> narrow_output;  // the same as bf16, Dv even, instead of `output`, or null; for pairs alone
  Strided<float> logsumexp;         // (G, L), null: not wanted
  Strided<float> weights;           // (G, L, S), unit column stride, null: not wanted
  int64_t all_keys = 0;             // columns of weights: those beyond the attended length are set to 0
  float* kept = nullptr;            // where the scores go, attention_kept_scores() floats; null: nowhere
  Ahead* ahead = nullptr;           // what the tile asks the memory for while it multiplies, null: nothing
};

// Floats of scratch that one tile needs.
[[nodiscard]] int64_t attention_forward_scratch(const AttentionGroup& group);
// Rows [first, first + rows) of the group, rows <= kTileRows.
void attention_forward_tile(const AttentionGroup& group, const AttentionForward& result, int64_t first, int64_t rows,
                            float* scratch);

// All rows of a group, at most kFewRows: the same results, to the bit, at the speed of memory. No weights. Reads stored
// rows where they are; the other kernels want them unpacked.
[[nodiscard]] int64_t attention_few_scratch(const AttentionGroup& group);
void attention_forward_few(const AttentionGroup& group, const AttentionForward& result, float* scratch);

// The same in parts, so that threads can share a group: the state of each chunk of kChunkKeys keys, each of
// attention_few_state() floats, and then all of them in order.
[[nodiscard]] int64_t attention_few_state(const AttentionGroup& group);
void attention_few_chunk(const AttentionGroup& group, int64_t chunk, float* state, float* scratch);
void attention_few_merge(const AttentionGroup& group, const AttentionForward& result, float* states, int64_t chunks,
                         float* scratch);

// Floats in which a tile keeps all of its scores.
[[nodiscard]] constexpr int64_t attention_kept_scores(int64_t keys) {
  return (keys + kBlockKeys - 1) / kBlockKeys * kBlockKeys * kTileRows;
}

struct AttentionTaps {
  Strided<const float> logsumexp;      // (G, L)
  float* kept = nullptr;               // this tile's scores, which are overwritten, or null: computed once more
  int64_t key_begin = 0, key_end = 0;  // the keys to visit; key_begin a multiple of kBlockKeys
  // Null where not wanted. Written:
  Strided<float> entropy;        // (G, L); needs the full range of keys, as the top
  Strided<int32_t> top_keys;     // (G, L, top), unit column stride
  Strided<float> top_weights;    // likewise
  int64_t top = 0;               // k
  float* const* rows = nullptr;  // for each row of the tile where its weights of the keys visited go, or null
  // Added to:
  float* column_sums = nullptr;   // (key_end - key_begin)
  float* const* cells = nullptr;  // for each row of the tile its row of cells: sums, or the largest
  int64_t cell_columns = 0, all_keys = 0;
  bool largest = false;
};

// Floats in which a tile keeps one row's `top` weights, or their keys: behind a place for what nothing displaces.
[[nodiscard]] constexpr int64_t top_row_of(int64_t top) { return top == 0 ? 0 : kColumns + padded(top); }
// Floats of scratch that one tile needs.
[[nodiscard]] int64_t attention_taps_scratch(const AttentionGroup& group, int64_t top);
// Rows [first, first + rows) of the group, whose logsumexp is known.
void attention_taps_tile(const AttentionGroup& group, const AttentionTaps& taps, int64_t first, int64_t rows,
                         float* scratch);

// Tiles of several threads add to the gradients of one group's keys and values: block by block, and in each block one
// after the other, all tiles of the group, also those that attend to none of its keys.
class AttentionTurns {
 public:
  virtual ~AttentionTurns() = default;
  virtual void begin(int64_t block) = 0;  // waits for the tile's turn at keys [block * kBlockKeys, ...)
  virtual void end(int64_t block) = 0;
};

struct AttentionBackward {
  Strided<const float> output;     // (G, L, Dv)
  Strided<const float> d_output;   // (G, L, Dv)
  Strided<const float> logsumexp;  // (G, L)
  // Null where not wanted now. d_key (S, padded(D)) and d_value (S, padded(Dv)) are added to: rows in order.
  float* d_key = nullptr;
  float* d_value = nullptr;
  Strided<float> d_query;        // (G, L, D), unit column stride, written; needs the full range of keys
  Strided<float> d_sink;         // (G, L): this row's part of the sink's gradient, written with d_query
  Strided<float> d_scores;       // (rows, key_end - key_begin) from the tile's first row, unit column stride, written
  double* d_table = nullptr;     // of the table of stage `table_stage`, added to, in an order of its own
  double* d_additive = nullptr;  // (D), of the head's `additive`, added to: keys in order, then rows
  int64_t table_stage = 0;
  int64_t key_begin = 0, key_end = 0;  // the keys to visit; key_begin a multiple of kBlockKeys
  AttentionTurns* turns = nullptr;     // of d_key and d_value with the full range of keys; null: they are the caller's
  Ahead* ahead = nullptr;              // as in the forward pass
};

[[nodiscard]] int64_t attention_backward_scratch(const AttentionGroup& group);
void attention_backward_tile(const AttentionGroup& group, const AttentionBackward& gradients, int64_t first,
                             int64_t rows, float* scratch);

// rows x columns from source to destination (which may be the same), every NaN replaced by the one quiet NaN, -0 by 0.
void attention_copy_rows(const float* source, int64_t source_stride, float* destination, int64_t destination_stride,
                         int64_t rows, int64_t columns);

}  // namespace heed::kernels
