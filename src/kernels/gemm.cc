// The matrix product: both operands packed into the order in which the register tile reads them.
//
// On a 2.5 GHz Cascade Lake (two FMA units, 32 KB L1, 1 MB L2) the 8 x 48 tile is limited by the multiply-adds:
// 24 of them, three loads of B and eight broadcasts of A a step.
#include "kernels/gemm.h"

#include <algorithm>

#include "base/memory.h"
#include "base/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/math-inl.h"
#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

using kernels::Gemm;

// The register tile: kTileRows x (kTileVectors * kLanes) elements of C.
#if HWY_TARGET == HWY_AVX3
constexpr int kTileRows = 8, kTileVectors = 3;
#elif HWY_TARGET == HWY_AVX2
constexpr int kTileRows = 4, kTileVectors = 3;
#else  // one lane, or four emulated ones
constexpr int kTileRows = 4, kTileVectors = 2;
#endif
constexpr int64_t kBlockDepth = 256;  // k is cut here: a panel of B, 48 KB, stays in L2
constexpr int64_t kBlockRows = 192;   // rows of A packed at a time
// Rows, or tiles, of packed A: not a power of two apart, which would share cache sets.
constexpr int64_t kDepthStride = kBlockDepth + 16, kTileStride = kTileRows * kBlockDepth + 16;
constexpr int64_t kFewRows = 2 * kTileRows;  // up to here B is packed panel by panel, in cache
constexpr int64_t kGroupFloats = 96 * 1024;  // of B that rows of A are multiplied with in one go: 384 KB of L2
constexpr int kAhead = 16;                   // steps of k for which B is asked of L2 before it is needed
constexpr int64_t kPackedDepth = 4096;       // most of k that is packed at once
constexpr int64_t kPackedFloats = 1 << 23;   // most of B that is packed at once: 32 MB

// Columns of C cut into panels of at most kTileVectors vectors, as even as they go: 32 + 32 is faster than 48 + 16.
struct Panels {
  int64_t columns, vectors, count;
  explicit Panels(int64_t n)
      : columns(n), vectors((n + kLanes - 1) / kLanes), count((vectors + kTileVectors - 1) / kTileVectors) {}
  int64_t first(int64_t panel) const { return vectors * panel / count; }  // in vectors
};

