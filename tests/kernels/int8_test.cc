// Products in int8 against whole numbers of 64 bits: every unit has the same bits.
#include "kernels/gemm/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/int8_test.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/emulated_tiles.h"
#include "kernels/gemm/int8-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

void UnitProduct(const Gemm& g, kernels::Int8Unit unit) { run_int8_product(g, unit); }

// In tiles of AMX, emulated; false where there are no vectors for the rest.
bool TiledInt8([[maybe_unused]] const Gemm& g) {
#if HWY_TARGET == HWY_AVX3
  int8_product<AmxInt8<testing::EmulatedTiles>>(g);
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

#include <cmath>

#include "kernels/gemm/quantise.h"
#include "kernels/operands.h"
#include "kernels/rows/elementwise.h"
#include "kernels/settings.h"

namespace heed::kernels {
namespace {

HWY_EXPORT(UnitProduct);
HWY_EXPORT(TiledInt8);

using testing::SettingsScope;

struct Rounded {
  std::vector<int64_t> numbers;
  float scale = 0;

  Rounded(const float* row, int64_t count) {
    float largest = 0;
    for (int64_t p = 0; p < count; ++p) largest = std::max(largest, std::fabs(row[p]));
    const float factor = largest == 0 ? 0.0f : 127.0f / largest;
    for (int64_t p = 0; p < count; ++p) numbers.push_back(static_cast<int64_t>(std::nearbyint(row[p] * factor)));
    scale = largest / 127.0f;
  }
};

// A row of A, balanced, in groups of 256 steps each.
struct RoundedRow {
  std::vector<int64_t> numbers;  // byte - zero
  std::vector<float> scales;     // of each group

  RoundedRow(const float* row, const PackedInt8& b) {
    for (int64_t first = 0; first < b.k(); first += b.depth()) {
      const int64_t end = std::min(b.k(), first + b.depth());
      float least = 0, most = 0;
      for (int64_t p = first; p < end; ++p) {
        least = std::min(least, row[p] * b.balance()[p]);
        most = std::max(most, row[p] * b.balance()[p]);
      }
      const float factor = most == least ? 0.0f : 255.0f / (most - least);
      const int64_t zero = std::lrint(-least * factor);
      for (int64_t p = first; p < end; ++p) {
        const int64_t byte = std::lrint(row[p] * b.balance()[p] * factor) + zero;
        numbers.push_back(std::clamp<int64_t>(byte, 0, 255) - zero);
      }
      scales.push_back((most - least) / 255.0f);
    }
  }
};

struct Int8Case : Operands {
  using Operands::Operands;

  // `b`: packed from these weights; its balance and its groups are what is taken from it.
  [[nodiscard]] std::vector<float> expected(const PackedInt8& b) const {
    std::vector<Rounded> columns;
    for (int64_t j = 0; j < n; ++j) {
      std::vector<float> column(weight.begin() + j * k, weight.begin() + (j + 1) * k);
      for (int64_t p = 0; p < k; ++p) column[static_cast<size_t>(p)] /= b.balance()[p];
      columns.emplace_back(column.data(), k);
    }
    std::vector<float> c;
    for (int64_t i = 0; i < m; ++i) {
      const RoundedRow row(a.data() + i * k, b);
      for (int64_t j = 0; j < n; ++j) {
        const Rounded& column = columns[static_cast<size_t>(j)];
        float value = 0;
        for (size_t group = 0; group < row.scales.size(); ++group) {
          const size_t first = group * static_cast<size_t>(b.depth());
          const size_t end = std::min(static_cast<size_t>(k), first + static_cast<size_t>(b.depth()));
          int64_t sum = 0;
          for (size_t p = first; p < end; ++p) sum += row.numbers[p] * column.numbers[p];
          const float part = static_cast<float>(sum) * (row.scales[group] * column.scale);
          value = group == 0 ? part : value + part;
        }
        c.push_back(std::max(value + bias[static_cast<size_t>(j)], 0.0f));
      }
    }
    return c;
  }

  [[nodiscard]] std::vector<double> exact() const {
    std::vector<double> c;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = static_cast<double>(bias[static_cast<size_t>(j)]);
        for (int64_t p = 0; p < k; ++p)
          sum += static_cast<double>(a[static_cast<size_t>(i * k + p)]) *
                 static_cast<double>(weight[static_cast<size_t>(j * k + p)]);
        c.push_back(std::max(sum, 0.0));
      }
    }
    return c;
  }

  template <class Product>
  [[nodiscard]] std::vector<float> with(const PackedInt8& b, Product&& product,
                                        Activation activation = Activation::relu) const {
    std::vector<float> c(static_cast<size_t>(m * n), 99);
    Gemm g = into(c);
    g.int8 = &b;
    g.activation = activation;
    product(g);
    return c;
  }
};

TEST(Int8, EveryUnitHasTheSumsOfWholeNumbers) {
  const SettingsScope scope;
  for (const int64_t m : {1, 3, 8, 33, 70, 170}) {  // 170: several blocks of rows in each unit, where k is 600
    for (const int64_t n : {1, 16, 50, 100}) {
      for (const int64_t k : {1, 64, 130, 384, 600}) {
        const Int8Case c(m, n, k);
        const PackedInt8 b(kernels::rows_at(c.weight.data(), k), k, n);
        const std::vector<float> expected = c.expected(b);
        for (const Isa isa : available_isas()) {
          set_isa(isa);
          ASSERT_FALSE(int8_units().empty());
          EXPECT_EQ(fastest_int8_unit(), int8_units().back());
          for (const int threads : {1, 3}) {
            set_num_threads(threads);
            for (const Int8Unit unit : int8_units()) {
              const auto found = c.with(b, [&](const Gemm& g) { HWY_DYNAMIC_DISPATCH(UnitProduct)(g, unit); });
              EXPECT_EQ(found, expected) << to_string(isa) << ", unit " << static_cast<int>(unit) << ", " << m << " x "
                                         << n << " x " << k;
            }
            EXPECT_EQ(c.with(b, [&](const Gemm& g) { gemm(g); }), expected);
            bool tiled = false;
            const auto in_tiles = c.with(b, [&](const Gemm& g) { tiled = HWY_DYNAMIC_DISPATCH(TiledInt8)(g); });
            if (tiled) {
              EXPECT_EQ(in_tiles, expected) << "tiles, " << m << " x " << n << " x " << k;
            }
          }
        }
      }
    }
  }
}

TEST(Int8, EndsWithTheActivation) {
  testing::on_every_isa([] {
    for (const int64_t n : {50, 96}) {
      for (const int64_t k : {64, 384}) {  // one group, and two
        const Int8Case c(11, n, k);
        const PackedInt8 b(kernels::rows_at(c.weight.data(), k), k, n);
        for (const Int8Unit unit : int8_units()) {
          const auto product = [&](const Gemm& g) { HWY_DYNAMIC_DISPATCH(UnitProduct)(g, unit); };
          const std::vector<float> sums = c.with(b, product, Activation::none);
          for (const Activation activation :
               {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::tanh}) {
            std::vector<float> expected(sums.size()), saved(sums.size());
            activate(sums.data(), expected.data(), std::ssize(sums), activation);
            EXPECT_EQ(c.with(b, product, activation), expected);
            const auto saving = [&](Gemm g) {
              g.saved = saved.data();
              product(g);
            };
            EXPECT_EQ(c.with(b, saving, activation), expected);
            EXPECT_EQ(saved, sums);
          }
        }
      }
    }
  });
}

// The saturating instruction of AVX2 would give 32,767 for a pair of such products.
TEST(Int8, LargestNumbersDoNotSaturate) {
  testing::on_every_isa([] {
    Int8Case c(4, 20, 512);
    std::fill(c.a.begin(), c.a.end(), 1.0f);
    std::fill(c.weight.begin(), c.weight.end(), 1.0f);
    for (size_t i = 0; i < c.a.size(); i += 2) c.a[i] = -1;
    for (size_t i = 0; i < c.weight.size(); i += 2) c.weight[i] = -1;
    const PackedInt8 b(kernels::rows_at(c.weight.data(), c.k), c.k, c.n);
    EXPECT_EQ(c.with(b, [&](const Gemm& g) { gemm(g); }), c.expected(b));
  });
}

// Against the exact product: with the error that steps of a 255th of a group's range leave, also where a few columns of
// A are far larger than the others and where all of A is far from 0.
TEST(Int8, IsNearTheExactProduct) {
  for (const auto& [columns, offset] : {std::pair{0, 0.0f}, {3, 0.0f}, {0, 20.0f}}) {
    Int8Case c(7, 40, 600);
    for (size_t at = 0; at < c.a.size(); ++at) {
      c.a[at] += offset;
      if (static_cast<int64_t>(at) % c.k < columns) c.a[at] *= 30;
    }
    const PackedInt8 b(kernels::rows_at(c.weight.data(), c.k), c.k, c.n);
    EXPECT_EQ(b.groups(), 3);
    const std::vector<float> found = c.with(b, [&](const Gemm& g) { gemm(g); });
    const std::vector<double> exact = c.exact();
    double error = 0, size = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      error += (static_cast<double>(found[i]) - exact[i]) * (static_cast<double>(found[i]) - exact[i]);
      size += exact[i] * exact[i];
    }
    EXPECT_LT(std::sqrt(error / size), 0.025) << columns << " large columns, " << offset;
    EXPECT_GT(error, 0);
  }
}

