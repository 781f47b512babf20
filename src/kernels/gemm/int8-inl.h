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
#include <utility>

#include "kernels/gemm/loops-inl.h"
#include "kernels/gemm/quantise-inl.h"
#include "kernels/simd/amx-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

using kernels::Int8Unit;
using kernels::PackedInt8;

// A tile: rows x strips of 16 columns. The operands are bytes, or 16-bit numbers for a unit that multiplies those.
template <class A, class B>
struct Int8TileOf {
  int64_t steps;  // of four numbers of k
  const A* a;
  int64_t a_row;  // numbers
  const B* b;
  int64_t strip;  // numbers
  int32_t* sums;  // rows x (16 * strips)
};
using Int8Tile = Int8TileOf<uint8_t, int8_t>;
using WideInt8Tile = Int8TileOf<int16_t, int16_t>;
using HalfWideInt8Tile = Int8TileOf<int16_t, int8_t>;

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
  static constexpr Int8EndFunction kEnds[] = {end_int8_sums<End, kFirst, kWhole, 1>,
                                              end_int8_sums<End, kFirst, kWhole, 2>,
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
//   Tile                 Int8Tile, or WideInt8Tile: then widen() makes the operands, and there are tiles of
//                        HalfWideInt8Tile, too
//   tile(rows, strips)   the function for that many
using Int8TileFunction = void (*)(const Int8Tile&);

struct PortableInt8 {
  using Tile = Int8Tile;
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
    static constexpr Int8TileFunction kTiles[] = {multiply<1>, multiply<2>, multiply<3>, multiply<4>};
    return kTiles[rows - 1];
  }
};

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
// Four numbers of k as 16-bit ones: two products at a time have room in 32 bits.
#if HWY_TARGET == HWY_AVX3
struct WideInt8Lanes {
  using V = __m512i;
  static constexpr int kColumns = 8;
  static HWY_INLINE V zero() { return _mm512_setzero_si512(); }
  static HWY_INLINE V load(const int16_t* b) { return _mm512_loadu_si512(b); }
  static HWY_INLINE V load(const int8_t* b) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(b)));
  }
  static HWY_INLINE void store(V v, int16_t* to) { _mm512_storeu_si512(to, v); }
  // The sums of the two halves of 2 x 8 columns.
  static HWY_INLINE void store_sums(V low, V high, int32_t* to) {
    const V even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const V odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    const V first = _mm512_permutex2var_epi32(low, even, high), second = _mm512_permutex2var_epi32(low, odd, high);
    _mm512_storeu_si512(to, _mm512_add_epi32(first, second));
  }
};
#else
struct WideInt8Lanes {
  using V = __m256i;
  static constexpr int kColumns = 4;
  static HWY_INLINE V zero() { return _mm256_setzero_si256(); }
  static HWY_INLINE V load(const int16_t* b) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b)); }
  static HWY_INLINE V load(const int8_t* b) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b)));
  }
  static HWY_INLINE void store(V v, int16_t* to) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), v); }
  // The sums of the two halves of 2 x 4 columns.
  static HWY_INLINE void store_sums(V low, V high, int32_t* to) {
    const V sums = _mm256_permute4x64_epi64(_mm256_hadd_epi32(low, high), 0b11'01'10'00);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), sums);
  }
};
#endif

// Both operands are widened before the tiles, a strip of B once for a block of rows of A. Where the rows are a single
// tile, that tile widens B itself. Two vectors of columns at a time leave registers for six rows with AVX2. With a tile
// of three rows that widened both operands itself, all of all-MiniLM-L6-v2 took 1.4 times as long (Zen 3).
struct WideInt8 {
  using Lanes = WideInt8Lanes;
  using Tile = WideInt8Tile;
  static constexpr int64_t kRows = HWY_TARGET == HWY_AVX3 ? 8 : 6, kStrips = 1;
  static constexpr uint8_t kFlip = 0x80;
  struct Scope {};

