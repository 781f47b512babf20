// What every attention kernel reads: one group, i.e. the query heads of one sequence that share one key/value head.
//
// README.md in this folder has the picture: group, tile of 48 queries, block of 64 keys, chunk of 512 keys, and who
// owns which memory. Everything here is raw pointers and strides; a kernel never sees a Tensor.
#pragma once

#include <cstdint>

#include "heed/lanes.h"

namespace heed::kernels {

inline constexpr int64_t kTileQueries = 48;  // rows (queries) of a tile
inline constexpr int64_t kBlockKeys = 64;    // keys of a block: one bit each in a 64-bit word
inline constexpr int64_t kChunkKeys = 512;   // keys of one softmax state
inline constexpr int64_t kDecodeRows = 8;    // groups of at most this many rows (queries times heads) are decoded
inline constexpr int64_t kStripe = 16;       // rows of scratch are padded to a multiple of this many floats

[[nodiscard]] constexpr int64_t padded(int64_t count) { return (count + kStripe - 1) / kStripe * kStripe; }

// Rows of numbers by strides in elements, any sign. `head` counts from the group's first head; unused strides are 0.
template <class T>
struct StridedRows {
  T* data = nullptr;
  int64_t head = 0;
  int64_t row = 0;
  int64_t column = 0;
  [[nodiscard]] T* at(int64_t h, int64_t i) const { return data + h * head + i * row; }
  operator StridedRows<const T>() const { return {data, head, row, column}; }  // NOLINT: as pointers convert
};

// Rows of keys or values in any form that a cache may have: f32, half precision or int8, in one piece or in pages.
// Row j is row j % page_rows of page pages[j / page_rows].
enum class Element : uint8_t { f32, bf16, f16, i8 };
struct StoredRows {
  const void* data = nullptr;  // null: no rows in this form
  Element element = Element::f32;
  int64_t page = 0, row = 0, column = 0;  // strides in elements
  const float* scales = nullptr;          // i8: the factor of each row
  int64_t scale_page = 0, scale_row = 0;
  const int32_t* pages = nullptr;  // null: all rows are in page 0
  int64_t pages_step = 0;
  int64_t page_rows = 1;
};

// Rows [from, from + count) as f32, `columns` numbers each, written `to_row` floats apart.
void rows_to_f32(const StoredRows& rows, int64_t columns, int64_t from, int64_t count, float* to, int64_t to_row);
// Rows of f32 as bf16 or f16, rounded to nearest even; unit column strides.
void rows_to_half(const float* from, int64_t from_row, int64_t rows, int64_t columns, Element element, void* to,
                  int64_t to_row);
// One row of `count` numbers in the form a cache keeps, rounded to nearest even. i8: `scale` receives the row's factor.
void store_cache_row(const float* from, int64_t count, Element element, void* to, float* scale);

// Copies rows x columns in canonical form: every NaN becomes the one quiet NaN, and -0 becomes 0. Which NaN an
// operation returns, and which zero a sum of vanishing terms gives, differs between processors and between tilings.
void copy_canonical_rows(const float* source, int64_t source_stride, float* destination, int64_t destination_stride,
                         int64_t rows, int64_t columns);
inline void make_canonical(float* x, int64_t count) { copy_canonical_rows(x, 0, x, 0, 1, count); }

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
  StridedRows<const float> query;                                      // (G, L, D)
  StridedRows<const uint16_t> bf16_query;  // the same as bf16 with unit column stride and even D, or null
  StridedRows<const float> key;            // (S, D)
  StridedRows<const float> value;          // (S, Dv)
  StoredRows stored_key, stored_value;     // keys and values that are not dense f32: both or neither
  StoredRows next_key, next_value;         // of the group that comes next, to be prefetched; or none
  float scale = 1;
  StridedRows<const float> additive;   // (G, 1, D): scores are sum_d additive_d tanh(q_d + k_d); null: scale * q . k
  const ScoreStage* stages = nullptr;  // score functions, applied in this order before bias and masks
  int64_t stage_count = 0;
  // Query i sees keys i + first_shift <= j < i + last_shift.
  int64_t first_shift = 0, last_shift = 0;
  int64_t offset = 0;                          // query i stands at key position i + offset (for the score functions)
  StridedRows<const bool> mask;                // (G, L, S), null: none
  StridedRows<const float> bias;               // (G, L, S), null: none
  StridedRows<const float> sinks;              // (G), null: none
  StridedRows<const int32_t> query_documents;  // (L), null: none
  StridedRows<const int32_t> key_documents;    // (S)
  uint32_t dropout_threshold = 0;              // a weight is kept iff its 16 bits are at least this; 0: no dropout
  float dropout_scale = 1;                     // 1 / (1 - rate)
  uint64_t dropout_seed = 0;
  uint32_t sequence = 0, first_head = 0;  // b, and h of the group's first head: the dropout's counter
  bool single_chunk = false;              // S <= kChunkKeys: no states to merge
  // Positions of query 0 and key 0 in the whole sequence; 0 unless the call has only a part of it. Score functions and
  // dropout count from there. first_key is a multiple of kChunkKeys. Decoding has the whole sequence.
  int64_t first_query = 0, first_key = 0;
};

// A tile may be computed in several calls, each with the next part of the keys. `sums` keeps its state between the
// calls. The last call writes the results; it may have no keys.
struct TileParts {
  float* sums = nullptr;  // forward_sums_floats() or backward_sums_floats() of them; not used where one call is all
  bool first = true, last = true;
};

}  // namespace heed::kernels
