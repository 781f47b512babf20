// Sums: over rows in blocks of a fixed number, over everything in blocks of a fixed size, each in order.
#pragma once

#include <cstdint>

namespace heed::kernels {

// Rows summed by one thread before the blocks are added up. Part of the meaning: it fixes the order of the sums.
inline constexpr int64_t kBlockOfRows = 64;

// out[j] += factor * sum_i x[i * stride + j].
void add_column_sums(const float* x, int64_t rows, int64_t columns, int64_t stride, float factor, float* out);
// out[j] += factor * (partials[0][j] + partials[1][j] + ...), in this order.
void add_partials(const float* partials, int64_t blocks, int64_t columns, float factor, float* out);

[[nodiscard]] double sum(const float* x, int64_t count);
[[nodiscard]] double sum_of_squares(const float* x, int64_t count);

// sum_of_squares() adds up blocks of this many elements, and then the blocks in order.
inline constexpr int64_t kSumBlock = 16384;
// out[b] = the sum of squares of block b. Added up in order they give sum_of_squares(), to the bit.
void block_sums_of_squares(const float* x, int64_t count, double* out);

}  // namespace heed::kernels
