// The product of bf16.h in vector registers, and in tiles. The multiplying instruction is a parameter, so that tests
// run the same loops on processors without it.
#if defined(HEED_KERNELS_ATTENTION_BF16_UNITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_BF16_UNITS_INL_H_
#undef HEED_KERNELS_ATTENTION_BF16_UNITS_INL_H_
#else
#define HEED_KERNELS_ATTENTION_BF16_UNITS_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "kernels/attention/bf16/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// Dot::add(sum, a, x): sum + the two products of each lane's pair.
// Dot::pair(low, high): two vectors of f32, rounded to bf16, as pairs.
template <class Dot>
struct VectorPairs {
  static constexpr int64_t kStep = 2;
  struct Scope {};

  static HWY_INLINE UV pair(FV low, FV high) { return Dot::pair(low, high); }

  template <Into kInto>
  static HWY_NOINLINE void multiply(const PairProduct& p) {
    cut_into_registers(
        p.rows, p.n, [&p]<int kRows, int kVectors>(int64_t row, int64_t lane) HWY_ATTR __attribute__((always_inline)) {
          multiply_registers<kRows, kVectors, kInto>(p, row, lane);
        });
  }

 private:
  template <int kRows, int kVectors, Into kInto>
  static HWY_INLINE void multiply_registers(const PairProduct& p, int64_t row, int64_t lane) {
    const int64_t depth = p.depth, c_row = p.c_row, a_row = p.a_row, x_row = p.x_row;
    float* const c = p.c + row * c_row + lane;
    const uint16_t* a = p.a + row * a_row;
    const uint32_t* x = p.x + lane;
    if (p.prefetch != nullptr) p.prefetch->issue();
    FV sum[kRows][kVectors];
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] = hn::Zero(kF);
        if (kInto != Into::fresh) __builtin_prefetch(c + r * c_row + v * kLanes, 1);
      }
    }
    for (int64_t k = depth; k > 0; k -= 2, a += 2, x += x_row) {
      UV lanes[kVectors];
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) lanes[v] = hn::Load(kU, x + v * kLanes);
      HWY_UNROLL(8)
      for (int r = 0; r < kRows; ++r) {
        uint32_t pair;
        std::memcpy(&pair, a + r * a_row, sizeof pair);
        const UV factor = hn::Set(kU, pair);
        HWY_UNROLL(4)
        for (int v = 0; v < kVectors; ++v) sum[r][v] = Dot::add(sum[r][v], factor, lanes[v]);
      }
    }
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) {
      const FV factor = kInto == Into::scaled ? hn::Load(kF, p.factors + lane + v * kLanes) : hn::Zero(kF);
      HWY_UNROLL(8)
      for (int r = 0; r < kRows; ++r) {
        float* const to = c + r * c_row + v * kLanes;
        hn::Store(combine<kInto>(kInto == Into::fresh ? factor : hn::Load(kF, to), sum[r][v], factor), kF, to);
      }
    }
  }
};

// Eight tiles of 16 rows of 64 bytes. Tiles has:
//   Scope                        sets the tiles up, and releases them
//   load<T>(from, row_bytes), store<T>(to, row_bytes), clear<T>()
//   dot<C, A, B>()               C (16, 16) f32 += A (16, 32) bf16 times B (16, 16) pairs
//   pair(low, high)              as in VectorPairs
// Four tiles hold sums of 32 rows and 32 lanes, and two tiles each operand: as many products as loads.
template <class Tiles>
struct TilePairs {
  static constexpr int64_t kStep = kPairDepth;
  using Scope = typename Tiles::Scope;

  static HWY_INLINE UV pair(FV low, FV high) { return Tiles::pair(low, high); }