// ---- Packing ----

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
// kLanes rows of 4 floats, `stride` apart, transposed: out[i] holds element i of every row.
HWY_INLINE void Transpose4(const float* HWY_RESTRICT rows, int64_t stride, F32Vector out[4]) {
  const F32 d;
  const hn::RebindToUnsigned<F32> du;
  const hn::Repartition<uint64_t, F32> du64;
  const hn::CappedTag<float, 4> d4;
  F32Vector v[4];
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
  const auto pair = [&](F32Vector x, F32Vector y, bool upper) {
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

// Rows [k0, k0 + depth) of the columns of `vectors` vectors from column j0, k after k; zeros beyond column n.
HWY_NOINLINE void PackB(const Gemm& g, int64_t k0, int64_t depth, int64_t j0, int64_t vectors,
                        float* HWY_RESTRICT out) {
  const F32 d;
  const int64_t width = vectors * kLanes;
  const int64_t valid = std::min(width, g.n - j0);
  const float* const b = g.b + k0 * g.b_row + j0 * g.b_column;
  if (g.b_column == 1) {
    for (int64_t p = 0; p < depth; ++p) {
      const float* const row = b + p * g.b_row;
      int64_t j = 0;
      for (; j + kLanes <= valid; j += kLanes) hn::Store(hn::LoadU(d, row + j), d, out + p * width + j);
      if (j < valid) hn::Store(LoadFirst(row + j, valid - j), d, out + p * width + j);
    }
    return;
  }
  if (g.b_row == 1) {
    for (int64_t v = 0; v < vectors; ++v) {
      const int64_t lanes = std::min<int64_t>(kLanes, valid - v * kLanes);
      const float* const rows = b + v * kLanes * g.b_column;
      float* const to = out + v * kLanes;
      int64_t p = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
      for (; lanes == kLanes && p + 4 <= depth; p += 4) {
        // The rows of the next vector: too short for the processor's own prefetching (2.5 times as fast from memory).
        const float* const next = rows + (kLanes + p % kLanes) * g.b_column + p;
        for (int i = 0; i < 4; ++i) __builtin_prefetch(next + i * g.b_column);
        F32Vector t[4];
        Transpose4(rows + p, g.b_column, t);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) hn::Store(t[i], d, to + (p + i) * width);
      }
#endif
      for (; p < depth; ++p) {
        for (int64_t lane = 0; lane < kLanes; ++lane) {
          to[p * width + lane] = lane < lanes ? rows[lane * g.b_column + p] : 0.0f;
        }
      }
    }
    return;
  }
  for (int64_t p = 0; p < depth; ++p) {
    for (int64_t j = 0; j < width; ++j) out[p * width + j] = j < valid ? b[p * g.b_row + j * g.b_column] : 0.0f;
  }
}

// Row i of the block at out + i * kDepthStride; or, where A is given transposed, the kTileRows elements of step p of
// tile t at out + t * kTileStride + p * kTileRows.
HWY_NOINLINE void PackA(const Gemm& g, int64_t i0, int64_t rows, int64_t k0, int64_t depth, bool transposed,
                        float* HWY_RESTRICT out) {
  const float* const a = g.a + i0 * g.a_row + k0 * g.a_column;
  if (transposed) {
    const hn::CappedTag<float, kTileRows> d;
    constexpr auto kStep = static_cast<int64_t>(hn::MaxLanes(hn::CappedTag<float, kTileRows>()));
    for (int64_t p = 0; p < depth; ++p) {
      const float* const from = a + p * g.a_column;
      float* const to = out + p * kTileRows;
      int64_t i = 0;
      for (; i + kTileRows <= rows; i += kTileRows) {
        for (int64_t j = 0; j < kTileRows; j += kStep) {
          hn::StoreU(hn::LoadU(d, from + i + j), d, to + i / kTileRows * kTileStride + j);
        }
      }
      for (int64_t j = i; j < rows; ++j) to[i / kTileRows * kTileStride + j - i] = from[j];
    }
    return;
  }
  const F32 d;
  for (int64_t i = 0; i < rows; ++i) {
    const float* const from = a + i * g.a_row;
    float* const to = out + i * kDepthStride;
    if (g.a_column == 1) {
      int64_t p = 0;
      for (; p + kLanes <= depth; p += kLanes) hn::StoreU(hn::LoadU(d, from + p), d, to + p);
      if (p < depth) StoreFirst(LoadFirst(from + p, depth - p), to + p, depth - p);
    } else {
      for (int64_t p = 0; p < depth; ++p) to[p] = from[p * g.a_column];
    }
  }
}

// ---- The tile ----

// One tile of C: kRows x (kVectors - 1) vectors and `last` lanes of one more. `fresh`: the chains start from 0.
template <int kRows, int kVectors, bool kTransposedA>
HWY_NOINLINE void Tile(int64_t depth, const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, float* HWY_RESTRICT c,
                       const float* next_c, int64_t c_row, int64_t last, bool fresh) {
  const F32 d;
  F32Vector sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const float* const from = c + i * c_row + v * kLanes;
      sum[i][v] = fresh ? hn::Zero(d) : v + 1 < kVectors || last == kLanes ? hn::LoadU(d, from) : LoadFirst(from, last);
    }
  }
  constexpr int64_t kRowStride = kTransposedA ? 1 : kDepthStride, kStep = kTransposedA ? kTileRows : 1;
  // C's lines of the next tile are asked for a row at a time: all at once they would hold up the loads of B.
  int64_t done = 0;
  for (int64_t row = 1; row <= kRows; ++row) {
    for (int v = 0; v < kVectors; ++v) __builtin_prefetch(next_c + v * kLanes, 1);
    next_c += c_row;
    const int64_t stop = depth * row / kRows;
    for (; done < stop; ++done) {
      F32Vector column[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        column[v] = hn::Load(d, b + v * kLanes);
        __builtin_prefetch(b + (kAhead * kVectors + v) * kLanes);
      }
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        const F32Vector x = hn::Set(d, a[i * kRowStride]);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sum[i][v] = Fma(x, column[v], sum[i][v]);
      }
      a += kStep;
      b += kVectors * kLanes;
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      float* const to = c + i * c_row + v * kLanes;
      if (v + 1 < kVectors || last == kLanes) {
        hn::StoreU(sum[i][v], d, to);
      } else {
        StoreFirst(sum[i][v], to, last);
      }
    }
  }
}

