// Rows of a tile transposed into columns, one lane a row, and back.
#if defined(HEED_KERNELS_ATTENTION_TILE_COLUMNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_TILE_COLUMNS_INL_H_
#undef HEED_KERNELS_ATTENTION_TILE_COLUMNS_INL_H_
#else
#define HEED_KERNELS_ATTENTION_TILE_COLUMNS_INL_H_
#endif

#include <algorithm>

#include "kernels/attention/tile/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

#if HWY_TARGET != HWY_SCALAR
using Quad = hn::CappedTag<float, 4>;
constexpr Quad kQuad;
constexpr int64_t kQuads = kLanes / 4;  // 128-bit blocks of a vector

// The four 4 x 4 transposes within 128-bit blocks: element m of block b of in[n] becomes element n of block b of
// out[m].
HWY_INLINE void transpose_blocks(FV (&v)[4]) {
  const FV ac_low = hn::InterleaveLower(kF, v[0], v[2]), bd_low = hn::InterleaveLower(kF, v[1], v[3]);
  const FV ac_high = hn::InterleaveUpper(kF, v[0], v[2]), bd_high = hn::InterleaveUpper(kF, v[1], v[3]);
  v[0] = hn::InterleaveLower(kF, ac_low, bd_low);
  v[1] = hn::InterleaveUpper(kF, ac_low, bd_low);
  v[2] = hn::InterleaveLower(kF, ac_high, bd_high);
  v[3] = hn::InterleaveUpper(kF, ac_high, bd_high);
}

// Four floats at column c of rows[0], rows[4], ... as the 128-bit blocks of one vector. It is put together in
// registers: a load across several recent stores would wait until all of them reach the cache.
HWY_INLINE FV load_blocks(const float* const* rows, int64_t c) {
#if HWY_TARGET <= HWY_AVX3
  const hn::Half<F> half;
  return hn::Combine(kF, hn::Combine(half, hn::LoadU(kQuad, rows[12] + c), hn::LoadU(kQuad, rows[8] + c)),
                     hn::Combine(half, hn::LoadU(kQuad, rows[4] + c), hn::LoadU(kQuad, rows[0] + c)));
#elif HWY_TARGET == HWY_AVX2
  return hn::Combine(kF, hn::LoadU(kQuad, rows[4] + c), hn::LoadU(kQuad, rows[0] + c));
#else
  return hn::LoadU(kQuad, rows[0] + c);
#endif
}

// The inverse of load_blocks().
HWY_INLINE void store_blocks(FV v, float* const* rows, int64_t c) {
#if HWY_TARGET <= HWY_AVX3
  const hn::Half<F> half;
  const auto low = hn::LowerHalf(half, v), high = hn::UpperHalf(half, v);
  hn::StoreU(hn::LowerHalf(kQuad, low), kQuad, rows[0] + c);
  hn::StoreU(hn::UpperHalf(kQuad, low), kQuad, rows[4] + c);
  hn::StoreU(hn::LowerHalf(kQuad, high), kQuad, rows[8] + c);
  hn::StoreU(hn::UpperHalf(kQuad, high), kQuad, rows[12] + c);
#elif HWY_TARGET == HWY_AVX2
  hn::StoreU(hn::LowerHalf(kQuad, v), kQuad, rows[0] + c);
  hn::StoreU(hn::UpperHalf(kQuad, v), kQuad, rows[4] + c);
#else
  hn::StoreU(v, kQuad, rows[0] + c);
#endif
}

// A copy of some columns of rows that are far apart. Rows a power of two apart share a few sets of the L1 cache. 48 of
// them, read four columns at a time, would be fetched again at every step (16 heads forward: 1.5 % slower; with a bias:
// 4 %).
constexpr int64_t kNear = 64;
struct NearRows {
  HWY_ALIGN float memory[kTileQueries * kNear];
  float* rows[kTileQueries];
  void prepare(int64_t width) {
    for (int64_t r = 0; r < width; ++r) rows[r] = memory + r * kNear;
  }
};
// Whether more of these rows share a set than a cache with 8 ways of 4 KB can hold.
HWY_INLINE bool share_cache_sets(const float* const* rows, int64_t count) {
  if (count <= 8) return false;
  const int64_t stride = (rows[1] - rows[0]) * 4, power_of_two = stride & -stride;
  return count * std::min<int64_t>(power_of_two, 4096) > 8 * 4096;
}
#endif

