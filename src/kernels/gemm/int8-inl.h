// C = A B with B in int8: rows of A are rounded in groups of k, sums are exact in 32-bit integers.
//
// c = float(sum) * (scale of the row's group * scale of the column), added up over the groups, then bias and activation
// as in f32. The sums are exact in every unit and the rest is one rounding an operation, so the bits are the same
// everywhere.
#if defined(HEED_KERNELS_GEMM_INT8_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_GEMM_INT8_INL_H_
#undef HEED_KERNELS_GEMM_INT8_INL_H_
#else
#define HEED_KERNELS_GEMM_INT8_INL_H_
#endif

#include <algorithm>
#include <type_traits>

#include "kernels/gemm/loops-inl.h"
#include "kernels/gemm/quantise-inl.h"
#include "kernels/simd/amx-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

using kernels::Int8Unit;
using kernels::PackedInt8;

// A tile: rows x strips of 16 columns.
struct Int8Tile {
  int64_t steps;  // of four numbers of k
  const uint8_t* a;
  int64_t a_row;  // bytes
  const int8_t* b;
  int64_t strip;  // bytes
  int32_t* sums;  // rows x (16 * strips)
};

// A tile's place, and what its sums in a group of k are worth. `steps`: of the tile's rows, the groups of a row side by
// side. `parts`: rows x (16 * strips), the numbers of the groups before.
struct Int8Place {
  int64_t i0, rows, strip0, strips, group;
  const Steps* steps;
  float* parts;
};

// How a group of k ends that is not the last one: its numbers go to Int8Place::parts. The last one ends with an
// activation (see kernels/rows/activations-inl.h), whose values go to C.
struct ToParts {};

// The numbers of a tile of kWide strips, from the sums of this group and the numbers of all groups before it. Sums and
// their products are whole numbers below 2^24, which f32 holds exactly. kFirst: there is no group before; kWhole: all
// columns of the tile exist. (In the tile itself, with branches for both and a row's steps loaded for each strip, the
// ends made a product of 64 rows 15 % slower on Zen 5.)
template <class End, bool kFirst, bool kWhole, int kWide>
HWY_NOINLINE void end_int8_sums(const Gemm& g, const Int8Place& t, const int32_t* HWY_RESTRICT sums) {
  static_assert(PackedInt8::kMostOfGroup * 255 * 128 < 1 << 24);
  const PackedInt8& b = *g.int8;
  const int64_t groups = b.groups();
  for (int64_t j0 = 0; j0 < 16; j0 += kLanes) {
    FV scales[kWide], column_sums[kWide], biases[kWide];
    int64_t lanes[kWide];  // of these columns that exist
    for (int v = 0; v < kWide; ++v) {
      const int64_t j = (t.strip0 + v) * 16 + j0;
      lanes[v] = kWhole ? kLanes : std::clamp<int64_t>(g.n - j, 0, kLanes);
      scales[v] = hn::LoadU(kF, b.scales() + j);
      column_sums[v] = hn::ConvertTo(kF, hn::LoadU(kI, b.sums(t.group) + j));
      biases[v] = g.bias == nullptr    ? hn::Set(kF, -0.0f)  // which changes no number
                  : lanes[v] == kLanes ? hn::LoadU(kF, g.bias + j)
                                       : load_first(g.bias + j, lanes[v]);
    }
    for (int64_t i = 0; i < t.rows; ++i) {
      const Steps& steps = t.steps[i * groups + t.group];
      const FV scale = hn::Set(kF, steps.scale), zero = hn::Set(kF, steps.zero);
      const int64_t at = i * kWide * 16 + j0, to = (t.i0 + i) * g.c_row + t.strip0 * 16 + j0;
      FV x[kWide];
      HWY_UNROLL(3)
      for (int v = 0; v < kWide; ++v) {
        const FV exact = hn::NegMulAdd(column_sums[v], zero, hn::ConvertTo(kF, hn::LoadU(kI, sums + at + v * 16)));
        x[v] = hn::Mul(exact, hn::Mul(scale, scales[v]));
        if constexpr (!kFirst) x[v] = hn::Add(hn::LoadU(kF, t.parts + at + v * 16), x[v]);
      }
      if constexpr (std::is_same_v<End, ToParts>) {
        HWY_UNROLL(3)
        for (int v = 0; v < kWide; ++v) hn::StoreU(x[v], kF, t.parts + at + v * 16);
        continue;
      } else {
        HWY_UNROLL(3)
        for (int v = 0; v < kWide; ++v) x[v] = hn::Add(x[v], biases[v]);
        const auto store = [&](float* row) HWY_ATTR {
          HWY_UNROLL(3)
          for (int v = 0; v < kWide; ++v) {
            if (kWhole || lanes[v] == kLanes) {
              hn::StoreU(x[v], kF, row + v * 16);
            } else {
              store_first(x[v], row + v * 16, lanes[v]);
            }
          }
        };
        if (g.saved != nullptr) store(g.saved + to);
        End::values(kF, x);
        store(g.c + to);
      }
    }
  }
}

