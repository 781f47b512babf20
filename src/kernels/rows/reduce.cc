// Deterministic sums: what a thread adds up alone is a block of fixed size.
#include "kernels/rows/reduce.h"

#include <algorithm>

#include "base/memory.h"
#include "base/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows/reduce.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

constexpr int64_t kBlock = kernels::kSumBlock;  // elements summed by one thread in one go

// to[j] = sum of rows [begin, end); the lanes run over columns, each a chain over the rows.
HWY_INLINE void sum_rows(const float* x, int64_t begin, int64_t end, int64_t columns, int64_t stride, float* to) {
  const F d;
  int64_t j = 0;
  for (; j + 4 * kLanes <= columns; j += 4 * kLanes) {
    FV sum[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    for (int64_t i = begin; i < end; ++i) {
      const float* const row = x + i * stride + j;
      for (int v = 0; v < 4; ++v) sum[v] = hn::Add(sum[v], hn::LoadU(d, row + v * kLanes));
    }
    for (int v = 0; v < 4; ++v) hn::StoreU(sum[v], d, to + j + v * kLanes);
  }
  for (; j < columns; j += kLanes) {
    const int64_t lanes = std::min<int64_t>(kLanes, columns - j);
    FV sum = hn::Zero(d);
    for (int64_t i = begin; i < end; ++i) sum = hn::Add(sum, load_first(x + i * stride + j, lanes));
    store_first(sum, to + j, lanes);
  }
}

void run_add_partials(const float* partials, int64_t blocks, int64_t columns, float factor, float* out) {
  const F d;
  const auto f = hn::Set(d, factor);
  const int64_t groups = (columns + 15) / 16;
  parallel_for(groups, std::max<int64_t>(1, 1024 / std::max<int64_t>(1, blocks)), [&](int64_t begin, int64_t end) {
    for (int64_t j = begin * 16; j < std::min(columns, end * 16); j += kLanes) {
      const int64_t lanes = std::min<int64_t>(kLanes, columns - j);
      FV sum = hn::Zero(d);
      for (int64_t b = 0; b < blocks; ++b) sum = hn::Add(sum, load_first(partials + b * columns + j, lanes));
      store_first(fma(f, sum, load_first(out + j, lanes)), out + j, lanes);
    }
  });
}

void run_add_column_sums(const float* x, int64_t rows, int64_t columns, int64_t stride, float factor, float* out) {
  const int64_t blocks = (rows + kernels::kBlockOfRows - 1) / kernels::kBlockOfRows;
  const Buffer<float> partials(std::max<int64_t>(1, blocks * columns));
  parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      sum_rows(x, b * kernels::kBlockOfRows, std::min(rows, (b + 1) * kernels::kBlockOfRows), columns, stride,
               partials.data() + b * columns);
    }
  });
  run_add_partials(partials.data(), blocks, columns, factor, out);
}

#if HWY_TARGET == HWY_AVX3
using F64 = hn::CappedTag<double, 8>;
#elif HWY_TARGET == HWY_AVX2
using F64 = hn::CappedTag<double, 4>;
#else
using F64 = hn::CappedTag<double, 1>;
#endif

// Sixteen chains in double, folded in a fixed tree. The square of a float is exact in double.
template <bool kSquares>
HWY_INLINE double sum_block(const float* x, int64_t count) {
  const F64 d;
  const hn::Rebind<float, F64> df;
  constexpr int kDoubles = static_cast<int>(hn::MaxLanes(F64())), kVectors = 16 / kDoubles;
  hn::Vec<F64> sum[kVectors];
  for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(d);
  const auto add = [&](const float* p) {
    for (int v = 0; v < kVectors; ++v) {
      const auto value = hn::PromoteTo(d, hn::LoadU(df, p + v * kDoubles));
      sum[v] = hn::Add(sum[v], kSquares ? hn::Mul(value, value) : value);
    }
  };
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) add(x + i);
  if (i < count) {
    float tail[16] = {};
    std::copy(x + i, x + count, tail);
    add(tail);
  }
  HWY_ALIGN double lanes[16];
  for (int v = 0; v < kVectors; ++v) hn::Store(sum[v], d, lanes + v * kDoubles);
  for (int width = 8; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

template <bool kSquares>
void sum_each_block(const float* x, int64_t count, double* partials) {
  const int64_t blocks = (count + kBlock - 1) / kBlock;
  parallel_for(blocks, 2, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      partials[b] = sum_block<kSquares>(x + b * kBlock, std::min(kBlock, count - b * kBlock));
    }
  });
}

template <bool kSquares>
double sum_blocks(const float* x, int64_t count) {
  const int64_t blocks = (count + kBlock - 1) / kBlock;
  const Buffer<double> partials(std::max<int64_t>(1, blocks));
  sum_each_block<kSquares>(x, count, partials.data());
  double total = 0;
  for (int64_t b = 0; b < blocks; ++b) total += partials[b];
  return total;
}

void run_block_sums_of_squares(const float* x, int64_t count, double* out) { sum_each_block<true>(x, count, out); }
double run_sum(const float* x, int64_t count) { return sum_blocks<false>(x, count); }
double run_sum_of_squares(const float* x, int64_t count) { return sum_blocks<true>(x, count); }

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(run_add_column_sums);
HWY_EXPORT(run_add_partials);
HWY_EXPORT(run_sum);
HWY_EXPORT(run_sum_of_squares);
HWY_EXPORT(run_block_sums_of_squares);

void add_column_sums(const float* x, int64_t rows, int64_t columns, int64_t stride, float factor, float* out) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_add_column_sums)(x, rows, columns, stride, factor, out);
}
void add_partials(const float* partials, int64_t blocks, int64_t columns, float factor, float* out) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_add_partials)(partials, blocks, columns, factor, out);
}
double sum(const float* x, int64_t count) {
  dispatch_ready();
  return HWY_DYNAMIC_DISPATCH(run_sum)(x, count);
}
void block_sums_of_squares(const float* x, int64_t count, double* out) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_block_sums_of_squares)(x, count, out);
}

double sum_of_squares(const float* x, int64_t count) {
  dispatch_ready();
  return HWY_DYNAMIC_DISPATCH(run_sum_of_squares)(x, count);
}

}  // namespace heed::kernels
#endif