using TileFunction = void (*)(int64_t, const float*, const float*, float*, const float*, int64_t, int64_t, bool);

template <bool kTransposedA, int kVectors, size_t... kRow>
constexpr void FillTable(TileFunction (&table)[kTileVectors][kTileRows], std::index_sequence<kRow...>) {
  ((table[kVectors - 1][kRow] = Tile<static_cast<int>(kRow) + 1, kVectors, kTransposedA>), ...);
}

// tile(vectors, rows): the function for that shape.
template <bool kTransposedA>
TileFunction TileFor(int64_t vectors, int64_t rows) {
  struct Table {
    TileFunction tile[kTileVectors][kTileRows];
    constexpr Table() : tile{} {
      constexpr auto rows_ = std::make_index_sequence<kTileRows>();
      FillTable<kTransposedA, 1>(tile, rows_);
      FillTable<kTransposedA, 2>(tile, rows_);
      if constexpr (kTileVectors > 2) FillTable<kTransposedA, kTileVectors>(tile, rows_);
    }
  };
  static constexpr Table table;
  return table.tile[vectors - 1][rows - 1];
}

// ---- Bias and activation, while the tile is in L1 ----

template <class F>
HWY_INLINE void MapRow(float* row, int64_t count, F&& f) {
  const F32 d;
  int64_t j = 0;
  for (; j + kLanes <= count; j += kLanes) hn::StoreU(f(hn::LoadU(d, row + j)), d, row + j);
  if (j < count) StoreFirst(f(LoadFirst(row + j, count - j)), row + j, count - j);
}

HWY_NOINLINE void Finish(const Gemm& g, int64_t i0, int64_t rows, int64_t j0, int64_t columns) {
  const F32 d;
  for (int64_t i = i0; i < i0 + rows; ++i) {
    float* const row = g.c + i * g.c_row + j0;
    if (g.bias != nullptr) {
      const float* const bias = g.bias + j0;
      int64_t j = 0;
      for (; j + kLanes <= columns; j += kLanes) {
        hn::StoreU(hn::Add(hn::LoadU(d, row + j), hn::LoadU(d, bias + j)), d, row + j);
      }
      if (j < columns) {
        StoreFirst(hn::Add(LoadFirst(row + j, columns - j), LoadFirst(bias + j, columns - j)), row + j, columns - j);
      }
    }
    if (g.saved != nullptr) {
      std::memcpy(g.saved + i * g.c_row + j0, row, static_cast<size_t>(columns) * sizeof(float));
    }
    switch (g.activation) {
      case Activation::none:
        break;
      case Activation::relu:
        MapRow(row, columns, [&](F32Vector x) { return ReluFunction::Value(d, x); });
        break;
      case Activation::gelu:
        MapRow(row, columns, [&](F32Vector x) { return GeluFunction::Value(d, x); });
        break;
      case Activation::gelu_tanh:
        MapRow(row, columns, [&](F32Vector x) { return GeluTanhFunction::Value(d, x); });
        break;
      case Activation::silu:
        MapRow(row, columns, [&](F32Vector x) { return SiluFunction::Value(d, x); });
        break;
    }
  }
}

// ---- The loops ----

struct Slice {
  int64_t begin, depth;  // of k
  bool first, last;      // of all of k: start from 0, finish with bias and activation
};

// The part of A that is packed next, asked for a few lines with each tile: memory answers while the tiles compute.
struct Upcoming {
  const float* row = nullptr;
  int64_t stride = 0, lines = 0;  // cache lines a row
  int64_t rows = 0, line = 0;

  Upcoming() = default;
  Upcoming(const Gemm& g, bool transposed, int64_t i0, int64_t count, int64_t k0, int64_t depth)
      : row(g.a + i0 * g.a_row + k0 * g.a_column),
        stride(transposed ? g.a_column : g.a_row),
        lines(((transposed ? count : depth) + 15) / 16),
        rows(transposed ? depth : count) {}
  void fetch(int64_t count) {
    for (; count > 0 && rows > 0; --count) {
      __builtin_prefetch(row + line * 16, 0, 2);
      if (++line == lines) {
        line = 0;
        row += stride;
        --rows;
      }
    }
  }
};

