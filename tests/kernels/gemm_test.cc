// The matrix product against its definition, one chain of fused multiply-adds an element, bit for bit; and against f64.
// Everything in f32 and with operands rounded to bf16, which is f32 on instruction sets that do not multiply bf16.
#include "kernels/gemm/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm_test.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/emulated_tiles.h"
#include "kernels/gemm/loops-inl.h"
#include "kernels/gemm/tile_amx-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// The product in tiles of AMX, emulated; false where pairs cannot be rounded as those tiles want them.
bool TiledProduct([[maybe_unused]] const Gemm& g) {
#if HWY_TARGET == HWY_AVX3
  run_product<AmxStep<testing::EmulatedTiles>>(g);
  return true;
#else
  return false;
#endif
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "kernels/settings.h"

namespace heed::kernels {
namespace {

HWY_EXPORT(TiledProduct);

using testing::Guarded;
using testing::on_every_isa;
using testing::random_floats;

struct Case {
  int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
  int64_t pad = 0;  // added to every leading dimension
  bool accumulate = false;
};

class GemmIn : public ::testing::TestWithParam<bool> {};  // bf16
INSTANTIATE_TEST_SUITE_P(Precisions, GemmIn, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "bf16" : "f32"; });

struct Operands {
  std::vector<float> a, b, c;
  Gemm gemm;
};

Operands operands(const Case& t, uint64_t seed, bool bf16 = false) {
  const int64_t a_leading = (t.transpose_a ? t.m : t.k) + t.pad, b_leading = (t.transpose_b ? t.k : t.n) + t.pad;
  Operands o;
  o.a = random_floats(static_cast<size_t>((t.transpose_a ? t.k : t.m) * a_leading), seed);
  o.b = random_floats(static_cast<size_t>((t.transpose_b ? t.n : t.k) * b_leading), seed + 1);
  o.c = random_floats(static_cast<size_t>(t.m * (t.n + t.pad)), seed + 2);
  Gemm& g = o.gemm;
  g.m = t.m, g.n = t.n, g.k = t.k;
  g.a_row = t.transpose_a ? 1 : a_leading, g.a_column = t.transpose_a ? a_leading : 1;
  g.b_row = t.transpose_b ? 1 : b_leading, g.b_column = t.transpose_b ? b_leading : 1;
  g.c_row = t.n + t.pad;
  g.accumulate = t.accumulate;
  g.bf16 = bf16;
  return o;
}

void point(Operands& o) { o.gemm.a = o.a.data(), o.gemm.b = o.b.data(), o.gemm.c = o.c.data(); }

// To the nearest bf16, the even one of two (finite numbers).
float rounded(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000);
}

// In bf16 on vectors the second of two neighbours in k comes first, as vdpbf16ps has it (SDM, volume 2).
float chain(const Gemm& g, int64_t i, int64_t j, float start) {
  const bool pairs = g.bf16 && multiplies_bf16();
  float sum = g.accumulate ? start : 0.0f;
  const auto step = [&](int64_t p) {
    if (p >= g.k) return;
    const float a = g.a[i * g.a_row + p * g.a_column], b = g.b[p * g.b_row + j * g.b_column];
    sum = pairs ? std::fma(rounded(a), rounded(b), sum) : std::fma(a, b, sum);
  };
  for (int64_t p = 0; p < g.k; p += 2) {
    step(pairs ? p + 1 : p);
    step(pairs ? p : p + 1);
  }
  return sum;
}

// The same bits; but on AMX, whose sums are cut differently, close.
bool is_chain(const Gemm& g, float found, float expected) {
  if (!g.bf16 || active_isa() != Isa::amx) return std::memcmp(&found, &expected, sizeof(float)) == 0;
  return std::fabs(found - expected) <= 1e-4f * (1.0f + std::sqrt(static_cast<float>(g.k)));
}

void expect_chain(const Case& t, uint64_t seed, bool bf16) {
  SCOPED_TRACE(::testing::Message() << t.m << " x " << t.n << " x " << t.k << (t.transpose_a ? " T" : " N")
                                    << (t.transpose_b ? "T" : "N") << " pad " << t.pad << (t.accumulate ? " +=" : ""));
  Operands o = operands(t, seed, bf16);
  point(o);
  const std::vector<float> before = o.c;
  gemm(o.gemm);
  for (int64_t i = 0; i < t.m; ++i) {
    for (int64_t j = 0; j < t.n + t.pad; ++j) {
      const auto at = static_cast<size_t>(i * o.gemm.c_row + j);
      const float expected = j < t.n ? chain(o.gemm, i, j, before[at]) : before[at];  // the padding stays
      ASSERT_TRUE(is_chain(o.gemm, o.c[at], expected))
          << "at " << i << ", " << j << ": " << o.c[at] << " instead of " << expected;
    }
  }
}

TEST_P(GemmIn, IsOneChainOfMultiplyAddsAnElement) {
  on_every_isa([bf16 = GetParam()] {
    const int64_t sizes[][3] = {{1, 1, 1},    {1, 17, 5},  {2, 48, 16},   {3, 49, 7},   {7, 33, 31},   {4, 37, 21},
                                {8, 96, 3},   {9, 15, 40}, {16, 24, 8},   {17, 65, 12}, {23, 100, 19}, {31, 7, 33},
                                {40, 80, 50}, {97, 50, 9}, {5, 130, 260}, {2, 70, 300}, {18, 31, 300}};
    uint64_t seed = 1;
    for (const auto& [m, n, k] : sizes) {
      for (const bool ta : {false, true}) {
        for (const bool tb : {false, true}) {
          expect_chain({m, n, k, ta, tb, 0, false}, seed++, bf16);
          expect_chain({m, n, k, ta, tb, 5, true}, seed++, bf16);
        }
      }
    }
  });
}

TEST_P(GemmIn, AcceptsNoWorkAtAll) {
  on_every_isa([bf16 = GetParam()] {
    expect_chain({3, 5, 0, false, false, 1, false}, 1, bf16);
    expect_chain({3, 5, 0, false, true, 1, true}, 2, bf16);
    expect_chain({40, 5, 0, false, true, 0, false}, 3, bf16);
    expect_chain({40, 5, 0, true, true, 0, true}, 4, bf16);
    expect_chain({0, 5, 3}, 5, bf16);
    expect_chain({5, 0, 3}, 6, bf16);
  });
}

// Sizes at which rows, columns and k are cut; a sample of the elements.
TEST_P(GemmIn, IsOneChainAcrossTheCuts) {
  const testing::SettingsScope scope;
  const bool bf16 = GetParam();
  const Case cases[] = {{300, 500, 700, false, true}, {120, 2200, 4200, false, true}, {130, 2100, 4100, true, false},
                        {200, 64, 9000, true, false}, {400, 2200, 4200, false, true}, {10, 1000, 1030, false, true},
                        {4, 300, 5000, false, false}, {1000, 33, 513, true, true, 3}};
  for (const Isa isa : available_isas()) {
    if (isa == Isa::portable) continue;  // minutes
    set_isa(isa);
    for (const Case& t : cases) {
      Operands o = operands(t, 7, bf16);
      point(o);
      gemm(o.gemm);
      std::mt19937 engine(3);
      for (int sample = 0; sample < 400; ++sample) {
        const int64_t i = std::uniform_int_distribution<int64_t>(0, t.m - 1)(engine);
        const int64_t j = std::uniform_int_distribution<int64_t>(0, t.n - 1)(engine);
        const float expected = chain(o.gemm, i, j, 0.0f), found = o.c[static_cast<size_t>(i * o.gemm.c_row + j)];
        ASSERT_TRUE(is_chain(o.gemm, found, expected)) << to_string(isa) << " at " << i << ", " << j;
      }
    }
  }
}

TEST_P(GemmIn, AnyStridesWork) {
  on_every_isa([bf16 = GetParam()] {
    Operands o = operands({6, 21, 9}, 4, bf16);
    const auto a = random_floats(6 * 9 * 3, 5), b = random_floats(9 * 21 * 2 * 2, 6);
    o.gemm.a = a.data(), o.gemm.a_row = 27, o.gemm.a_column = 3;
    o.gemm.b = b.data(), o.gemm.b_row = 84, o.gemm.b_column = 2;
    o.gemm.c = o.c.data();
    for (const int64_t m : {int64_t{6}, int64_t{40}}) {
      o.gemm.m = m;
      if (m == 40) o.gemm.a_row = 2;  // overlapping rows: reading only
      o.c.assign(static_cast<size_t>(m * 21), 0.0f);
      o.gemm.c = o.c.data();
      gemm(o.gemm);
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < 21; ++j) {
          ASSERT_TRUE(is_chain(o.gemm, o.c[static_cast<size_t>(i * 21 + j)], chain(o.gemm, i, j, 0.0f)));
        }
      }
    }
  });
}

