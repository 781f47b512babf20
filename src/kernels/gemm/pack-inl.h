// The sizes of the matrix product's tiles, and the order in which it lays out its operands: f32.
// Include guard per target, as Highway wants it.
#if defined(HEED_KERNELS_GEMM_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_GEMM_PACK_INL_H_
#undef HEED_KERNELS_GEMM_PACK_INL_H_
#else
#define HEED_KERNELS_GEMM_PACK_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "kernels/gemm/gemm.h"
#include "kernels/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

using kernels::Gemm;
using kernels::PackedB;

// The register tile: kTileRows x (kTileVectors * kLanes) elements of C.
#if HWY_TARGET == HWY_AVX3
constexpr int kTileRows = 8, kTileVectors = 3;
#elif HWY_TARGET == HWY_AVX2
constexpr int kTileRows = 6, kTileVectors = 2;
#else  // one lane, or four emulated ones
constexpr int kTileRows = 4, kTileVectors = 2;
#endif
// k is cut here. With AVX-512 a panel of B, 98 KB, stays in L2 while the tiles of A stay in L1. C is read and written
// again for each cut: with 256, the output layer of a model with 58,101 tokens took 4 % longer (Zen 5). With AVX2 a
// panel, 16 KB, stays in L1 itself (Goto and van de Geijn 2008): in 6 cycles a tile then loads 24 bytes of A from L2,
// and not 96 of B. Translating with a beam of 5 took 2 to 7 % less time than with tiles of 4 x 24 (Zen 3).
constexpr bool kPanelInL1 = HWY_TARGET == HWY_AVX2;
constexpr int64_t kBlockDepth = kPanelInL1 ? 256 : 512;
constexpr int64_t kLeastDepth = 256;  // the fewest that a cut leaves, where it is for B to stay in L2
constexpr int64_t kBlockRows = 192;   // rows of A packed at a time
// Rows, or tiles, of packed A: not a power of two apart, which would share cache sets.
constexpr int64_t kDepthStride = kBlockDepth + 16, kTileStride = kTileRows * kBlockDepth + 16;
constexpr int64_t kGrainNumbers = 65536;     // numbers of B below which another thread costs more than it brings
constexpr int64_t kGroupFloats = 96 * 1024;  // of B that rows of A are multiplied with in one go: 384 KB of L2
// B is prefetched so many steps of k ahead. From the third-level cache, 16 make the product 2 to 5 % slower.
constexpr int kPrefetchSteps = 64;
constexpr int64_t kPrefetchRows = 12;
constexpr int64_t kPackedGrain = 8192;      // numbers of B below which packing is not worth another thread
constexpr int64_t kPackedDepth = 4096;      // most of k that is packed at once
constexpr int64_t kPackedFloats = 1 << 23;  // most of B that is packed at once: 32 MB

// Columns of C cut into panels of at most so many vectors, as even as they go: 32 + 32 is faster than 48 + 16.
struct Panels {
  int64_t columns, vectors, count;
  Panels(int64_t n, int64_t most)
      : columns(n), vectors((n + kLanes - 1) / kLanes), count((vectors + most - 1) / most) {}
  int64_t first(int64_t panel) const { return vectors * panel / count; }  // in vectors
};

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
// kLanes rows of 4 floats, `stride` apart, transposed: out[i] holds element i of every row.
HWY_INLINE void transpose4(const float* HWY_RESTRICT rows, int64_t stride, FV out[4]) {
  const F d;
  const hn::RebindToUnsigned<F> du;
  const hn::Repartition<uint64_t, F> du64;
  const hn::CappedTag<float, 4> d4;
  FV v[4];
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    const float* const row = rows + q * stride;
#if HWY_TARGET == HWY_AVX3
    const hn::CappedTag<float, 8> d8;
    const auto low = hn::Combine(d8, hn::LoadU(d4, row + 4 * stride), hn::LoadU(d4, row));
    const auto high = hn::Combine(d8, hn::LoadU(d4, row + 12 * stride), hn::LoadU(d4, row + 8 * stride));
    v[q] = hn::Combine(d, high, low);
#else
    v[q] = hn::Combine(d, hn::LoadU(d4, row + 4 * stride), hn::LoadU(d4, row));
#endif
  }
  const auto pair = [&](FV x, FV y, bool upper) {
    const auto a = hn::BitCast(du, x), b = hn::BitCast(du, y);
    return hn::BitCast(du64, upper ? hn::InterleaveUpper(du, a, b) : hn::InterleaveLower(du, a, b));
  };
  const auto low01 = pair(v[0], v[1], false), low23 = pair(v[2], v[3], false);
  const auto high01 = pair(v[0], v[1], true), high23 = pair(v[2], v[3], true);
  out[0] = hn::BitCast(d, hn::InterleaveLower(du64, low01, low23));
  out[1] = hn::BitCast(d, hn::InterleaveUpper(du64, low01, low23));
  out[2] = hn::BitCast(d, hn::InterleaveLower(du64, high01, high23));
  out[3] = hn::BitCast(d, hn::InterleaveUpper(du64, high01, high23));
}
#endif