// Rows [i0, i0 + rows), at most kBlockRows and packed in `a`, by the panels [begin, end), packed in `b` one after
// another. A tile's rows of A stay in L1 while the panels come by from L2, and C is written along its rows.
template <bool kTransposedA>
HWY_INLINE void Block(const Gemm& g, const Slice& s, int64_t i0, int64_t rows, const float* a, const Panels& panels,
                      int64_t begin, int64_t end, const float* b, Upcoming upcoming) {
  const int64_t tiles = (rows + kTileRows - 1) / kTileRows * (end - begin);
  const int64_t lines_a_tile = (upcoming.lines * upcoming.rows + tiles - 1) / tiles;
  const bool finish = s.last && (g.bias != nullptr || g.saved != nullptr || g.activation != Activation::none);
  const int64_t group = std::max<int64_t>(1, kGroupFloats / (s.depth * kTileVectors * kLanes + 1));
  const int64_t origin = panels.first(begin);
  for (int64_t from = begin; from < end; from += group) {
    const int64_t to = std::min(end, from + group);
    for (int64_t i = 0; i < rows; i += kTileRows) {
      const int64_t count = std::min<int64_t>(kTileRows, rows - i);
      const float* const a_tile = a + (kTransposedA ? i / kTileRows * kTileStride : i * kDepthStride);
      float* const c_row = g.c + (i0 + i) * g.c_row;
      for (int64_t panel = from; panel < to; ++panel) {
        const int64_t first = panels.first(panel), vectors = panels.first(panel + 1) - first;
        const int64_t j0 = first * kLanes, columns = std::min(vectors * kLanes, g.n - j0);
        float* const c = c_row + j0;
        upcoming.fetch(lines_a_tile);
        const float* const next_c =
            panel + 1 < to ? c + columns : c_row + kTileRows * g.c_row + panels.first(from) * kLanes;
        TileFor<kTransposedA>(vectors, count)(s.depth, a_tile, b + s.depth * (first - origin) * kLanes, c, next_c,
                                              g.c_row, columns - (vectors - 1) * kLanes, s.first && !g.accumulate);
        if (finish) Finish(g, i0 + i, count, j0, columns);
      }
    }
  }
}

HWY_INLINE void Block(bool transposed, const Gemm& g, const Slice& s, int64_t i0, int64_t rows, const float* a,
                      const Panels& panels, int64_t begin, int64_t end, const float* b, const Upcoming& upcoming) {
  if (transposed) {
    Block<true>(g, s, i0, rows, a, panels, begin, end, b, upcoming);
  } else {
    Block<false>(g, s, i0, rows, a, panels, begin, end, b, upcoming);
  }
}

constexpr int64_t kPackedASize = kBlockRows * kDepthStride;  // enough for either layout
static_assert(kBlockRows % kTileRows == 0 && kPackedASize >= kBlockRows / kTileRows * kTileStride);

int64_t EvenDepth(int64_t k) {
  const int64_t blocks = std::max<int64_t>(1, (k + kBlockDepth - 1) / kBlockDepth);
  return std::clamp<int64_t>(((k + blocks - 1) / blocks + 3) / 4 * 4, 4, kBlockDepth);
}

// Few rows: decoding. Each panel of B is packed in cache and used at once; threads share the panels.
void FewRows(const Gemm& g, bool transposed) {
  const Panels panels(g.n);
  const int64_t step = EvenDepth(g.k);
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, g.k * kTileVectors * kLanes / 4));
  parallel_for(panels.count, grain, [&](int64_t begin, int64_t end) {
    const Buffer<float> scratch(kFewRows * kDepthStride + kBlockDepth * kTileVectors * kLanes);
    float* const a = scratch.data();
    float* const b = a + kFewRows * kDepthStride;  // enough for either layout of A
    for (int64_t k0 = 0; k0 == 0 || k0 < g.k; k0 += step) {
      const int64_t depth = std::min(step, g.k - k0);
      const Slice slice{k0, depth, k0 == 0, k0 + depth >= g.k};
      PackA(g, 0, g.m, k0, depth, transposed, a);
      for (int64_t panel = begin; panel < end; ++panel) {
        const int64_t first = panels.first(panel), vectors = panels.first(panel + 1) - first;
        PackB(g, k0, depth, first * kLanes, vectors, b);
        Block(transposed, g, slice, 0, g.m, a, panels, panel, panel + 1, b, {});
      }
    }
  });
}