  // Adds the products of a row's four numbers with two vectors of B. As intrinsics, GCC 12 loads the numbers of all
  // rows first, has no registers left, and keeps the sums in memory.
  static HWY_INLINE void add_products(Lanes::V& low_sum, Lanes::V& high_sum, const int16_t* four, Lanes::V low,
                                      Lanes::V high) {
    struct __attribute__((may_alias, packed)) Four {
      int64_t numbers;
    };
    Lanes::V row, products;
    asm("vpbroadcastq %4, %2\n\t"
        "vpmaddwd %5, %2, %3\n\t"
        "vpaddd %3, %0, %0\n\t"
        "vpmaddwd %6, %2, %2\n\t"
        "vpaddd %2, %1, %1"
        : "+&v"(low_sum), "+&v"(high_sum), "=&v"(row), "=&v"(products)
        : "m"(*reinterpret_cast<const Four*>(four)), "v"(low), "v"(high));
  }

  template <class AnyTile, int kCount>
  static HWY_NOINLINE void multiply(const AnyTile& t) {
    constexpr int64_t kNumbers = 4 * Lanes::kColumns;  // of a vector
    for (int64_t j0 = 0; j0 < 16; j0 += 2 * Lanes::kColumns) {
      Lanes::V sum[kCount][2];
#pragma GCC unroll 8
      for (int i = 0; i < kCount; ++i) sum[i][0] = sum[i][1] = Lanes::zero();
      const auto* b = t.b + 4 * j0;
      const int16_t* a = t.a;
      for (int64_t p = 0; p < t.steps; ++p, b += 64, a += 4) {
        const Lanes::V low = Lanes::load(b), high = Lanes::load(b + kNumbers);
#pragma GCC unroll 8
        for (int i = 0; i < kCount; ++i) add_products(sum[i][0], sum[i][1], a + i * t.a_row, low, high);
      }
#pragma GCC unroll 8
      for (int i = 0; i < kCount; ++i) Lanes::store_sums(sum[i][0], sum[i][1], t.sums + i * 16 + j0);
    }
  }
  template <class AnyTile, size_t... kRow>
  static auto tile_of(int64_t rows, std::index_sequence<kRow...> /*indices*/) {
    static constexpr void (*kTiles[])(const AnyTile&) = {multiply<AnyTile, static_cast<int>(kRow) + 1>...};
    return kTiles[rows - 1];
  }
  template <class AnyTile = Tile>
  static auto tile(int64_t rows, int64_t /*strips*/) {
    return tile_of<AnyTile>(rows, std::make_index_sequence<kRows>());
  }

  // `count` is a multiple of 64. (Inlined, GCC 12 loads `out` again for each vector.)
  static HWY_NOINLINE void widen(const int8_t* HWY_RESTRICT numbers, int64_t count, int16_t* HWY_RESTRICT out) {
    constexpr int64_t kNumbers = 4 * Lanes::kColumns;
    for (int64_t p = 0; p < count; p += kNumbers) Lanes::store(Lanes::load(numbers + p), out + p);
  }
};
#endif

#if HWY_TARGET == HWY_AVX2
// vpdpbusd as processors without AVX-512 have it. (Without {vex} the assembler encodes it for AVX-512.) Six rows take
// 15 of the 16 registers: 12 sums, two vectors of B, one of A.
struct AvxVnniInt8 {
  using Tile = Int8Tile;
  static constexpr int64_t kRows = 6, kStrips = 1;
  static constexpr uint8_t kFlip = 0;
  struct Scope {};

  // Adds the products of a row's four bytes with the two halves of B. (See WideInt8.)
  static HWY_INLINE void add_products(__m256i (&sum)[2], const uint8_t* four, __m256i low, __m256i high) {
    struct __attribute__((may_alias, packed)) Four {
      int32_t bytes;
    };
    __m256i row;
    asm("vpbroadcastd %3, %2\n\t"
        "%{vex%} vpdpbusd %4, %2, %0\n\t"
        "%{vex%} vpdpbusd %5, %2, %1"
        : "+&x"(sum[0]), "+&x"(sum[1]), "=&x"(row)
        : "m"(*reinterpret_cast<const Four*>(four)), "x"(low), "x"(high));
  }
  template <int kCount>
  static HWY_NOINLINE void multiply(const Int8Tile& t) {
    __m256i sum[kCount][2];
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) sum[i][0] = sum[i][1] = _mm256_setzero_si256();
    const auto* b = reinterpret_cast<const __m256i*>(t.b);
    const uint8_t* a = t.a;
    for (int64_t p = 0; p < t.steps; ++p, b += 2, a += 4) {
      const __m256i low = _mm256_loadu_si256(b), high = _mm256_loadu_si256(b + 1);
#pragma GCC unroll 8
      for (int i = 0; i < kCount; ++i) add_products(sum[i], a + i * t.a_row, low, high);
    }
    auto* const sums = reinterpret_cast<__m256i*>(t.sums);
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      _mm256_storeu_si256(sums + 2 * i, sum[i][0]);
      _mm256_storeu_si256(sums + 2 * i + 1, sum[i][1]);
    }
  }
  static Int8TileFunction tile(int64_t rows, int64_t /*strips*/) {
    static constexpr Int8TileFunction kTiles[] = {multiply<1>, multiply<2>, multiply<3>,
                                                  multiply<4>, multiply<5>, multiply<6>};
    return kTiles[rows - 1];
  }
};
#endif

