// Attention in bf16, on units that multiply pairs of bf16 numbers and add them up in f32: vdpbf16ps, and AMX tiles.
//
// The kernels are those of attention.h with other products, all of one form:
//   C (rows, n) = A (rows, depth) X (depth, n)
// C is f32 and n runs over vector lanes as there. A is bf16 with the depth side by side; X comes as pairs: the 32-bit
// number (i, lane) holds X[2i][lane] in its lower half and X[2i + 1][lane] in its upper half. Queries, keys, values and
// their gradients are bf16 to begin with; weights, and gradients of scores, are rounded to it before they are
// multiplied. Scores, softmax and all sums are f32.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/attention/attention.h"

namespace heed::kernels {

inline constexpr int64_t kPairDepth = 32;  // depths are padded with zeros to whole rows of an AMX tile

[[nodiscard]] constexpr int64_t padded_depth(int64_t depth) {
  return (depth + kPairDepth - 1) / kPairDepth * kPairDepth;
}

// A number that is not finite. In products it would reach what it must not (0 times it is NaN), so it stands as 0 there
// and is added for those who attend to it.
struct Special {
  int64_t key, column;
  float value;
};

// Keys, or values, of a group as bf16: as rows, and each block of kBlockKeys keys turned over.
struct PackedRows {
  int64_t row = 0;                 // padded_depth(columns), or, of rows that lie elsewhere, columns
  int64_t block = 0;               // padded(columns) * kBlockKeys
  const uint16_t* rows = nullptr;  // (keys up to a whole block, row)
  const uint16_t* columns =
      nullptr;                       // (blocks, padded(columns), kBlockKeys), zeros where not finite; more zeros behind
  const Special* special = nullptr;  // by key
  const int64_t* special_begin = nullptr;  // for each block where its own begin, and one more
};
struct PackedKeys {
  PackedRows key, value;
};

// Rounds one block, `count` rows of `columns` numbers, to bf16. rows (64, padded_depth(columns)) and turned
// (padded(columns), 64) are filled up with zeros; either may be null. `spare` has room for `columns` floats.
void attention_pack_block(const float* from, int64_t from_row, int64_t count, int64_t columns, uint16_t* rows,
                          uint16_t* turned, float* spare);

// The same for rows that are bf16 already, filled up to `keys`, a multiple of 16, alone. Returns whether all numbers
// are finite.
bool attention_pack_narrow_block(const uint16_t* from, int64_t from_row, int64_t count, int64_t keys, int64_t columns,
                                 uint16_t* rows, uint16_t* turned, float* spare);

// The kernels of one unit. As their namesakes in attention.h, but for keys and values, which are read from `keys`
// alone; forward needs key.rows and value.columns, backward all four.
struct AttentionPairs {
  void (*forward_tile)(const AttentionGroup& group, const PackedKeys& keys, const AttentionForward& result,
                       int64_t first, int64_t rows, float* scratch);
  void (*backward_tile)(const AttentionGroup& group, const PackedKeys& keys, const AttentionBackward& gradients,
                        int64_t first, int64_t rows, float* scratch);
  bool whole_tiles;  // reads keys up to a multiple of 16, and padded_depth(columns) numbers of each
  // Runs `rounds` of independent products that stay in registers; returns their floating-point operations.
  int64_t (*run_peak)(int64_t rounds);
};

// Floats of scratch that one tile needs.
[[nodiscard]] int64_t attention_pairs_forward_scratch(const AttentionGroup& group);
[[nodiscard]] int64_t attention_pairs_backward_scratch(const AttentionGroup& group);

// Those of the instruction set in use, or null: it has none.
[[nodiscard]] const AttentionPairs* attention_pairs();
// For tests: these from now on, on any instruction set; null: no others than its own.
void use_attention_pairs(const AttentionPairs* pairs);

// The units of this build, null where it has none for this kind of processor.
[[nodiscard]] const AttentionPairs* attention_avx512bf16();
[[nodiscard]] const AttentionPairs* attention_amx();

}  // namespace heed::kernels
