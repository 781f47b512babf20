// The order of pack-inl.h with two neighbours in k, rounded to bf16, in the place of one f32: so one tile loop reads
// both.
#if defined(HEED_KERNELS_GEMM_PACK_BF16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_GEMM_PACK_BF16_INL_H_
#undef HEED_KERNELS_GEMM_PACK_BF16_INL_H_
#else
#define HEED_KERNELS_GEMM_PACK_BF16_INL_H_
#endif

#include "kernels/gemm/pack-inl.h"
#include "kernels/simd/bf16-inl.h"

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// Pairs are stored as floats of the same bits: nothing computes with them before bf16_dot.
HWY_INLINE void store_pairs(__m512i pairs, float* out) { _mm512_storeu_si512(out, pairs); }

// (count + 1) / 2 pairs, the last one's second number zero where `count` is odd; writes up to a multiple of 16 pairs.
HWY_INLINE void round_row(const float* HWY_RESTRICT row, int64_t count, float* HWY_RESTRICT out) {
  int64_t k = 0;
  for (; k + 32 <= count; k += 32) {
    store_pairs(bf16_in_turn(_mm512_loadu_ps(row + k), _mm512_loadu_ps(row + k + 16)), out + k / 2);
  }
  if (k < count) {
    const int64_t low = std::min<int64_t>(16, count - k);
    store_pairs(bf16_in_turn(load_first(row + k, low).raw, load_first(row + k + low, count - k - low).raw),
                out + k / 2);
  }
}

HWY_INLINE void round_strided_row(const float* HWY_RESTRICT row, int64_t stride, int64_t count,
                                  float* HWY_RESTRICT out) {
  if (stride == 1) {
    round_row(row, count, out);
    return;
  }
  HWY_ALIGN float numbers[2 * kBlockDepth];
  for (int64_t k = 0; k < count; ++k) numbers[k] = row[k * stride];
  round_row(numbers, count, out);
}

// The first `lanes` numbers of two rows as pairs; of the rows the first `left` exist, the others are zeros.
HWY_INLINE __m512i pair_of_rows(const float* low, int64_t stride, int64_t lanes, int64_t left) {
  const __m512 zero = _mm512_setzero_ps();
  return bf16_pairs(left > 0 ? load_first(low, lanes).raw : zero,
                    left > 1 ? load_first(low + stride, lanes).raw : zero);
}

// pack_f32_b with pairs [p0, p0 + depth), zeros beyond k.
HWY_NOINLINE void pack_bf16_b(const Gemm& g, int64_t p0, int64_t depth, int64_t j0, int64_t vectors,
                              float* HWY_RESTRICT out) {
  const int64_t width = vectors * kLanes;
  const int64_t valid = std::min(width, g.n - j0);
  const int64_t numbers = std::min(2 * depth, g.k - 2 * p0);
  const float* const b = g.b + 2 * p0 * g.b_row + j0 * g.b_column;
  if (g.b_column == 1) {
    for (int64_t p = 0; p < depth; ++p) {
      const float* const low = b + 2 * p * g.b_row;
      for (int64_t j = 0; j < width; j += kLanes) {
        const int64_t lanes = std::min<int64_t>(kLanes, valid - j);
        store_pairs(pair_of_rows(low + j, g.b_row, lanes, numbers - 2 * p), out + p * width + j);
      }
    }
    return;
  }
  HWY_ALIGN float rows[kLanes * kDepthStride];
  for (int64_t v = 0; v < vectors; ++v) {
    const int64_t lanes = std::min<int64_t>(kLanes, valid - v * kLanes);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      round_strided_row(b + (v * kLanes + lane) * g.b_column, g.b_row, numbers, rows + lane * kDepthStride);
    }
    transpose(rows, kDepthStride, lanes, depth, out + v * kLanes, width);
  }
}

HWY_INLINE void round_rows_of_a(const Gemm& g, int64_t i0, int64_t rows, int64_t p0, int64_t depth, float* out) {
  const int64_t numbers = std::min(2 * depth, g.k - 2 * p0);
  const float* const a = g.a + i0 * g.a_row + 2 * p0 * g.a_column;
  for (int64_t i = 0; i < rows; ++i) {
    round_strided_row(a + i * g.a_row, g.a_column, numbers, out + i * kDepthStride);
  }
}

// pack_f32_a with pairs [p0, p0 + depth), zeros beyond k.
HWY_NOINLINE void pack_bf16_a(const Gemm& g, int64_t i0, int64_t rows, int64_t p0, int64_t depth, bool transposed,
                              float* HWY_RESTRICT out) {
  if (!transposed) {
    round_rows_of_a(g, i0, rows, p0, depth, out);
    return;
  }
  const float* const a = g.a + i0 * g.a_row + 2 * p0 * g.a_column;
  static_assert(2 * kTileRows == kLanes);
  for (int64_t p = 0; p < depth; ++p) {
    float* to = out + p * kTileRows;
    for (int64_t i = 0; i < rows; i += kLanes, to += 2 * kTileStride) {
      const int64_t lanes = std::min<int64_t>(kLanes, rows - i), left = g.k - 2 * (p0 + p);
      const __m512i pairs = pair_of_rows(a + 2 * p * g.a_column + i, g.a_column, lanes, left);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_castsi512_si256(pairs));
      if (lanes > kTileRows) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + kTileStride), _mm512_extracti64x4_epi64(pairs, 1));
      }
    }
  }
}

// The same as rows, whichever way A is given; `depth` is a multiple of 16.
HWY_NOINLINE void pack_bf16_a_rows(const Gemm& g, int64_t i0, int64_t rows, int64_t p0, int64_t depth, bool transposed,
                                   float* HWY_RESTRICT out) {
  if (!transposed) {
    round_rows_of_a(g, i0, rows, p0, depth, out);
    return;
  }
  HWY_ALIGN float square[kLanes * kLanes];
  for (int64_t p = 0; p < depth; p += kLanes) {
    const float* const a = g.a + i0 * g.a_row + 2 * (p0 + p) * g.a_column;
    for (int64_t i = 0; i < rows; i += kLanes) {
      const int64_t lanes = std::min<int64_t>(kLanes, rows - i), left = g.k - 2 * (p0 + p);
      for (int64_t q = 0; q < kLanes; ++q) {
        store_pairs(pair_of_rows(a + 2 * q * g.a_column + i, g.a_column, lanes, left - 2 * q), square + q * kLanes);
      }
      transpose(square, kLanes, kLanes, lanes, out + i * kDepthStride + p, kDepthStride);
    }
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // include guard
