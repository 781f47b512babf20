// The loops around the tile: what is packed, what threads share, what follows the chain.
#if defined(HEED_KERNELS_GEMM_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_GEMM_LOOPS_INL_H_
#undef HEED_KERNELS_GEMM_LOOPS_INL_H_
#else
#define HEED_KERNELS_GEMM_LOOPS_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "base/memory.h"
#include "base/threads.h"
#include "kernels/gemm/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

template <class Step>
int64_t steps_of(int64_t k) {
  return (k + Step::kCount * Step::kMultiple - 1) / (Step::kCount * Step::kMultiple) * Step::kMultiple;
}

// ---- Bias and activation, while the tile is in L1 ----

// Bias and activation of the tile's columns [j, j + lanes), kRows rows in step.
template <class Function, int kRows>
HWY_INLINE void finish_rows(const Gemm& g, int64_t i, int64_t j, int64_t lanes, FV bias) {
  FV x[kRows];
  const bool whole = lanes == kLanes;
  const int64_t c_row = g.c_row;
  float* const c = g.c + i * c_row + j;
  HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) {
    x[r] = hn::Add(whole ? hn::LoadU(kF, c + r * c_row) : load_first(c + r * c_row, lanes), bias);
  }
  if (g.saved != nullptr) {
    float* const saved = g.saved + i * c_row + j;
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) store_first(x[r], saved + r * c_row, lanes);
  }
  Function::values(kF, x);
  HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) {
    if (whole) {
      hn::StoreU(x[r], kF, c + r * c_row);
    } else {
      store_first(x[r], c + r * c_row, lanes);
    }
  }
}

template <class Function>
HWY_NOINLINE void finish_tile_with(const Gemm& g, int64_t i0, int64_t rows, int64_t j0, int64_t columns) {
  constexpr int kInStep = HWY_TARGET <= HWY_AVX3 ? 4 : 2;
  for (int64_t j = j0; j < j0 + columns; j += kLanes) {
    const int64_t lanes = std::min(kLanes, j0 + columns - j);
    const FV bias = g.bias != nullptr ? load_first(g.bias + j, lanes) : hn::Set(kF, -0.0f);  // which changes no number
    int64_t i = i0;
    for (; i + kInStep <= i0 + rows; i += kInStep) finish_rows<Function, kInStep>(g, i, j, lanes, bias);
    for (; i < i0 + rows; ++i) finish_rows<Function, 1>(g, i, j, lanes, bias);
  }
}

// Adds the bias, keeps what `saved` wants and applies the activation.
HWY_INLINE void finish_tile(const Gemm& g, int64_t i0, int64_t rows, int64_t j0, int64_t columns) {
  with_activation(g.activation, [&](auto f) { finish_tile_with<decltype(f)>(g, i0, rows, j0, columns); });
}

// ---- The loops ----

struct Slice {
  int64_t begin, depth;  // steps of k
  bool first, last;      // of all of k: start from 0, finish with bias and activation
};

// Prefetches the part of A that is packed next, a few lines with each tile.
struct PackPrefetch {
  const float* row = nullptr;
  int64_t stride = 0, lines = 0;  // cache lines a row
  int64_t rows = 0, line = 0;

