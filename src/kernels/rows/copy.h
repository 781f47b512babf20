// Copies and additions between arrays of any strides, and rows looked up by number.
#pragma once

#include <array>
#include <cstdint>

namespace heed::kernels {

// out = x, or out += factor * x, over `extents`. Strides in elements; x's may be zero or negative, out's elements are
// distinct.
struct StridedCopy {
  int rank = 0;
  std::array<int64_t, 8> extents{}, out_strides{}, x_strides{};
  float* out = nullptr;
  const float* x = nullptr;
  bool accumulate = false;
  float factor = 1.0f;  // with accumulate only
};
void strided_copy(const StridedCopy& s);

// out[i] = scale * table[ids[i]], rows of `columns`; the row of `padding` reads as zeros. ids have been checked.
void gather_rows(const float* table, const int32_t* ids, int64_t count, int64_t columns, float scale, int64_t padding,
                 float* out);
// table[ids[i]] += scale * rows[i], for each table row in the order of i; the row of `padding` gets nothing.
void scatter_add_rows(float* table, int64_t table_rows, const int32_t* ids, int64_t count, int64_t columns, float scale,
                      int64_t padding, const float* rows);

}  // namespace heed::kernels