using Int8EndFunction = void (*)(const Gemm&, const Int8Place&, const int32_t* sums);

template <class End, bool kFirst, bool kWhole>
HWY_INLINE Int8EndFunction int8_end_of(int64_t strips) {
  constexpr Int8EndFunction kEnds[] = {end_int8_sums<End, kFirst, kWhole, 1>, end_int8_sums<End, kFirst, kWhole, 2>,
                                       end_int8_sums<End, kFirst, kWhole, 3>};
  return kEnds[strips - 1];
}

// The numbers of a tile whose sums in a group lie in memory, rows x (16 * strips).
template <class End>
HWY_INLINE void end_int8_group(const Gemm& g, const Int8Place& t, const int32_t* sums) {
  const bool whole = (t.strip0 + t.strips) * 16 <= g.n;
  const Int8EndFunction function =
      t.group == 0 ? whole ? int8_end_of<End, true, true>(t.strips) : int8_end_of<End, true, false>(t.strips)
      : whole ? int8_end_of<End, false, true>(t.strips)
                   : int8_end_of<End, false, false>(t.strips);
  function(g, t, sums);
}

// A unit of int8 products:
//   kRows, kStrips       of the largest tile
//   kFlip                what round_to_steps exclusive-ors to A's bytes: 0x80 where they are signed
//   Scope                open while tiles are computed
//   tile(rows, strips)   the function for that many
using Int8TileFunction = void (*)(const Int8Tile&);

struct PortableInt8 {
  static constexpr int64_t kRows = 4, kStrips = 1;
  static constexpr uint8_t kFlip = 0x80;
  struct Scope {};

  template <int kCount>
  static void multiply(const Int8Tile& t) {
    for (int64_t i = 0; i < kCount; ++i) {
      int32_t* const sums = t.sums + i * 16;
      std::fill_n(sums, 16, 0);
      for (int64_t p = 0; p < t.steps; ++p) {
        for (int64_t j = 0; j < 16; ++j) {
          for (int64_t q = 0; q < 4; ++q) {
            sums[j] += static_cast<int8_t>(t.a[i * t.a_row + 4 * p + q]) * t.b[p * 64 + 4 * j + q];
          }
        }
      }
    }
  }
  static Int8TileFunction tile(int64_t rows, int64_t /*strips*/) {
    constexpr Int8TileFunction kTiles[] = {multiply<1>, multiply<2>, multiply<3>, multiply<4>};
    return kTiles[rows - 1];
  }
};

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
// Four numbers as 16-bit ones: two products at a time have room in 32 bits.
#if HWY_TARGET == HWY_AVX3
struct WideInt8Lanes {
  using V = __m512i;
  static constexpr int kColumns = 8;
  static HWY_INLINE V zero() { return _mm512_setzero_si512(); }
  static HWY_INLINE V widen(const int8_t* b) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(b)));
  }
  static HWY_INLINE V broadcast(int64_t four) { return _mm512_set1_epi64(four); }
  static HWY_INLINE V add_products(V sum, V a, V b) { return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b)); }
  static HWY_INLINE void store(V v, int32_t* to) { _mm512_storeu_si512(to, v); }
};
#else
struct WideInt8Lanes {
  using V = __m256i;
  static constexpr int kColumns = 4;
  static HWY_INLINE V zero() { return _mm256_setzero_si256(); }
  static HWY_INLINE V widen(const int8_t* b) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b)));
  }
  static HWY_INLINE V broadcast(int64_t four) { return _mm256_set1_epi64x(four); }
  static HWY_INLINE V add_products(V sum, V a, V b) { return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)); }
  static HWY_INLINE void store(V v, int32_t* to) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), v); }
};
#endif

struct WideInt8 {
  using Lanes = WideInt8Lanes;
  static constexpr int64_t kRows = HWY_TARGET == HWY_AVX3 ? 8 : 3, kStrips = 1;
  static constexpr uint8_t kFlip = 0x80;
  struct Scope {};

