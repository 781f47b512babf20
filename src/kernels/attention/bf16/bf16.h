// Attention in bf16, on processors that multiply pairs of bf16 numbers and sum in f32: vdpbf16ps, and the tiles of AMX.
//
// The passes are those in f32 (forward-inl.h, backward-inl.h) with other products, all of one form:
//   C (rows, n) = A (rows, depth) X (depth, n)
// C is f32 and n runs over vector lanes, as in f32. A is bf16 with contiguous depth. X holds bf16 pairs: the 32-bit
// number (i, lane) has X[2i][lane] in its lower half and X[2i + 1][lane] in its upper half. Queries, keys, values and
// the output's gradient are bf16 to begin with; weights, and gradients of scores, are rounded to it before they are
// multiplied. Scores, softmax and all sums are f32.
#pragma once

#include <cstdint>
#include <vector>

#include "base/memory.h"
#include "kernels/attention/group.h"

namespace heed::kernels {

struct EngineRequest;

inline constexpr int64_t kPairDepth = 32;  // depths are padded with zeros to whole rows of an AMX tile

[[nodiscard]] constexpr int64_t padded_depth(int64_t depth) {
  return (depth + kPairDepth - 1) / kPairDepth * kPairDepth;
}

// NaN or infinity at one place. In a product it would reach queries that do not attend to it (0 times it is NaN), so
// the panels hold 0 there, and it is added for those that do attend.
struct NonFinite {
  int64_t key, column;
  float value;
};

// Keys, or values, of a group as bf16: as rows, and each block of kBlockKeys keys transposed.
struct Bf16Panels {
  int64_t row = 0;                 // padded_depth(columns); of rows that are read in place, columns
  int64_t block = 0;               // padded(columns) * kBlockKeys
  const uint16_t* rows = nullptr;  // (keys up to a whole block, row)
  // (blocks, padded(columns), kBlockKeys), zeros where not finite, and more zeros after the last block
  const uint16_t* columns = nullptr;
  const NonFinite* non_finite = nullptr;      // by key
  const int64_t* non_finite_begin = nullptr;  // for each block where its own begin, and one more
};
struct Bf16Operands {
  Bf16Panels key, value;
};

// The memory behind Bf16Operands.
struct Bf16Memory {
  struct Side {
    Buffer<uint16_t> rows, columns;
    std::vector<NonFinite> non_finite;
    std::vector<int64_t> non_finite_begin;
  };
  Side key, value;
  Buffer<float> block;  // one block of keys as f32, and a row of zeros
  Bf16Operands operands;
};

// Makes panels of the group's keys and values. The forward pass needs the keys' rows and the values' columns, the
// backward pass all four. `whole_tiles`: the unit reads keys up to a multiple of 16 and padded_depth(columns) numbers
// of each, so rows cannot be read in place.
void bind_bf16(const AttentionGroup& group, bool whole_tiles, bool backward, Bf16Memory& memory);

// Rounds one block, `count` rows of `columns` numbers, to bf16. rows (64, padded_depth(columns)) and transposed
// (padded(columns), 64) are filled up with zeros; either may be null. `spare` has room for `columns` floats.
void pack_bf16_block(const float* from, int64_t from_row, int64_t count, int64_t columns, uint16_t* rows,
                     uint16_t* transposed, float* spare);

// The same for rows that are bf16 already, filled up to `keys` rows only, a multiple of 16. Returns whether all numbers
// are finite.
bool repack_bf16_block(const uint16_t* from, int64_t from_row, int64_t count, int64_t keys, int64_t columns,
                       uint16_t* rows, uint16_t* transposed, float* spare);

// What a bf16 engine can run; decoding is left to the engine of that name.
[[nodiscard]] bool suits_bf16_tiles(const EngineRequest& request);

// Floats of scratch that one tile needs.
[[nodiscard]] int64_t bf16_forward_scratch(const AttentionGroup& group);
[[nodiscard]] int64_t bf16_backward_scratch(const AttentionGroup& group);

}  // namespace heed::kernels
