// The one matrix product behind f32 attention, in registers: C (rows, n) = A (rows, depth) X (depth, n), or added to C.
//
// n runs over vector lanes. Every element is one chain of multiply-adds over the depth, in order, which is then added
// to C. A is read by broadcast through two strides, so it may be transposed: scores (A = K), outputs (A = V transposed)
// and all gradients are this product.
#if defined(HEED_KERNELS_ATTENTION_TILE_MULTIPLY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_TILE_MULTIPLY_INL_H_
#undef HEED_KERNELS_ATTENTION_TILE_MULTIPLY_INL_H_
#else
#define HEED_KERNELS_ATTENTION_TILE_MULTIPLY_INL_H_
#endif

#include "kernels/attention/tile/prefetch.h"
#include "kernels/simd/math-inl.h"

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
  int64_t rows, depth, n;          // n a multiple of 16
  const float* factors = nullptr;  // Into::scaled: n numbers
  kernels::Prefetch* prefetch = nullptr;
};

// What is stored: C = sum, C = C + sum, or C = C * factors + sum.
enum class Into { fresh, added, scaled };

// Rows of A at a time, for this many vectors of X. There must be enough chains to hide the latency of the multiply-add
// (4 cycles on two ports), less than one load a multiply-add, and sums for at most the 32 registers of AVX-512 or the
// 16 of AVX2.
constexpr int rows_for(int vectors) {
#if HWY_TARGET <= HWY_AVX3
  return vectors == 4 ? 6 : 8;
#else
  return vectors == 3 ? 4 : vectors == 2 ? 6 : 8;
#endif
}

template <Into kInto>
HWY_INLINE FV combine(FV c, FV sum, FV factor) {
  if (kInto == Into::fresh) return sum;
  return kInto == Into::added ? hn::Add(c, sum) : fma(c, factor, sum);
}

template <int kRows, int kVectors, Into kInto>
HWY_INLINE void multiply_registers(const Product& p, int64_t row, int64_t lane) {
  // Local copies: the compiler must assume that stores of vectors change what `p` refers to.
  const int64_t depth = p.depth, c_row = p.c_row, a_row = p.a_row, a_depth = p.a_depth, x_row = p.x_row;
  const float* const factors = p.factors + lane;
  float* const c = p.c + row * c_row + lane;
  const float* a = p.a + row * a_row;
  const float* x = p.x + lane;
  if (p.prefetch != nullptr) p.prefetch->issue();
  FV sum[kRows][kVectors];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = hn::Zero(kF);
      if (kInto != Into::fresh) __builtin_prefetch(c + r * c_row + v * kLanes, 1);  // often in L2 only
    }
  }
  const int64_t later = 12 * a_depth;
  for (int64_t k = depth; k > 0; --k, a += a_depth, x += x_row) {
    // Where rows of A run along the depth (values), every step reads another cache line: 3 % of that product.
    __builtin_prefetch(a + later);
    FV lanes[kVectors];
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) lanes[v] = hn::Load(kF, x + v * kLanes);
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const FV factor = hn::Set(kF, a[r * a_row]);
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) sum[r][v] = fma(factor, lanes[v], sum[r][v]);
    }
  }
  HWY_UNROLL(4)
  for (int v = 0; v < kVectors; ++v) {
    const FV factor = kInto == Into::scaled ? hn::Load(kF, factors + v * kLanes) : hn::Zero(kF);
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      float* const to = c + r * c_row + v * kLanes;
      hn::Store(combine<kInto>(kInto == Into::fresh ? factor : hn::Load(kF, to), sum[r][v], factor), kF, to);
    }
  }
}

// Cuts C (rows, n) into pieces that fit the registers and calls piece.operator()<kRows, kVectors>(row, lane) for each.
// `piece` is inlined: a function call would cost a percent or two of a piece that is 64 steps deep.
template <int kVectors, class Piece>
HWY_INLINE void cut_panel(int64_t rows, int64_t lane, const Piece& piece) {
  constexpr int kMost = rows_for(kVectors);
  int64_t row = 0;
  for (; row + kMost <= rows; row += kMost) piece.template operator()<kMost, kVectors>(row, lane);
  if (kMost > 4 && row + 4 <= rows) {
    piece.template operator()<4, kVectors>(row, lane);
    row += 4;
  }
  if (row + 2 <= rows) {
    piece.template operator()<2, kVectors>(row, lane);
    row += 2;
  }
  if (row < rows) piece.template operator()<1, kVectors>(row, lane);
}

template <class Piece>
HWY_INLINE void cut_into_registers(int64_t rows, int64_t n, const Piece& piece) {
  int64_t left = n / kLanes, lane = 0;
  while (left > 0) {
#if HWY_TARGET <= HWY_AVX3
    if (left == 4 || left > 6) {
      cut_panel<4>(rows, lane, piece);
      left -= 4, lane += 4 * kLanes;
      continue;
    }
#endif
    if (left == 3 || left > 4) {  // four are two and two, not three and one
      cut_panel<3>(rows, lane, piece);
      left -= 3, lane += 3 * kLanes;
    } else if (left >= 2) {
      cut_panel<2>(rows, lane, piece);
      left -= 2, lane += 2 * kLanes;
    } else {
      cut_panel<1>(rows, lane, piece);
      left -= 1, lane += kLanes;
    }
  }
}

template <Into kInto>
HWY_NOINLINE void multiply(const Product& p) {
  cut_into_registers(
      p.rows, p.n, [&p]<int kRows, int kVectors>(int64_t row, int64_t lane) HWY_ATTR __attribute__((always_inline)) {
        multiply_registers<kRows, kVectors, kInto>(p, row, lane);
      });
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