TEST_P(GemmIn, SameBitsForAnyNumberOfThreadsAndRows) {
  const testing::SettingsScope scope;
  const bool bf16 = GetParam();
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    const int64_t m = isa == Isa::portable ? 40 : 333;
    for (const bool tb : {false, true}) {
      Operands o = operands({m, 130, 270, false, tb}, 11, bf16);
      point(o);
      set_num_threads(1);
      gemm(o.gemm);
      const std::vector<float> expected = o.c;
      for (const int threads : {2, 3, 7}) {
        set_num_threads(threads);
        std::fill(o.c.begin(), o.c.end(), NAN);
        gemm(o.gemm);
        ASSERT_EQ(std::memcmp(o.c.data(), expected.data(), expected.size() * sizeof(float)), 0) << threads;
      }
      for (const int64_t row : {int64_t{0}, int64_t{17}, m - 1}) {  // one row alone
        std::vector<float> alone(130);
        Gemm g = o.gemm;
        g.m = 1, g.a += row * g.a_row, g.c = alone.data();
        gemm(g);
        ASSERT_EQ(std::memcmp(alone.data(), expected.data() + row * 130, 130 * sizeof(float)), 0) << row;
      }
    }
  }
}

TEST(Gemm, SameBitsOnEveryInstructionSet) {
  testing::expect_same_bits_everywhere([] {
    Operands o = operands({37, 70, 90, true, true}, 21);
    point(o);
    const std::vector<float> bias = random_floats(70, 5);
    o.gemm.bias = bias.data();
    o.gemm.activation = Activation::gelu;
    gemm(o.gemm);
    return o.c;
  });
}