// A column of A and a row of B that are large and small by turns: the balance makes them alike.
TEST(Int8, BalanceSharesTheSteps) {
  Int8Case c(4, 32, 64);
  for (int64_t at = 0; at < c.m * c.k; ++at) c.a[static_cast<size_t>(at)] *= at % 2 == 0 ? 100.0f : 1.0f;
  for (int64_t at = 0; at < c.n * c.k; ++at) c.weight[static_cast<size_t>(at)] *= at % 2 == 0 ? 0.0001f : 1.0f;
  const PackedInt8 b(kernels::rows_at(c.weight.data(), c.k), c.k, c.n);
  EXPECT_NEAR(b.balance()[1] / b.balance()[0], 100, 30);
  const std::vector<float> found = c.with(b, [&](const Gemm& g) { gemm(g); });
  const std::vector<double> exact = c.exact();
  for (size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(static_cast<double>(found[i]), exact[i], 0.25) << i;
}

TEST(Int8, RowsThatAreNoNumbersStayAlone) {
  testing::on_every_isa([] {
    Int8Case c(3, 20, 300);
    const PackedInt8 b(kernels::rows_at(c.weight.data(), c.k), c.k, c.n);
    const std::vector<float> before = c.with(b, [&](const Gemm& g) { gemm(g); });
    c.a[static_cast<size_t>(c.k + 290)] = std::numeric_limits<float>::infinity();
    const std::vector<float> found = c.with(b, [&](const Gemm& g) { gemm(g); });
    for (size_t i = 0; i < found.size(); ++i) {
      if (i / 20 == 1) {
        EXPECT_FALSE(found[i] > 0) << i;  // a NaN, which ReLU may make 0
      } else {
        EXPECT_EQ(found[i], before[i]) << i;
      }
    }
  });
}

TEST(Int8, RowsThatAreZeroOrNoNumbers) {
  testing::on_every_isa([] {
    std::vector<float> row(37, 0.0f);
    std::vector<int8_t> numbers(row.size(), 7);
    EXPECT_EQ(quantise(row.data(), 37, numbers.data()), 0.0f);
    EXPECT_EQ(numbers, std::vector<int8_t>(row.size(), 0));
    row[3] = 1e-42f;  // its inverse is infinite
    EXPECT_TRUE(std::isfinite(quantise(row.data(), 37, numbers.data())));
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      row[35] = bad;
      EXPECT_TRUE(std::isnan(quantise(row.data(), 37, numbers.data())));
      EXPECT_EQ(numbers, std::vector<int8_t>(row.size(), 0));
    }
  });
}

TEST(Int8, NumbersAndScalesMakeTheSameWeight) {
  const Int8Case c(5, 33, 70);
  const PackedInt8 b(kernels::rows_at(c.weight.data(), c.k), c.k, c.n);
  std::vector<int8_t> numbers(c.weight.size());
  b.numbers(numbers.data());
  const PackedInt8 again(numbers.data(), b.scales(), b.balance(), c.k, c.n);
  EXPECT_EQ(c.with(again, [&](const Gemm& g) { gemm(g); }), c.expected(b));
  std::vector<float> unpacked(c.weight.size());
  again.unpack(unpacked.data());
  for (size_t i = 0; i < unpacked.size(); ++i) {
    const float scale = b.scales()[i / static_cast<size_t>(c.k)] * b.balance()[i % static_cast<size_t>(c.k)];
    EXPECT_LE(std::fabs(unpacked[i] - c.weight[i]), 0.501f * scale) << i;
  }
}

}  // namespace
}  // namespace heed::kernels
#endif