  template <int kCount>
  static HWY_NOINLINE void multiply(const Int8Tile& t) {
    constexpr int kVectors = 16 / Lanes::kColumns;
    Lanes::V sum[kCount][kVectors];
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[i][v] = Lanes::zero();
    }
    for (int64_t p = 0; p < t.steps; ++p) {
      int64_t four[kCount];
#pragma GCC unroll 8
      for (int i = 0; i < kCount; ++i) {
        int32_t bytes;
        std::memcpy(&bytes, t.a + i * t.a_row + 4 * p, sizeof bytes);
        four[i] = _mm_cvtsi128_si64(_mm_cvtepi8_epi16(_mm_cvtsi32_si128(bytes)));
      }
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const Lanes::V b = Lanes::widen(t.b + p * 64 + v * 4 * Lanes::kColumns);
#pragma GCC unroll 8
        for (int i = 0; i < kCount; ++i) sum[i][v] = Lanes::add_products(sum[i][v], Lanes::broadcast(four[i]), b);
      }
    }
    HWY_ALIGN int32_t halves[2 * Lanes::kColumns];
    for (int i = 0; i < kCount; ++i) {
      for (int v = 0; v < kVectors; ++v) {
        Lanes::store(sum[i][v], halves);
        for (int j = 0; j < Lanes::kColumns; ++j) {
          t.sums[i * 16 + v * Lanes::kColumns + j] = halves[2 * j] + halves[2 * j + 1];
        }
      }
    }
  }
  static Int8TileFunction tile(int64_t rows, int64_t /*strips*/) {
#if HWY_TARGET == HWY_AVX3
    constexpr Int8TileFunction kTiles[] = {multiply<1>, multiply<2>, multiply<3>, multiply<4>,
                                           multiply<5>, multiply<6>, multiply<7>, multiply<8>};
#else
    constexpr Int8TileFunction kTiles[] = {multiply<1>, multiply<2>, multiply<3>};
#endif
    return kTiles[rows - 1];
  }
};
#endif

#if HWY_TARGET == HWY_AVX3
// vpdpbusd multiplies unsigned by signed numbers.
struct VnniInt8 {
  // B is prefetched 24 steps ahead: the first rows of a block take it from the second- or third-level cache. That saves
  // 5 % of the time of all-MiniLM-L6-v2 on texts of 128 tokens (Zen 5); 64 steps ahead saved 4 %. A prefetch behind the
  // last strip does nothing.
  static constexpr int64_t kAhead = 24 * 64;
  static constexpr int64_t kRows = 8, kStrips = 3;
  static constexpr uint8_t kFlip = 0;
  struct Scope {};

  static HWY_INLINE __m512i dot(__m512i sum, __m512i a, __m512i b) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
  }
  template <int kCount, int kWide>
  static HWY_NOINLINE void multiply(const Int8Tile& t) {
    __m512i sum[kCount][kWide];
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kWide; ++v) sum[i][v] = _mm512_setzero_si512();
    }
    const int8_t* b = t.b;
    const uint8_t* a = t.a;
    for (int64_t p = 0; p < t.steps; ++p, b += 64, a += 4) {
      __m512i column[kWide];
#pragma GCC unroll 4
      for (int v = 0; v < kWide; ++v) {
        column[v] = _mm512_loadu_si512(b + v * t.strip);
        _mm_prefetch(reinterpret_cast<const char*>(b + v * t.strip + kAhead), _MM_HINT_T0);
      }
#pragma GCC unroll 8
      for (int i = 0; i < kCount; ++i) {
        int32_t bytes;
        std::memcpy(&bytes, a + i * t.a_row, sizeof bytes);
        const __m512i x = _mm512_set1_epi32(bytes);
#pragma GCC unroll 4
        for (int v = 0; v < kWide; ++v) sum[i][v] = dot(sum[i][v], x, column[v]);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kWide; ++v) _mm512_storeu_si512(t.sums + (i * kWide + v) * 16, sum[i][v]);
    }
  }
  template <int kWide>
  static Int8TileFunction wide(int64_t rows) {
    constexpr Int8TileFunction kTiles[] = {multiply<1, kWide>, multiply<2, kWide>, multiply<3, kWide>,
                                           multiply<4, kWide>, multiply<5, kWide>, multiply<6, kWide>,
                                           multiply<7, kWide>, multiply<8, kWide>};
    return kTiles[rows - 1];
  }
  static Int8TileFunction tile(int64_t rows, int64_t strips) {
    return strips == 1 ? wide<1>(rows) : strips == 2 ? wide<2>(rows) : wide<3>(rows);
  }
};