TEST(Gemm, IsCloseToDouble) {
  on_every_isa([] {
    const Case t{20, 60, 500, false, true};
    Operands o = operands(t, 31);
    point(o);
    gemm(o.gemm);
    for (int64_t i = 0; i < t.m; ++i) {
      for (int64_t j = 0; j < t.n; ++j) {
        double sum = 0, magnitude = 0;
        for (int64_t p = 0; p < t.k; ++p) {
          const double product = static_cast<double>(o.a[static_cast<size_t>(i * t.k + p)]) *
                                 static_cast<double>(o.b[static_cast<size_t>(j * t.k + p)]);
          sum += product;
          magnitude += std::fabs(product);
        }
        ASSERT_NEAR(o.c[static_cast<size_t>(i * t.n + j)], sum, magnitude * 500 * 0x1p-25);
      }
    }
  });
}

TEST_P(GemmIn, ReadsAndWritesNothingBeyondItsOperands) {
  on_every_isa([bf16 = GetParam()] {
    for (const bool at_end : {false, true}) {
      for (const int64_t m : {1, 5, 19, 41}) {
        for (const int64_t n : {1, 13, 47, 51}) {
          for (const int64_t k : {1, 6, 37}) {
            for (const bool ta : {false, true}) {
              for (const bool tb : {false, true}) {
                Operands o = operands({m, n, k, ta, tb}, 3, bf16);
                const Guarded a(o.a, at_end), b(o.b, at_end), c(o.c, at_end), saved(o.c, at_end),
                    bias(random_floats(static_cast<size_t>(n), 1), at_end);
                o.gemm.a = a.data(), o.gemm.b = b.data(), o.gemm.c = c.data();
                o.gemm.bias = bias.data(), o.gemm.saved = saved.data(), o.gemm.activation = Activation::relu;
                gemm(o.gemm);
              }
            }
          }
        }
      }
    }
  });
}

TEST_P(GemmIn, BiasAndActivationComeAfterTheChain) {
  on_every_isa([bf16 = GetParam()] {
    for (const auto& [m, k] : {std::pair{3, 20}, {50, 20}, {7, 700}, {50, 700}}) {  // 700 is cut into several
      Operands o = operands({m, 53, k, false, true, 2}, 41, bf16);
      point(o);
      const std::vector<float> bias = random_floats(53, 42);
      std::vector<float> saved(o.c.size());
      o.gemm.bias = bias.data();
      o.gemm.saved = saved.data();
      o.gemm.activation = Activation::relu;
      gemm(o.gemm);
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < 53; ++j) {
          const auto at = static_cast<size_t>(i * o.gemm.c_row + j);
          const float before = chain(o.gemm, i, j, 0.0f) + bias[static_cast<size_t>(j)];
          ASSERT_TRUE(is_chain(o.gemm, saved[at], before));
          ASSERT_EQ(o.c[at], saved[at] < 0.0f ? 0.0f : saved[at]);
        }
      }
      // Where the values before the activation are not wanted, the tile itself ends its chains: with the same bits.
      const std::vector<float> with_saved = o.c;
      const auto same = [&](const std::vector<float>& expected) {
        for (int64_t i = 0; i < m; ++i) {
          const auto row = static_cast<size_t>(i * o.gemm.c_row);
          if (std::memcmp(o.c.data() + row, expected.data() + row, 53 * sizeof(float)) != 0) return false;
        }
        return true;
      };
      o.gemm.saved = nullptr;
      gemm(o.gemm);
      ASSERT_TRUE(same(with_saved));
      o.gemm.activation = Activation::none;
      gemm(o.gemm);
      ASSERT_TRUE(same(saved));
    }
  });
}

