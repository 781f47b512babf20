// The tile of the matrix product in tiles of AMX: 32 x 32 sums of pairs in four of them, as many products as loads.
//
// In tdpbf16ps a chain is cut every 16 pairs of k: within one the even and the odd numbers have sums of their own.
#if defined(HEED_KERNELS_GEMM_TILE_AMX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_GEMM_TILE_AMX_INL_H_
#undef HEED_KERNELS_GEMM_TILE_AMX_INL_H_
#else
#define HEED_KERNELS_GEMM_TILE_AMX_INL_H_
#endif

#include "kernels/gemm/tile-inl.h"

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// Tiles: as in kernels/attention/bf16/units-inl.h.
template <class Tiles>
struct AmxStep {
  static constexpr int64_t kCount = 2, kMultiple = 16, kRows = 32, kVectors = 2;
  static constexpr bool kEnds = false, kTransposesA = true;
  using Scope = typename Tiles::Scope;
  static constexpr auto& pack_a = pack_bf16_a_rows;
  static constexpr auto& pack_b = pack_bf16_b;
  template <bool kTransposedA>
  static TileFunction tile(int64_t vectors, int64_t rows) {
    static_assert(!kTransposedA);
    if (vectors > 1) return rows > 16 ? multiply<2, 2> : multiply<1, 2>;
    return rows > 16 ? multiply<2, 1> : multiply<1, 1>;
  }

 private:
  // kTall x kWide tiles. Where they reach beyond C they go through memory of their own.
  template <int kTall, int kWide>
  static HWY_NOINLINE void multiply(int64_t depth, const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                                    float* HWY_RESTRICT c, const float* next_c, int64_t c_row, int64_t last, bool fresh,
                                    int64_t rows, const TileExtras& /*extras*/) {
    const int64_t columns = (kWide - 1) * 16 + last;
    const bool whole = rows == 16 * kTall && last == 16;
    HWY_ALIGN float spare[16 * kTall * 16 * kWide];
    float* const sums = whole ? c : spare;
    const int64_t sums_row = whole ? c_row : 16 * kWide;
    if (!whole && !fresh) {
      for (int64_t r = 0; r < rows; ++r) std::memcpy(spare + r * sums_row, c + r * c_row, bytes(columns));
    }
    for (int64_t r = 0; r < rows; ++r, next_c += c_row) {
      for (int v = 0; v < kWide; ++v) __builtin_prefetch(next_c + v * 16, 1);
    }
    begin<0>(sums, sums_row, fresh);
    if constexpr (kWide > 1) begin<1>(sums + 16, sums_row, fresh);
    if constexpr (kTall > 1) begin<2>(sums + 16 * sums_row, sums_row, fresh);
    if constexpr (kTall > 1 && kWide > 1) begin<3>(sums + 16 * sums_row + 16, sums_row, fresh);
    constexpr int64_t kABytes = kDepthStride * 4, kBBytes = kWide * 64;
    for (int64_t p = 0; p < depth; p += 16, a += 16, b += 16 * 16 * kWide) {
      Tiles::template load<4>(a, kABytes);
      Tiles::template load<6>(b, kBBytes);
      Tiles::template dot<0, 4, 6>();
      if constexpr (kWide > 1) {
        Tiles::template load<7>(b + 16, kBBytes);
        Tiles::template dot<1, 4, 7>();
      }
      if constexpr (kTall > 1) {
        Tiles::template load<5>(a + 16 * kDepthStride, kABytes);
        Tiles::template dot<2, 5, 6>();
      }
      if constexpr (kTall > 1 && kWide > 1) Tiles::template dot<3, 5, 7>();
    }
    Tiles::template store<0>(sums, sums_row * 4);
    if constexpr (kWide > 1) Tiles::template store<1>(sums + 16, sums_row * 4);
    if constexpr (kTall > 1) Tiles::template store<2>(sums + 16 * sums_row, sums_row * 4);
    if constexpr (kTall > 1 && kWide > 1) Tiles::template store<3>(sums + 16 * sums_row + 16, sums_row * 4);
    if (!whole) {
      for (int64_t r = 0; r < rows; ++r) std::memcpy(c + r * c_row, spare + r * sums_row, bytes(columns));
    }
  }

  static size_t bytes(int64_t floats) { return static_cast<size_t>(floats) * sizeof(float); }

  template <int kTile>
  static HWY_INLINE void begin(const float* from, int64_t row, bool fresh) {
    if (fresh) {
      Tiles::template clear<kTile>();
    } else {
      Tiles::template load<kTile>(from, row * 4);
    }
  }
};

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // include guard