// 32 rows and two strips in four tiles. Rows beyond A's are computed from whatever stands there, and not used.
template <class Tiles>
struct AmxInt8 {
  static constexpr int64_t kRows = 32, kStrips = 2;
  static constexpr uint8_t kFlip = 0x80;
  using Scope = typename Tiles::Scope;

  template <int kTall, int kWide>
  static HWY_NOINLINE void multiply(const Int8Tile& t) {
    Tiles::template clear<0>();
    if constexpr (kWide > 1) Tiles::template clear<1>();
    if constexpr (kTall > 1) Tiles::template clear<2>();
    if constexpr (kTall > 1 && kWide > 1) Tiles::template clear<3>();
    for (int64_t p = 0; p < t.steps; p += 16) {
      Tiles::template load<4>(t.a + 4 * p, t.a_row);
      Tiles::template load<6>(t.b + 64 * p, 64);
      Tiles::template dot_int8<0, 4, 6>();
      if constexpr (kWide > 1) {
        Tiles::template load<7>(t.b + t.strip + 64 * p, 64);
        Tiles::template dot_int8<1, 4, 7>();
      }
      if constexpr (kTall > 1) {
        Tiles::template load<5>(t.a + 16 * t.a_row + 4 * p, t.a_row);
        Tiles::template dot_int8<2, 5, 6>();
      }
      if constexpr (kTall > 1 && kWide > 1) Tiles::template dot_int8<3, 5, 7>();
    }
    constexpr int64_t kRow = 16 * kWide;
    Tiles::template store<0>(t.sums, kRow * 4);
    if constexpr (kWide > 1) Tiles::template store<1>(t.sums + 16, kRow * 4);
    if constexpr (kTall > 1) Tiles::template store<2>(t.sums + 16 * kRow, kRow * 4);
    if constexpr (kTall > 1 && kWide > 1) Tiles::template store<3>(t.sums + 16 * kRow + 16, kRow * 4);
  }
  static Int8TileFunction tile(int64_t rows, int64_t strips) {
    if (strips > 1) return rows > 16 ? multiply<2, 2> : multiply<1, 2>;
    return rows > 16 ? multiply<2, 1> : multiply<1, 1>;
  }
};
#endif

// Rows of A in bytes, and the steps of each row's groups.
struct Int8Rows {
  Buffer<uint8_t> bytes;
  Buffer<Steps> steps;

  Int8Rows(const Gemm& g, int64_t rows_in_tiles, uint8_t flip)
      : bytes(rows_in_tiles * g.int8->padded_k()), steps(g.m * g.int8->groups()) {
    const PackedInt8& b = *g.int8;
    const int64_t width = b.padded_k(), groups = b.groups();
    parallel_for(g.m, 1 + 32768 / width, [&](int64_t begin, int64_t end) {
      const Buffer<float> balanced(width);
      BalancedRow numbers[PackedInt8::kMostK / PackedInt8::kMostOfGroup];
      const auto length = [&](int64_t group) { return std::clamp<int64_t>(g.k - group * b.depth(), 0, b.depth()); };
      for (int64_t i = begin; i < end; ++i) {
        // All groups are balanced before the first is rounded: a group's numbers wait for its smallest and its largest.
        for (int64_t group = 0; group < groups; ++group) {
          const int64_t p = group * b.depth();
          numbers[group] = balance_row(g.a + i * g.a_row + p, b.balance() + p, length(group), balanced.data() + p);
        }
        uint8_t* const row = bytes.data() + i * width;
        for (int64_t group = 0; group < groups; ++group) {
          const int64_t p = group * b.depth();
          steps[i * groups + group] = round_to_steps(balanced.data() + p, length(group), numbers[group], flip, row + p);
        }
        std::memset(row + g.k, 0, static_cast<size_t>(width - g.k));  // B has zeros there
      }
    });
  }
};

// Where B comes from memory, each group of k of a tile prefetches its share of the tile's part of C, and of the strips
// of B that come next: the first rows would wait for them, and the last groups for C. The output layer of a model with
// 58,101 tokens takes a fifth less time so (Zen 5); products whose B is in the caches would take longer.
constexpr int64_t kLeastBytesOfB = 1 << 20;