// out[p * width + lane] = rows[lane * stride + p] of the first `lanes` lanes, zeros in the others.
HWY_INLINE void transpose(const float* HWY_RESTRICT rows, int64_t stride, int64_t lanes, int64_t depth,
                          float* HWY_RESTRICT out, int64_t width) {
  int64_t p = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const F d;
  for (; lanes == kLanes && p + 4 <= depth; p += 4) {
    // The rows of the next vector: too short for the processor's own prefetching (2.5 times as fast from memory).
    const float* const next = rows + (kLanes + p % kLanes) * stride + p;
    for (int i = 0; i < 4; ++i) __builtin_prefetch(next + i * stride);
    FV t[4];
    transpose4(rows + p, stride, t);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) hn::Store(t[i], d, out + (p + i) * width);
  }
#endif
  for (; p < depth; ++p) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      out[p * width + lane] = lane < lanes ? rows[lane * stride + p] : 0.0f;
    }
  }
}

// Rows [k0, k0 + depth) of the columns of `vectors` vectors from column j0, k after k; zeros beyond column n.
HWY_NOINLINE void pack_f32_b(const Gemm& g, int64_t k0, int64_t depth, int64_t j0, int64_t vectors,
                             float* HWY_RESTRICT out) {
  const F d;
  const int64_t width = vectors * kLanes;
  const int64_t valid = std::min(width, g.n - j0);
  const float* const b = g.b + k0 * g.b_row + j0 * g.b_column;
  if (g.b_column == 1) {
    for (int64_t p = 0; p < depth; ++p) {
      const float* const row = b + p * g.b_row;
      for (int64_t j = 0; j < valid; j += 16) __builtin_prefetch(row + kPrefetchRows * g.b_row + j);
      int64_t j = 0;
      for (; j + kLanes <= valid; j += kLanes) hn::Store(hn::LoadU(d, row + j), d, out + p * width + j);
      if (j < valid) hn::Store(load_first(row + j, valid - j), d, out + p * width + j);
    }
    return;
  }
  if (g.b_row == 1) {
    for (int64_t v = 0; v < vectors; ++v) {
      const int64_t lanes = std::min<int64_t>(kLanes, valid - v * kLanes);
      transpose(b + v * kLanes * g.b_column, g.b_column, lanes, depth, out + v * kLanes, width);
    }
    return;
  }
  for (int64_t p = 0; p < depth; ++p) {
    for (int64_t j = 0; j < width; ++j) out[p * width + j] = j < valid ? b[p * g.b_row + j * g.b_column] : 0.0f;
  }
}

// Row i of the block at out + i * kDepthStride; or, where A is given transposed, the kTileRows elements of step p of
// tile t at out + t * kTileStride + p * kTileRows.
HWY_NOINLINE void pack_f32_a(const Gemm& g, int64_t i0, int64_t rows, int64_t k0, int64_t depth, bool transposed,
                             float* HWY_RESTRICT out) {
  const float* const a = g.a + i0 * g.a_row + k0 * g.a_column;
  if (transposed) {
    for (int64_t p = 0; p < depth; ++p) {
      const float* const from = a + p * g.a_column;
      float* const to = out + p * kTileRows;
      int64_t i = 0;
      for (; i + kTileRows <= rows; i += kTileRows)
        std::memcpy(to + i / kTileRows * kTileStride, from + i, kTileRows * sizeof(float));
      for (int64_t j = i; j < rows; ++j) to[i / kTileRows * kTileStride + j - i] = from[j];
    }
    return;
  }
  const F d;
  for (int64_t i = 0; i < rows; ++i) {
    const float* const from = a + i * g.a_row;
    float* const to = out + i * kDepthStride;
    if (g.a_column == 1) {
      int64_t p = 0;
      for (; p + kLanes <= depth; p += kLanes) hn::StoreU(hn::LoadU(d, from + p), d, to + p);
      if (p < depth) store_first(load_first(from + p, depth - p), to + p, depth - p);
    } else {
      for (int64_t p = 0; p < depth; ++p) to[p] = from[p * g.a_column];
    }
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