  PackPrefetch() = default;
  PackPrefetch(const Gemm& g, bool transposed, int64_t i0, int64_t count, int64_t k0, int64_t depth)
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

// Packed rows of A and packed panels of B, whose product is a block of C.
struct PackedBlock {
  int64_t first_row, rows;           // at most kBlockRows rows of A
  const float* a;                    // these rows
  const Panels& panels;              // of all of B
  int64_t first_panel, panel_after;  // the panels in `b`, one after another
  const float* b;
};

// Multiplies a block. A tile's rows of A stay in L1 while the panels come from L2, and C is written along its rows; or,
// with kPanelInL1, the other way round.
template <class Step, bool kTransposedA>
HWY_INLINE void multiply_block(const Gemm& g, const Slice& s, const PackedBlock& block, PackPrefetch prefetch) {
  const Panels& panels = block.panels;
  const int64_t rows = block.rows, begin = block.first_panel, end = block.panel_after;
  const int64_t tiles = (rows + Step::kRows - 1) / Step::kRows * (end - begin);
  const int64_t lines_a_tile = (prefetch.lines * prefetch.rows + tiles - 1) / tiles;
  const bool ends = s.last && (g.bias != nullptr || g.saved != nullptr || g.activation != Activation::none);
  const bool by_tile = ends && Step::kEnds && g.saved == nullptr &&
                       (g.activation == Activation::none || g.activation == Activation::relu);
  const int64_t group = kPanelInL1 ? 1 : std::max<int64_t>(1, kGroupFloats / (s.depth * Step::kVectors * kLanes + 1));
  const int64_t origin = panels.first(begin), row_tiles = (rows + Step::kRows - 1) / Step::kRows;
  // The next group's panels are prefetched into L2, some lines with each tile: from memory, the first rows of a group
  // would wait for them. That saves 3 to 9 % of a product of 40 to 256 rows with 119 MB of weights (Zen 5). With fewer
  // tiles of rows there are too many lines a tile.
  constexpr int64_t kFewestTiles = 4;
  for (int64_t from = begin; from < end; from += group) {
    const int64_t to = std::min(end, from + group);
    const float* ahead = block.b + s.depth * (panels.first(to) - origin) * kLanes;
    const int64_t lines = s.depth * (panels.first(std::min(end, to + group)) - panels.first(to)) * kLanes / 16;
    const int64_t lines_of_b = (lines + row_tiles * (to - from) - 1) / (row_tiles * (to - from));
    for (int64_t i = 0; i < rows; i += Step::kRows) {
      const int64_t count = std::min<int64_t>(Step::kRows, rows - i);
      const float* const a_tile = block.a + (kTransposedA ? i / kTileRows * kTileStride : i * kDepthStride);
      float* const c_row = g.c + (block.first_row + i) * g.c_row;
      for (int64_t panel = from; panel < to; ++panel) {
        const int64_t first = panels.first(panel), vectors = panels.first(panel + 1) - first;
        const int64_t j0 = first * kLanes, columns = std::min(vectors * kLanes, g.n - j0);
        float* const c = c_row + j0;
        prefetch.fetch(lines_a_tile);
        const float* const next_c =
            panel + 1 < to ? c + columns : c_row + Step::kRows * g.c_row + panels.first(from) * kLanes;
        const TileExtras extras{.ahead = ahead,
                                .lines = row_tiles < kFewestTiles ? 0 : lines_of_b,
                                .bias = by_tile && g.bias != nullptr ? g.bias + j0 : nullptr,
                                .relu = by_tile && g.activation == Activation::relu};
        ahead += extras.lines * 16;
        Step::template tile<kTransposedA>(vectors, count)(
            s.depth, a_tile, block.b + s.depth * (first - origin) * kLanes, c, next_c, g.c_row,
            columns - (vectors - 1) * kLanes, s.first && !g.accumulate, count, extras);
        if (ends && !by_tile) finish_tile(g, block.first_row + i, count, j0, columns);
      }
    }
  }
}

template <class Step>
HWY_INLINE void multiply_block(bool transposed, const Gemm& g, const Slice& s, const PackedBlock& block,
                               const PackPrefetch& prefetch) {
  if constexpr (!Step::kTransposesA) {
    if (transposed) return multiply_block<Step, true>(g, s, block, prefetch);
  }
  multiply_block<Step, false>(g, s, block, prefetch);
}

constexpr int64_t kPackedASize = kBlockRows * kDepthStride;  // enough for either layout
static_assert(kPackedASize >= kBlockRows / kTileRows * kTileStride);

template <class Step>
int64_t even_depth(int64_t steps) {
  constexpr int64_t kUnit = std::max<int64_t>(4, Step::kMultiple);
  const int64_t blocks = std::max<int64_t>(1, (steps + kBlockDepth - 1) / kBlockDepth);
  return std::clamp<int64_t>(((steps + blocks - 1) / blocks + kUnit - 1) / kUnit * kUnit, kUnit, kBlockDepth);
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
constexpr int64_t kMostUnpackedRows = 4;

// kRows rows by 16 columns of a B that is given transposed. Registers transpose it back, four steps at a time: packing
// does not pay, since each number is used kRows times only. More columns at a time would crowd the same cache sets
// where K is a power of two.
template <int kRows>
HWY_NOINLINE void rows_by_transposed(const Gemm& g, int64_t j0) {
  const F d;
  Row16 sum[kRows];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) sum[i] = g.accumulate ? load16(g.c + i * g.c_row + j0) : set16(0.0f);
  const float* const rows = g.b + j0 * g.b_column;
  const auto step = [&](int64_t p, const Row16& column) HWY_ATTR {
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      const FV a = hn::Set(d, g.a[i * g.a_row + p * g.a_column]);
      sum[i] = map16([&](FV x, FV y) HWY_ATTR { return fma(a, x, y); }, column, sum[i]);
    }
  };
  int64_t p = 0;
  for (; p + 4 <= g.k; p += 4) {
    const float* const next = rows + (16 + p % 16) * g.b_column + p;
    for (int i = 0; i < 4; ++i) __builtin_prefetch(next + i * g.b_column);
    Row16 column[4];
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      FV t[4];
      transpose4(rows + part * kLanes * g.b_column + p, g.b_column, t);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) column[i].part[part] = t[i];
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) step(p + i, column[i]);
  }
  for (; p < g.k; ++p) {
    HWY_ALIGN float column[16];
    for (int64_t lane = 0; lane < 16; ++lane) column[lane] = rows[lane * g.b_column + p];
    step(p, load16(column));
  }
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) store16(sum[i], g.c + i * g.c_row + j0);
  finish_tile(g, 0, kRows, j0, 16);
}
#endif