HWY_INLINE void prefetch_c(const Gemm& g, const Int8Place& t, int64_t groups) {
  for (int64_t i = t.rows * t.group / groups; i < t.rows * (t.group + 1) / groups; ++i) {
    float* const row = g.c + (t.i0 + i) * g.c_row + t.strip0 * 16;
    for (int64_t v = 0; v < t.strips; ++v) __builtin_prefetch(row + v * 16, 1);
  }
}

HWY_INLINE void prefetch_b(const int8_t* strips, int64_t bytes, int64_t part, int64_t parts) {
  const int64_t lines = bytes / 64;
  for (int64_t line = lines * part / parts; line < lines * (part + 1) / parts; ++line)
    __builtin_prefetch(strips + line * 64, 0, 2);
}

template <class Unit, class Last>
void int8_product_with(const Gemm& g) {
  constexpr int64_t kInt8BlockRows = 64;  // of A: with 256 numbers each, half of the first-level cache
  static_assert(kInt8BlockRows % Unit::kRows == 0 || Unit::kRows == 3);
  const PackedInt8& b = *g.int8;
  const int64_t width = b.padded_k(), strips = b.strips(), k_groups = b.groups();
  const Int8Rows a(g, (g.m + Unit::kRows - 1) / Unit::kRows * Unit::kRows, Unit::kFlip);
  const int64_t groups = (strips + Unit::kStrips - 1) / Unit::kStrips;  // of strips, as even as they go
  const int64_t blocks = (g.m + kInt8BlockRows - 1) / kInt8BlockRows;
  const bool from_memory = width * g.n > kLeastBytesOfB;
  const int threads = num_threads();
  const int64_t parts_of_block = threads == 1 ? 1 : std::clamp<int64_t>(4 * threads / blocks, 1, groups);
  const int64_t work = std::min(g.m, kInt8BlockRows) * width * g.n / parts_of_block + 1;
  parallel_for(blocks * parts_of_block, 1 + 1'000'000 / work, [&](int64_t begin, int64_t end) {
    [[maybe_unused]] const typename Unit::Scope scope;
    HWY_ALIGN float parts[Unit::kRows * Unit::kStrips * 16];
    HWY_ALIGN int32_t sums[Unit::kRows * Unit::kStrips * 16];
    for (int64_t task = begin; task < end; ++task) {
      const int64_t i_begin = task / parts_of_block * kInt8BlockRows, i_end = std::min(g.m, i_begin + kInt8BlockRows);
      const int64_t part = task % parts_of_block;
      for (int64_t group = groups * part / parts_of_block; group < groups * (part + 1) / parts_of_block; ++group) {
        const int64_t first = strips * group / groups, count = strips * (group + 1) / groups - first;
        const int64_t parts_of_b = (i_end - i_begin + Unit::kRows - 1) / Unit::kRows * k_groups;
        const int64_t next = first + count < strips ? first + count : 0;  // what comes next
        int64_t part_of_b = 0;
        for (int64_t i = i_begin; i < i_end; i += Unit::kRows) {
          Int8Place place{i, std::min(Unit::kRows, i_end - i), first, count, 0, a.steps.data() + i * k_groups, parts};
          const auto multiply = Unit::tile(place.rows, count);
          for (; place.group < k_groups; ++place.group) {
            if (from_memory) {
              prefetch_c(g, place, k_groups);
              prefetch_b(b.strip(next), count * width * 16, part_of_b++, parts_of_b);
            }
            const int64_t p = place.group * b.depth(), depth = std::min(b.depth(), width - p);
            multiply({depth / 4, a.bytes.data() + i * width + p, width, b.strip(first) + p * 16, width * 16, sums});
            const auto end_group = place.group + 1 < k_groups ? end_int8_group<ToParts> : end_int8_group<Last>;
            end_group(g, place, sums);
          }
        }
      }
    }
  });
}

template <class Unit>
void int8_product(const Gemm& g) {
  with_activation(g.activation, [&](auto last) { int8_product_with<Unit, decltype(last)>(g); });
}

void run_int8_product(const Gemm& g, Int8Unit unit) {
  switch (unit) {
#if HWY_TARGET == HWY_AVX3
    case Int8Unit::vnni: return int8_product<VnniInt8>(g);
    case Int8Unit::amx: return int8_product<AmxInt8<AmxTiles>>(g);
#endif
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
    case Int8Unit::avx512:
    case Int8Unit::avx2: return int8_product<WideInt8>(g);
#endif
    default: return int8_product<PortableInt8>(g);
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