#if HWY_TARGET == HWY_AVX3
// vpdpbusd multiplies unsigned by signed numbers.
struct VnniInt8 {
  using Tile = Int8Tile;
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
    static constexpr Int8TileFunction kTiles[] = {multiply<1, kWide>, multiply<2, kWide>, multiply<3, kWide>,
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
  using Tile = Int8Tile;
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

// Rows of A as the unit multiplies them, and the steps of each row's groups.
template <class Unit>
struct Int8Rows {
  static constexpr bool kWidens = std::is_same_v<typename Unit::Tile, WideInt8Tile>;

  Buffer<std::conditional_t<kWidens, int16_t, uint8_t>> numbers;
  Buffer<Steps> steps;

  explicit Int8Rows(const Gemm& g)
      : numbers((g.m + Unit::kRows - 1) / Unit::kRows * Unit::kRows * g.int8->padded_k()),
        steps(g.m * g.int8->groups()) {
    const PackedInt8& b = *g.int8;
    const int64_t width = b.padded_k(), groups = b.groups();
    parallel_for(g.m, 1 + 32768 / width, [&](int64_t begin, int64_t end) {
      const Buffer<float> balanced(width);
      [[maybe_unused]] const Buffer<uint8_t> bytes(kWidens ? width : 0);
      BalancedRow balanced_groups[PackedInt8::kMostK / PackedInt8::kMostOfGroup];
      const auto length = [&](int64_t group) { return std::clamp<int64_t>(g.k - group * b.depth(), 0, b.depth()); };
      for (int64_t i = begin; i < end; ++i) {
        // All groups are balanced before the first is rounded: a group's numbers wait for its smallest and its largest.
        for (int64_t group = 0; group < groups; ++group) {
          const int64_t p = group * b.depth();
          balanced_groups[group] =
              balance_row(g.a + i * g.a_row + p, b.balance() + p, length(group), balanced.data() + p);
        }
        uint8_t* row;
        if constexpr (kWidens) {
          row = bytes.data();
        } else {
          row = numbers.data() + i * width;
        }
        for (int64_t group = 0; group < groups; ++group) {
          const int64_t p = group * b.depth();
          steps[i * groups + group] =
              round_to_steps(balanced.data() + p, length(group), balanced_groups[group], Unit::kFlip, row + p);
        }
        std::memset(row + g.k, 0, static_cast<size_t>(width - g.k));  // B has zeros there
        if constexpr (kWidens) Unit::widen(reinterpret_cast<const int8_t*>(row), width, numbers.data() + i * width);
      }
    });
  }
};

// Where B comes from memory, each group of k of a tile prefetches its share of the tile's part of C, and of the strips
// of B that come next: the first rows would wait for them, and the last groups for C. The output layer of a model with
// 58,101 tokens takes a fifth less time so (Zen 5); products whose B is in the caches would take longer. But where
// strips are widened, most of that time would be spent waiting for their bytes.
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

// Rows of A in a block: 64 with 256 bytes each are half of the first-level cache. Where each block widens B, more of
// them make that a smaller part of the work, as even as they go: of 384 numbers up to 252, which took 5 % less time
// than 60 for all of all-MiniLM-L6-v2 (Zen 3).
template <class Unit>
int64_t int8_block_rows(const Gemm& g) {
  constexpr int64_t kFew = 64 / Unit::kRows * Unit::kRows;
  if constexpr (!Int8Rows<Unit>::kWidens) return kFew;
  constexpr int64_t kMostNumbers = 98304;  // 192 KB of the second-level cache
  const int64_t most = std::max(kFew, kMostNumbers / g.int8->padded_k());
  const int64_t for_all_threads = 4 * num_threads() / g.int8->strips() + 1;
  const int64_t blocks = std::max((g.m + most - 1) / most, std::min(for_all_threads, (g.m + kFew - 1) / kFew));
  return ((g.m + blocks - 1) / blocks + Unit::kRows - 1) / Unit::kRows * Unit::kRows;
}

template <class Unit, class Last>
void int8_product_with(const Gemm& g) {
  constexpr bool kWidens = Int8Rows<Unit>::kWidens;
  const PackedInt8& b = *g.int8;
  const int64_t width = b.padded_k(), strips = b.strips(), k_groups = b.groups();
  const int64_t block_rows = int8_block_rows<Unit>(g);
  const Int8Rows<Unit> a(g);
  const int64_t groups = (strips + Unit::kStrips - 1) / Unit::kStrips;  // of strips, as even as they go
  const int64_t blocks = (g.m + block_rows - 1) / block_rows;
  const bool prefetches = kWidens || width * g.n > kLeastBytesOfB;
  const int threads = num_threads();
  const int64_t parts_of_block = threads == 1 ? 1 : std::clamp<int64_t>(4 * threads / blocks, 1, groups);
  const int64_t work = std::min(g.m, block_rows) * width * g.n / parts_of_block + 1;
  parallel_for(blocks * parts_of_block, 1 + 1'000'000 / work, [&](int64_t begin, int64_t end) {
    [[maybe_unused]] const typename Unit::Scope scope;
    HWY_ALIGN float parts[Unit::kRows * Unit::kStrips * 16];
    HWY_ALIGN int32_t sums[Unit::kRows * Unit::kStrips * 16];
    [[maybe_unused]] const Buffer<int16_t> wide_b(kWidens ? Unit::kStrips * width * 16 : 0);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t i_begin = task / parts_of_block * block_rows, i_end = std::min(g.m, i_begin + block_rows);
      const int64_t part = task % parts_of_block;
      for (int64_t group = groups * part / parts_of_block; group < groups * (part + 1) / parts_of_block; ++group) {
        const int64_t first = strips * group / groups, count = strips * (group + 1) / groups - first;
        const int64_t parts_of_b = (i_end - i_begin + Unit::kRows - 1) / Unit::kRows * k_groups;
        const int64_t next = first + count < strips ? first + count : 0;  // what comes next
        int64_t part_of_b = 0;
        bool is_wide = false;
        if constexpr (kWidens) {
          is_wide = i_end - i_begin > Unit::kRows;
          if (is_wide) Unit::widen(b.strip(first), count * width * 16, wide_b.data());
        }
        for (int64_t i = i_begin; i < i_end; i += Unit::kRows) {
          Int8Place place{i, std::min(Unit::kRows, i_end - i), first, count, 0, a.steps.data() + i * k_groups, parts};
          const auto tile = Unit::tile(place.rows, count);
          const auto multiply = [&](int64_t p, int64_t steps) {
            const auto* const row = a.numbers.data() + i * width + p;
            const int8_t* const column = b.strip(first) + p * 16;
            if constexpr (!kWidens) {
              tile({steps, row, width, column, width * 16, sums});
            } else if (is_wide) {
              tile({steps, row, width, wide_b.data() + p * 16, width * 16, sums});
            } else {
              Unit::template tile<HalfWideInt8Tile>(place.rows, count)({steps, row, width, column, width * 16, sums});
            }
          };
          for (; place.group < k_groups; ++place.group) {
            if (prefetches) {
              prefetch_c(g, place, k_groups);
              prefetch_b(b.strip(next), count * width * 16, part_of_b++, parts_of_b);
            }
            const int64_t p = place.group * b.depth(), depth = std::min(b.depth(), width - p);
            multiply(p, depth / 4);
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
#if HWY_TARGET == HWY_AVX2
    case Int8Unit::avx_vnni: return int8_product<AvxVnniInt8>(g);
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