TEST_P(GemmIn, NaNAndInfinityStayInTheirRowsAndColumns) {
  on_every_isa([bf16 = GetParam()] {
    Operands o = operands({20, 50, 30, false, true}, 51, bf16);
    o.a[3 * 30 + 7] = NAN;
    o.b[10 * 30 + 2] = INFINITY;
    point(o);
    gemm(o.gemm);
    for (size_t i = 0; i < 20; ++i) {
      for (size_t j = 0; j < 50; ++j) {
        const float value = o.c[i * 50 + j];
        if (i == 3) {
          ASSERT_TRUE(std::isnan(value));
        } else if (j == 10) {
          ASSERT_TRUE(std::isinf(value));
        } else {
          ASSERT_TRUE(std::isfinite(value));
        }
      }
    }
  });
}

// In tiles the sums are cut differently, so that a tolerance takes the place of the chain.
TEST(Gemm, InTilesIsCloseToDouble) {
  if (!multiplies_bf16()) GTEST_SKIP() << "this machine does not round to bf16 by an instruction";
  const Case cases[] = {{1, 1, 1},
                        {3, 49, 7},
                        {17, 65, 12, true},
                        {33, 100, 19, false, true},
                        {40, 80, 50, true, true, 3},
                        {70, 31, 300, false, false, 1},
                        {97, 50, 65, true},
                        {200, 64, 2100, true, false, 0, true},
                        {300, 500, 700, false, true},
                        {65, 33, 513, true, true, 3, true}};
  for (const Case& t : cases) {
    SCOPED_TRACE(::testing::Message() << t.m << " x " << t.n << " x " << t.k);
    Operands o = operands(t, 9, true);
    point(o);
    const std::vector<float> before = o.c;
    ASSERT_TRUE(HWY_DYNAMIC_DISPATCH(TiledProduct)(o.gemm));
    const Gemm& g = o.gemm;
    for (int64_t i = 0; i < t.m; ++i) {
      for (int64_t j = 0; j < t.n + t.pad; ++j) {
        const auto at = static_cast<size_t>(i * g.c_row + j);
        if (j >= t.n) {
          ASSERT_EQ(o.c[at], before[at]);  // the padding stays
          continue;
        }
        double sum = g.accumulate ? static_cast<double>(before[at]) : 0.0, magnitude = std::fabs(sum);
        for (int64_t p = 0; p < t.k; ++p) {
          const double product = static_cast<double>(rounded(g.a[i * g.a_row + p * g.a_column])) *
                                 static_cast<double>(rounded(g.b[p * g.b_row + j * g.b_column]));
          sum += product;
          magnitude += std::fabs(product);
        }
        ASSERT_NEAR(o.c[at], sum, magnitude * (16.0 + static_cast<double>(t.k) / 32.0) * 0x1p-24) << i << ", " << j;
      }
    }
    // A row alone, and other threads.
    const testing::SettingsScope scope;
    for (const int threads : {1, 3}) {
      set_num_threads(threads);
      Operands again = operands(t, 9, true);
      point(again);
      HWY_DYNAMIC_DISPATCH(TiledProduct)(again.gemm);
      ASSERT_EQ(std::memcmp(again.c.data(), o.c.data(), o.c.size() * sizeof(float)), 0);
      Operands alone = operands(t, 9, true);
      point(alone);
      const int64_t row = t.m - 1;
      alone.gemm.m = 1, alone.gemm.a += row * g.a_row, alone.gemm.c += row * g.c_row;
      HWY_DYNAMIC_DISPATCH(TiledProduct)(alone.gemm);
      const auto last = static_cast<size_t>(row * g.c_row);
      ASSERT_EQ(std::memcmp(&alone.c[last], &o.c[last], static_cast<size_t>(t.n) * sizeof(float)), 0);
    }
  }
}

}  // namespace
}  // namespace heed::kernels
#endif