// Up to two tiles of rows. Each panel of B is packed in cache and used at once, where `packed` does not hold all of
// them; threads share the panels.
template <class Step>
void product_by_packed_panels(const Gemm& g, bool transposed, const float* packed) {
  const Panels panels(g.n, Step::kVectors);
  const int64_t steps = steps_of<Step>(g.k), most = even_depth<Step>(steps);
  const int64_t grain = std::max<int64_t>(1, kGrainNumbers / (Step::kVectors * kLanes * std::max<int64_t>(1, g.k)));
  parallel_for(panels.count, grain, [&](int64_t begin, int64_t end) {
    [[maybe_unused]] const typename Step::Scope scope;
    const Buffer<float> scratch(2 * Step::kRows * kDepthStride +
                                (packed == nullptr ? kBlockDepth * Step::kVectors * kLanes : 0));
    float* const a = scratch.data();
    float* const b = a + 2 * Step::kRows * kDepthStride;  // enough for either layout of A
    for (int64_t p0 = 0; p0 == 0 || p0 < steps; p0 += most) {
      const int64_t depth = std::min(most, steps - p0);
      const Slice slice{p0, depth, p0 == 0, p0 + depth >= steps};
      Step::pack_a(g, 0, g.m, p0, depth, transposed, a);
      for (int64_t panel = begin; panel < end; ++panel) {
        const int64_t first = panels.first(panel), vectors = panels.first(panel + 1) - first;
        const float* panel_of_b = packed == nullptr ? b : packed + (p0 * panels.vectors + depth * first) * kLanes;
        if (packed == nullptr) Step::pack_b(g, p0, depth, first * kLanes, vectors, b);
        multiply_block<Step>(transposed, g, slice, {0, g.m, a, panels, panel, panel + 1, panel_of_b}, {});
      }
    }
  });
}

// A product with at most two tiles of rows, as decoding makes them: the time goes into reading B.
template <class Step>
void decode_product(const Gemm& g, bool transposed) {
  Gemm rest = g;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if (Step::kCount == 1 && g.m <= kMostUnpackedRows && g.b_row == 1) {
    static constexpr void (*kFunctions[])(const Gemm&, int64_t) = {rows_by_transposed<1>, rows_by_transposed<2>,
                                                                   rows_by_transposed<3>, rows_by_transposed<4>};
    const auto function = kFunctions[g.m - 1];
    const int64_t groups = g.n / 16;
    const int64_t grain = std::max<int64_t>(1, kGrainNumbers / (16 * std::max<int64_t>(1, g.k)));
    parallel_for(groups, grain, [&](int64_t begin, int64_t end) {
      for (int64_t group = begin; group < end; ++group) function(g, group * 16);
    });
    const int64_t done = groups * 16;
    rest.n -= done;
    rest.b += done * g.b_column;
    rest.c += done;
    if (g.bias != nullptr) rest.bias += done;
    if (g.saved != nullptr) rest.saved += done;
  }
#endif
  if (rest.n > 0) product_by_packed_panels<Step>(rest, transposed, nullptr);
}

// All of B, packed. Threads share the panels.
template <class Step>
void pack_all(const Gemm& g, float* packed) {
  const Panels panels(g.n, Step::kVectors);
  const int64_t steps = steps_of<Step>(g.k), most = even_depth<Step>(steps);
  const int64_t blocks = std::max<int64_t>(1, (steps + most - 1) / most);
  const int64_t width = panels.vectors * kLanes;
  parallel_for(panels.count * blocks, std::max<int64_t>(1, kPackedGrain / (most * Step::kVectors * kLanes + 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t item = begin; item < end; ++item) {
                   const int64_t block = item / panels.count, panel = item % panels.count;
                   const int64_t p0 = block * most, depth = std::min(most, steps - p0);
                   const int64_t from = panels.first(panel), vectors = panels.first(panel + 1) - from;
                   Step::pack_b(g, p0, depth, from * kLanes, vectors, packed + p0 * width + depth * from * kLanes);
                 }
               });
}

