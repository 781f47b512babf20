// The tile of the matrix product in vector registers, and what it multiplies: numbers, or pairs of them in bf16.
#if defined(HEED_KERNELS_GEMM_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_GEMM_TILE_INL_H_
#undef HEED_KERNELS_GEMM_TILE_INL_H_
#else
#define HEED_KERNELS_GEMM_TILE_INL_H_
#endif

#include <utility>

#include "kernels/gemm/pack-inl.h"
#include "kernels/gemm/pack_bf16-inl.h"
#include "kernels/rows/activations-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// What a tile does beside its chains: while they run it prefetches `lines` cache lines from `ahead` on into L2, and
// while its sums are in registers it adds the bias and applies ReLU.
struct TileExtras {
  const float* ahead = nullptr;
  int64_t lines = 0;
  const float* bias = nullptr;  // of the tile's first column
  bool relu = false;
};

// One tile of C: kRows x (kVectors - 1) vectors and `last` lanes of one more. `fresh`: the chains start from 0.
// Step::add(sum, a, b) multiplies and adds.
template <class Step, int kRows, int kVectors, bool kTransposedA>
HWY_NOINLINE void multiply_tile(int64_t depth, const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                                float* HWY_RESTRICT c, const float* next_c, int64_t c_row, int64_t last, bool fresh,
                                int64_t /*rows*/, const TileExtras& extras) {
  const F d;
  FV sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const float* const from = c + i * c_row + v * kLanes;
      sum[i][v] = fresh                                ? hn::Zero(d)
                  : v + 1 < kVectors || last == kLanes ? hn::LoadU(d, from)
                                                       : load_first(from, last);
    }
  }
  constexpr int64_t kRowStride = kTransposedA ? 1 : kDepthStride, kStep = kTransposedA ? kTileRows : 1;
  // The next tile's rows of C are prefetched one at a time: all at once they would hold up the loads of B.
  int64_t done = 0, fetched = 0;
  for (int64_t row = 1; row <= kRows; ++row) {
    for (int v = 0; v < kVectors; ++v) __builtin_prefetch(next_c + v * kLanes, 1);
    next_c += c_row;
    for (const int64_t lines = extras.lines * row / kRows; fetched < lines; ++fetched)
      __builtin_prefetch(extras.ahead + fetched * 16, 0, 2);
    const int64_t stop = depth * row / kRows;
    for (; done < stop; ++done) {
      FV column[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        column[v] = hn::Load(d, b + v * kLanes);
        if (v * kLanes % 16 == 0) __builtin_prefetch(b + (kPrefetchSteps * kVectors + v) * kLanes);
      }
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        const FV x = hn::Set(d, a[i * kRowStride]);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sum[i][v] = Step::add(sum[i][v], x, column[v]);
      }
      a += kStep;
      b += kVectors * kLanes;
    }
  }
  if (extras.bias != nullptr) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const float* const from = extras.bias + v * kLanes;
      const FV bias = v + 1 < kVectors || last == kLanes ? hn::LoadU(d, from) : load_first(from, last);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) sum[i][v] = hn::Add(sum[i][v], bias);
    }
  }
  if (extras.relu) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) ReluFunction::values(d, sum[i]);
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      float* const to = c + i * c_row + v * kLanes;
      if (v + 1 < kVectors || last == kLanes) {
        hn::StoreU(sum[i][v], d, to);
      } else {
        store_first(sum[i][v], to, last);
      }
    }
  }
}

// depth, a, b, c, next_c, c_row, last, fresh, rows, extras
using TileFunction = void (*)(int64_t, const float*, const float*, float*, const float*, int64_t, int64_t, bool,
                              int64_t, const TileExtras&);

template <class Step, bool kTransposedA, int kVectors, size_t... kRow>
constexpr void fill_table(TileFunction (&table)[kTileVectors][kTileRows], std::index_sequence<kRow...>) {
  ((table[kVectors - 1][kRow] = multiply_tile<Step, static_cast<int>(kRow) + 1, kVectors, kTransposedA>), ...);
}

// tile(vectors, rows): the function for that shape.
template <class Step, bool kTransposedA>
TileFunction tile_for(int64_t vectors, int64_t rows) {
  struct Table {
    TileFunction tile[kTileVectors][kTileRows];
    constexpr Table() : tile{} {
      constexpr auto rows_ = std::make_index_sequence<kTileRows>();
      fill_table<Step, kTransposedA, 1>(tile, rows_);
      fill_table<Step, kTransposedA, 2>(tile, rows_);
      if constexpr (kTileVectors > 2) fill_table<Step, kTransposedA, kTileVectors>(tile, rows_);
    }
  };
  static constexpr Table table;
  return table.tile[vectors - 1][rows - 1];
}

// ---- What a step of the chain multiplies ----
//
// A Step:
//   kCount                       numbers of k in a step
//   kMultiple                    steps of k are filled up to a multiple of this with zeros
//   kRows, kVectors              of the largest tile
//   pack_a, pack_b               lay out the operands, as pack_f32_a and pack_f32_b do
//   kEnds                        whether its tiles do what TileExtras says
//   kTransposesA                 whether pack_a makes rows of a transposed A, too; if not, it makes tiles, which
//                                tile<true> reads
//   Scope                        open while tiles are computed
//   tile<kTransposedA>(v, rows)  the function for that many vectors and rows

struct F32Step {
  static constexpr int64_t kCount = 1, kMultiple = 1, kRows = kTileRows, kVectors = kTileVectors;
  static constexpr bool kEnds = true, kTransposesA = false;
  struct Scope {};
  static HWY_INLINE FV add(FV sum, FV a, FV b) { return fma(a, b, sum); }
  static constexpr auto& pack_a = pack_f32_a;
  static constexpr auto& pack_b = pack_f32_b;
  template <bool kTransposedA>
  static TileFunction tile(int64_t vectors, int64_t rows) {
    return tile_for<F32Step, kTransposedA>(vectors, rows);
  }
};

#if HWY_TARGET == HWY_AVX3
struct Bf16Step {
  static constexpr int64_t kCount = 2, kMultiple = 1, kRows = kTileRows, kVectors = kTileVectors;
  static constexpr bool kEnds = true, kTransposesA = false;
  struct Scope {};
  static HWY_INLINE FV add(FV sum, FV a, FV b) {
    return FV{bf16_dot(sum.raw, _mm512_castps_si512(a.raw), _mm512_castps_si512(b.raw))};
  }
  static constexpr auto& pack_a = pack_bf16_a;
  static constexpr auto& pack_b = pack_bf16_b;
  template <bool kTransposedA>
  static TileFunction tile(int64_t vectors, int64_t rows) {
    return tile_for<Bf16Step, kTransposedA>(vectors, rows);
  }
};
#endif

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
