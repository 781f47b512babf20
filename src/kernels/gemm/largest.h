// Which columns of a row of A B + bias may be the largest: by the product in int8, and by how far that may be from f32.
//
// Let y be a row of A times the balance and v a column of B divided by it, y' and v' what int8 keeps of them. Then
//   y v - y' v' = y' (v - v') + (y - y') v,
// so the two products differ by at most |y'| |v - v'| + |y - y'| |v| (Cauchy and Schwarz). Both norms of a column are
// known beforehand. For 256 numbers the bound is some ten times the usual difference: of a vocabulary of 4,000 three
// or four columns are left.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/gemm/int8.h"

namespace heed::kernels {

// What int8 loses of a weight, column by column: strips * 16 numbers each, rounded up.
struct Int8Loss {
  // weight_row: what `packed` was made from.
  Int8Loss(const PackedInt8& packed, const WeightRow& weight_row, const float* bias);

  std::vector<float> lost;  // |v - v'|
  std::vector<float> norm;  // |v|
  float largest_norm = 0, largest_bias = 0;
  bool finite = true;  // all weights and biases
};

constexpr int64_t kUnknownColumns = -1;

// x: a row of A, k numbers. approximate: its product with `packed` plus bias, n numbers; -infinity where a column is
// not to be chosen. Writes to `chosen`, in ascending order, the columns that may be the largest of the product in f32,
// where that is one chain of multiply-adds for each column, and then its bias. Returns how many there are; above `most`
// none is written. kUnknownColumns: the numbers are not finite, or too large for the bound.
[[nodiscard]] int64_t largest_columns(const PackedInt8& packed, const Int8Loss& loss, const float* x,
                                      const float* approximate, int64_t most, int32_t* chosen);

}  // namespace heed::kernels