// All of B is packed; threads share the rows (and, where there are few, the columns).
template <class Step>
void rows_by_packed(const Gemm& g, bool transposed, bool first, bool last, const float* packed) {
  const Panels panels(g.n, Step::kVectors);
  const int64_t steps = steps_of<Step>(g.k), most = even_depth<Step>(steps);
  const int64_t blocks = std::max<int64_t>(1, (steps + most - 1) / most);
  const int64_t width = panels.vectors * kLanes;
  static_assert(kBlockRows % Step::kRows == 0);
  const int64_t tiles = (g.m + Step::kRows - 1) / Step::kRows;
  const int threads = num_threads();
  const int64_t groups = threads == 1 ? 1 : std::clamp<int64_t>(4 * threads / tiles, 1, panels.count);
  const int64_t flops_a_tile = 2 * Step::kRows * steps * g.n / groups + 1;  // of f32: pairs take as long
  parallel_for(groups * tiles, std::max<int64_t>(1, 500000 / flops_a_tile), [&](int64_t begin, int64_t end) {
    [[maybe_unused]] const typename Step::Scope scope;
    const Buffer<float> scratch(kPackedASize);
    while (begin < end) {
      const int64_t group = begin / tiles;
      const int64_t stop = std::min(end, (group + 1) * tiles);
      const int64_t panel_begin = panels.count * group / groups, panel_end = panels.count * (group + 1) / groups;
      int64_t i = (begin - group * tiles) * Step::kRows;
      const int64_t i_end = std::min(g.m, (stop - group * tiles) * Step::kRows);
      for (; i < i_end; i += kBlockRows) {
        const int64_t rows = std::min(kBlockRows, i_end - i);
        for (int64_t block = 0; block < blocks; ++block) {
          const int64_t p0 = block * most, depth = std::min(most, steps - p0);
          const Slice slice{p0, depth, first && block == 0, last && block == blocks - 1};
          Step::pack_a(g, i, rows, p0, depth, transposed, scratch.data());
          const bool next_rows = block == blocks - 1;
          const int64_t i_next = next_rows ? i + kBlockRows : i;
          const int64_t k_next = next_rows ? 0 : (p0 + most) * Step::kCount;
          const PackPrefetch prefetch(g, transposed, i_next, std::clamp<int64_t>(i_end - i_next, 0, kBlockRows), k_next,
                                      std::min(most * Step::kCount, g.k - k_next));
          const float* const b = packed + p0 * width + depth * panels.first(panel_begin) * kLanes;
          multiply_block<Step>(transposed, g, slice, {i, rows, scratch.data(), panels, panel_begin, panel_end, b},
                               prefetch);
        }
      }
      begin = stop;
    }
  });
}

// All of B is packed for this one product.
template <class Step>
void many_rows(const Gemm& g, bool transposed, bool first, bool last) {
  const Buffer<float> packed(std::max<int64_t>(1, steps_of<Step>(g.k) * Panels(g.n, Step::kVectors).vectors * kLanes));
  pack_all<Step>(g, packed.data());
  rows_by_packed<Step>(g, transposed, first, last, packed.data());
}

// The order in which PackedB holds a B for this instruction set.
template <class Step>
PackedB::Layout packed_layout(int64_t k, int64_t n) {
  const int64_t steps = steps_of<Step>(k);
  return {.k = k,
          .n = n,
          .lanes = kLanes,
          .panel = Step::kVectors,
          .steps = steps,
          .depth = even_depth<Step>(steps),
          .bf16 = Step::kCount == 2};
}

template <class Step>
void run_packed_product(const Gemm& g) {
  const bool transposed = g.a_column != 1 && g.a_row == 1;
  if (g.m <= 2 * Step::kRows) {
    product_by_packed_panels<Step>(g, transposed, g.packed->data());
  } else {
    rows_by_packed<Step>(g, transposed, true, true, g.packed->data());
  }
}

template <class Step>
void run_product(const Gemm& g) {
  const bool transposed = g.a_column != 1 && g.a_row == 1;
  if (g.m <= 2 * Step::kRows) {
    decode_product<Step>(g, transposed);
    return;
  }
  // Where C is small, as in the gradient of a weight, it is cheaper to read it again than packed B from beyond L2.
  const bool small_c = g.m <= 2 * kBlockRows;
  const int64_t most_depth =
      Step::kCount *
      (small_c ? std::clamp(kGroupFloats / g.n / kLeastDepth * kLeastDepth, kLeastDepth, kPackedDepth) : kPackedDepth);
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
      many_rows<Step>(part, transposed, k0 == 0, k0 + part.k >= g.k);
    }
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