  template <Into kInto>
  static HWY_NOINLINE void multiply(const PairProduct& p) {
    if (kInto == Into::scaled) {
      for (int64_t row = 0; row < p.rows; ++row) {
        for (int64_t lane = 0; lane < p.n; lane += kLanes) {
          float* const c = p.c + row * p.c_row + lane;
          hn::Store(hn::Mul(hn::Load(kF, c), hn::Load(kF, p.factors + lane)), kF, c);
        }
      }
    }
    constexpr bool kFresh = kInto == Into::fresh;
    for (int64_t lane = 0; lane < p.n; lane += 32) {
      const bool wide = p.n - lane > 16;
      for (int64_t row = 0; row < p.rows; row += 32) {
        const bool tall = p.rows - row > 16;
        if (tall && wide) tiles<2, 2, kFresh>(p, row, lane);
        if (tall && !wide) tiles<2, 1, kFresh>(p, row, lane);
        if (!tall && wide) tiles<1, 2, kFresh>(p, row, lane);
        if (!tall && !wide) tiles<1, 1, kFresh>(p, row, lane);
      }
    }
  }

 private:
  template <int kRows, int kStripe, bool kFresh>
  static HWY_INLINE void tiles(const PairProduct& p, int64_t row, int64_t lane) {
    if (p.prefetch != nullptr) p.prefetch->issue();
    begin<0, kFresh>(p, row, lane);
    if constexpr (kStripe > 1) begin<1, kFresh>(p, row, lane + 16);
    if constexpr (kRows > 1) begin<2, kFresh>(p, row + 16, lane);
    if constexpr (kRows > 1 && kStripe > 1) begin<3, kFresh>(p, row + 16, lane + 16);
    const int64_t a_bytes = p.a_row * 2, x_bytes = p.x_row * 4;
    const uint16_t* a = p.a + row * p.a_row;
    const uint32_t* x = p.x + lane;
    for (int64_t k = 0; k < p.depth; k += kPairDepth, a += kPairDepth, x += kPairDepth / 2 * p.x_row) {
      Tiles::template load<4>(a, a_bytes);
      Tiles::template load<6>(x, x_bytes);
      Tiles::template dot<0, 4, 6>();
      if constexpr (kStripe > 1) {
        Tiles::template load<7>(x + 16, x_bytes);
        Tiles::template dot<1, 4, 7>();
      }
      if constexpr (kRows > 1) {
        Tiles::template load<5>(a + 16 * p.a_row, a_bytes);
        Tiles::template dot<2, 5, 6>();
      }
      if constexpr (kRows > 1 && kStripe > 1) Tiles::template dot<3, 5, 7>();
    }
    end<0>(p, row, lane);
    if constexpr (kStripe > 1) end<1>(p, row, lane + 16);
    if constexpr (kRows > 1) end<2>(p, row + 16, lane);
    if constexpr (kRows > 1 && kStripe > 1) end<3>(p, row + 16, lane + 16);
  }

  // C has memory for `rows` rows only. A tile that reaches beyond them goes through a buffer.
  template <int kTile, bool kFresh>
  static HWY_INLINE void begin(const PairProduct& p, int64_t row, int64_t lane) {
    if (kFresh) {
      Tiles::template clear<kTile>();
      return;
    }
    const float* const c = p.c + row * p.c_row + lane;
    if (row + 16 <= p.rows) {
      Tiles::template load<kTile>(c, p.c_row * 4);
      return;
    }
    HWY_ALIGN float whole[16 * 16] = {};
    for (int64_t r = 0; r < p.rows - row; ++r) std::copy_n(c + r * p.c_row, 16, whole + r * 16);
    Tiles::template load<kTile>(whole, 64);
  }

  template <int kTile>
  static HWY_INLINE void end(const PairProduct& p, int64_t row, int64_t lane) {
    float* const c = p.c + row * p.c_row + lane;
    if (row + 16 <= p.rows) {
      Tiles::template store<kTile>(c, p.c_row * 4);
      return;
    }
    HWY_ALIGN float whole[16 * 16];
    Tiles::template store<kTile>(whole, 64);
    for (int64_t r = 0; r < p.rows - row; ++r) std::copy_n(whole + r * 16, 16, c + r * p.c_row);
  }
};

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
