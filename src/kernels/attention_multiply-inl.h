// The one product behind fused attention, in registers: C (rows, n) (+)= A (rows, depth) X (depth, n).
//
// n runs over vector lanes; every element of C is one chain over the depth, in order. A is read by broadcast through
// two strides, so it may lie either way round: scores (A = K), outputs (A = V transposed), and all gradients are this
// product.
#if defined(HEED_KERNELS_ATTENTION_MULTIPLY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_MULTIPLY_INL_H_
#undef HEED_KERNELS_ATTENTION_MULTIPLY_INL_H_
#else
#define HEED_KERNELS_ATTENTION_MULTIPLY_INL_H_
#endif

#include "kernels/attention_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

struct Product {
  float* c;
  int64_t c_row;
  const float* a;
  int64_t a_row, a_depth;
  const float* x;
  int64_t x_row;
  int64_t rows, depth, n;  // n a multiple of 16
};

// Registers: 8 rows x 3 vectors of 32 on AVX-512, 4 x 3 of 16 on AVX2: enough chains to hide the latency of the
// multiply-add, and fewer than two loads for each.
constexpr int64_t kMostRows = HWY_TARGET <= HWY_AVX3 ? 8 : 4;

enum class Start { zero, c };

template <int kRows, int kVectors, Start kStart>
HWY_INLINE void multiply_registers(const Product& p, int64_t row, int64_t lane) {
  FV sum[kRows][kVectors];
  float* const c = p.c + row * p.c_row + lane;
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(3)
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = kStart == Start::c ? hn::Load(kF, c + r * p.c_row + v * kLanes) : hn::Zero(kF);
    }
  }
  const float* a = p.a + row * p.a_row;
  const float* x = p.x + lane;
  const int64_t a_row = p.a_row, a_depth = p.a_depth, x_row = p.x_row;
  for (int64_t k = p.depth; k > 0; --k, a += a_depth, x += x_row) {
    FV lanes[kVectors];
    HWY_UNROLL(3)
    for (int v = 0; v < kVectors; ++v) lanes[v] = hn::Load(kF, x + v * kLanes);
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const FV factor = hn::Set(kF, a[r * a_row]);
      HWY_UNROLL(3)
      for (int v = 0; v < kVectors; ++v) sum[r][v] = Fma(factor, lanes[v], sum[r][v]);
    }
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(3)
    for (int v = 0; v < kVectors; ++v) hn::Store(sum[r][v], kF, c + r * p.c_row + v * kLanes);
  }
}

template <int kVectors, Start kStart>
HWY_INLINE void multiply_panel(const Product& p, int64_t lane) {
  int64_t row = 0;
  for (; row + kMostRows <= p.rows; row += kMostRows) multiply_registers<kMostRows, kVectors, kStart>(p, row, lane);
  if (kMostRows > 4 && row + 4 <= p.rows) {
    multiply_registers<4, kVectors, kStart>(p, row, lane);
    row += 4;
  }
  if (row + 2 <= p.rows) {
    multiply_registers<2, kVectors, kStart>(p, row, lane);
    row += 2;
  }
  if (row < p.rows) multiply_registers<1, kVectors, kStart>(p, row, lane);
}

template <Start kStart>
HWY_NOINLINE void multiply(const Product& p) {
  int64_t left = p.n / kLanes, lane = 0;
  while (left > 0) {
    // Four vectors are two and two, not three and one.
    if (left == 3 || left > 4) {
      multiply_panel<3, kStart>(p, lane);
      left -= 3, lane += 3 * kLanes;
    } else if (left >= 2) {
      multiply_panel<2, kStart>(p, lane);
      left -= 2, lane += 2 * kLanes;
    } else {
      multiply_panel<1, kStart>(p, lane);
      left -= 1, lane += kLanes;
    }
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