// destination[c][r] = f(rows[r][c * column]), where f maps a vector of lanes.
template <class Map>
HWY_INLINE void pack_rows(const Tile& tile, const float* const* rows, int64_t column, int64_t columns,
                          float* HWY_RESTRICT destination, const Map& f) {
  const int64_t width = tile.width;
  int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  if (column == 1) {
    NearRows near_rows;
    const bool share_sets = share_cache_sets(rows, tile.rows);
    if (share_sets) near_rows.prepare(width);
    const int64_t whole = columns / 4 * 4;
    for (; c < whole; c += std::min(kNear, whole - c)) {
      const int64_t count = std::min(kNear, whole - c), first = share_sets ? 0 : c;
      const float* const* const lines = share_sets ? near_rows.rows : rows;
      for (int64_t r = 0; share_sets && r < width; ++r) {
        int64_t n = 0;
        for (; n + kLanes <= count; n += kLanes) hn::Store(hn::LoadU(kF, rows[r] + c + n), kF, near_rows.rows[r] + n);
        for (; n < count; n += 4) hn::Store(hn::LoadU(kQuad, rows[r] + c + n), kQuad, near_rows.rows[r] + n);
      }
      for (int64_t at = 0; at < count; at += 4) {
        for (int64_t lane = 0; lane < width; lane += kLanes) {
          FV v[4];
          HWY_UNROLL(4)
          for (int n = 0; n < 4; ++n) v[n] = load_blocks(lines + lane + n, first + at);
          transpose_blocks(v);
          HWY_UNROLL(4)
          for (int n = 0; n < 4; ++n) {
            hn::Store(f(v[n]), kF, destination + (c + at + n) * width + lane);
          }
        }
      }
    }
  }
#endif
  for (; c < columns; ++c) {
    float* const to = destination + c * width;
    for (int64_t r = 0; r < width; ++r) std::memcpy(to + r, rows[r] + c * column, sizeof(float));
    for (int64_t lane = 0; lane < width; lane += kLanes) hn::Store(f(hn::Load(kF, to + lane)), kF, to + lane);
  }
}

// destination[c][r] = scale * source[r][c]. Lanes beyond the tile's rows repeat row 0.
inline void pack_columns(const Tile& tile, const kernels::StridedRows<const float>& source, int64_t columns,
                         float scale, float* HWY_RESTRICT destination) {
  const float* rows[kTileQueries];
  for (int64_t r = 0; r < tile.width; ++r) rows[r] = source.at(tile.head[r], tile.query[r]);
  pack_rows(tile, rows, source.column, columns, destination, [scale](FV x) HWY_ATTR { return hn::Mul(x, all(scale)); });
}

// destination[r][c] = f(source[c][r], r), where f maps a vector of lanes. Unit column stride.
template <class Map>
HWY_INLINE void unpack_columns(const Tile& tile, const float* HWY_RESTRICT source, int64_t columns,
                               float* const* destination, const Map& f) {
  const int64_t width = tile.width;
  int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  NearRows near_rows;
  const bool direct = tile.rows == width && !share_cache_sets(destination, tile.rows);
  if (!direct) near_rows.prepare(width);
  const int64_t whole = columns / 4 * 4;
  for (; c < whole; c += std::min(kNear, whole - c)) {
    const int64_t count = std::min(kNear, whole - c), first = direct ? c : 0;
    float* const* const lines = direct ? destination : near_rows.rows;
    for (int64_t at = 0; at < count; at += 4) {
      for (int64_t lane = 0; lane < width; lane += kLanes) {
        FV v[4];
        HWY_UNROLL(4)
        for (int n = 0; n < 4; ++n) v[n] = f(hn::Load(kF, source + (c + at + n) * width + lane), lane);
        transpose_blocks(v);
        HWY_UNROLL(4)
        for (int n = 0; n < 4; ++n) store_blocks(v[n], lines + lane + n, first + at);
      }
    }
    for (int64_t r = 0; !direct && r < tile.rows; ++r) {
      int64_t n = 0;
      for (; n + kLanes <= count; n += kLanes)
        hn::StoreU(hn::Load(kF, near_rows.rows[r] + n), kF, destination[r] + c + n);
      for (; n < count; n += 4) hn::StoreU(hn::Load(kQuad, near_rows.rows[r] + n), kQuad, destination[r] + c + n);
    }
  }
#endif
  HWY_ALIGN float column[kLanes];
  for (; c < columns; ++c) {
    for (int64_t lane = 0; lane < width; lane += kLanes) {
      hn::Store(f(hn::Load(kF, source + c * width + lane), lane), kF, column);
      const int64_t live = std::min(kLanes, tile.rows - lane);
      for (int64_t n = 0; n < live; ++n) destination[lane + n][c] = column[n];
    }
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