// All of B is packed once; threads share the rows (and, where there are few, the columns).
void ManyRows(const Gemm& g, bool transposed, bool first, bool last) {
  const Panels panels(g.n);
  const int64_t step = EvenDepth(g.k);
  const int64_t blocks = std::max<int64_t>(1, (g.k + step - 1) / step);
  const int64_t width = panels.vectors * kLanes;
  const Buffer<float> packed(std::max<int64_t>(1, g.k * width));
  parallel_for(panels.count * blocks, std::max<int64_t>(1, 65536 / (step * kTileVectors * kLanes + 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t item = begin; item < end; ++item) {
                   const int64_t block = item / panels.count, panel = item % panels.count;
                   const int64_t k0 = block * step, depth = std::min(step, g.k - k0);
                   const int64_t from = panels.first(panel), vectors = panels.first(panel + 1) - from;
                   PackB(g, k0, depth, from * kLanes, vectors, packed.data() + k0 * width + depth * from * kLanes);
                 }
               });
  const int64_t tiles = (g.m + kTileRows - 1) / kTileRows;
  const int threads = num_threads();
  const int64_t groups = threads == 1 ? 1 : std::clamp<int64_t>(4 * threads / tiles, 1, panels.count);
  const int64_t flops_a_tile = 2 * kTileRows * g.k * g.n / groups + 1;
  parallel_for(groups * tiles, std::max<int64_t>(1, 500000 / flops_a_tile), [&](int64_t begin, int64_t end) {
    const Buffer<float> scratch(kPackedASize);
    while (begin < end) {
      const int64_t group = begin / tiles;
      const int64_t stop = std::min(end, (group + 1) * tiles);
      const int64_t panel_begin = panels.count * group / groups, panel_end = panels.count * (group + 1) / groups;
      int64_t i = (begin - group * tiles) * kTileRows;
      const int64_t i_end = std::min(g.m, (stop - group * tiles) * kTileRows);
      for (; i < i_end; i += kBlockRows) {
        const int64_t rows = std::min(kBlockRows, i_end - i);
        for (int64_t block = 0; block < blocks; ++block) {
          const int64_t k0 = block * step, depth = std::min(step, g.k - k0);
          const Slice slice{k0, depth, first && block == 0, last && block == blocks - 1};
          PackA(g, i, rows, k0, depth, transposed, scratch.data());
          const bool next_rows = block == blocks - 1;
          const int64_t i_next = next_rows ? i + kBlockRows : i, k_next = next_rows ? 0 : k0 + step;
          const Upcoming upcoming(g, transposed, i_next, std::clamp<int64_t>(i_end - i_next, 0, kBlockRows), k_next,
                                  std::min(step, g.k - k_next));
          Block(transposed, g, slice, i, rows, scratch.data(), panels, panel_begin, panel_end,
                packed.data() + k0 * width + depth * panels.first(panel_begin) * kLanes, upcoming);
        }
      }
      begin = stop;
    }
  });
}

void RunGemm(const Gemm& g) {
  const bool transposed = g.a_column != 1 && g.a_row == 1;
  if (g.m <= kFewRows) {
    FewRows(g, transposed);
    return;
  }
  // Where C is small, as in the gradient of a weight, it is cheaper to read it again than packed B from beyond L2.
  const bool small_c = g.m <= 2 * kBlockRows;
  const int64_t most_depth =
      small_c ? std::clamp(kGroupFloats / g.n / kBlockDepth * kBlockDepth, kBlockDepth, kPackedDepth) : kPackedDepth;
  const int64_t columns = kPackedFloats / std::clamp<int64_t>(g.k, 1, most_depth) / 48 * 48;
  for (int64_t j0 = 0; j0 < g.n; j0 += columns) {
    Gemm part = g;
    part.n = std::min(columns, g.n - j0);
    part.c += j0;
    if (g.bias != nullptr) part.bias += j0;
    if (g.saved != nullptr) part.saved += j0;
    for (int64_t k0 = 0; k0 == 0 || k0 < g.k; k0 += most_depth) {
      part.k = std::min(most_depth, g.k - k0);
      part.a = g.a + k0 * g.a_column;
      part.b = g.b + k0 * g.b_row + j0 * g.b_column;
      ManyRows(part, transposed, k0 == 0, k0 + part.k >= g.k);
    }
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(RunGemm);

void gemm(const Gemm& g) {
  if (g.m <= 0 || g.n <= 0) return;
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(RunGemm)(g);
}

}  // namespace heed::kernels
#endif
