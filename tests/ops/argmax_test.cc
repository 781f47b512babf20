// The largest of a row, and of the rows of a linear layer: the same column as that of all its numbers.
#include <algorithm>
#include <cmath>
#include <limits>

#include "heed/cpu.h"
#include "heed/error.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/largest.h"
#include "ops/arrays.h"

namespace heed {
namespace {

using testing::on_every_isa;
using testing::random_tensor;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(Argmax, TheFirstOfTheLargestThatIsNotExcluded) {
  const std::vector<float> values = {1, 5, 5, -2, 3, -7, -7, -7, -9, -8};
  const Tensor x = Tensor::from(std::span<const float>(values), {2, 5});
  EXPECT_EQ(ops::argmax(x), (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(ops::argmax(x, std::vector<uint8_t>{0, 1, 0, 0, 0}), (std::vector<int32_t>{2, 0}));
  EXPECT_EQ(ops::argmax(x, std::vector<uint8_t>{1, 1, 1, 0, 1}), (std::vector<int32_t>{3, 3}));
  EXPECT_EQ(ops::argmax(x, std::vector<uint8_t>{1, 1, 1, 1, 1}),
            (std::vector<int32_t>{ops::kNoLargest, ops::kNoLargest}));
  EXPECT_THROW((void)ops::argmax(x, std::vector<uint8_t>{1}), Error);
}

TEST(Argmax, KnowsWhichRowsAreNoNumbers) {
  const std::vector<float> values = {1, kNaN, 0, 1, kInfinity, 0, 1, -kInfinity, 0, -kInfinity, -kInfinity, -kInfinity};
  const Tensor x = Tensor::from(std::span<const float>(values), {4, 3});
  EXPECT_EQ(ops::argmax(x), (std::vector<int32_t>{ops::kNotFinite, ops::kNotFinite, 0, ops::kNotFinite}));
  EXPECT_EQ(ops::argmax(x, std::vector<uint8_t>{1, 0, 1})[2], ops::kNoLargest) << "-infinity is never the largest";
}

struct Layer {
  Tensor weight, bias;
  [[nodiscard]] std::vector<int32_t> expected(const Tensor& x, std::span<const uint8_t> excluded = {}) const {
    return ops::argmax(ops::linear(x, weight, bias, {.save = false}).output, excluded);
  }
  [[nodiscard]] std::unique_ptr<ops::LinearArgmax> argmax() const {
    return std::make_unique<ops::LinearArgmax>(std::make_shared<const ops::PackedWeight>(weight), bias);
  }
};

// Weights of all sizes a column and a number of k may have, as the balance and the scales of int8 must stand.
Layer uneven_layer(int64_t out, int64_t in, uint64_t seed, bool with_bias) {
  Layer layer{random_tensor({out, in}, seed), with_bias ? random_tensor({out}, seed + 1) : Tensor()};
  const Tensor columns = random_tensor({in}, seed + 2, 3), rows = random_tensor({out}, seed + 3, 2);
  for (int64_t j = 0; j < out; ++j)
    for (int64_t p = 0; p < in; ++p)
      layer.weight.data<float>()[j * in + p] *= std::exp(columns.data<float>()[p] + rows.data<float>()[j]);
  return layer;
}

TEST(LinearArgmax, IsThatOfAllColumns) {
  on_every_isa([] {
    for (const auto& [rows, out, in] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
             {1, 1, 1}, {3, 17, 5}, {70, 1000, 64}, {65, 333, 257}, {9, 100, 700}, {130, 4000, 32}}) {
      for (uint64_t seed = 1; seed <= 3; ++seed) {
        const Layer layer = uneven_layer(out, in, seed, seed != 2);
        const Tensor x = random_tensor({rows, in}, seed + 10, seed == 3 ? 1e-3f : 1.0f);
        EXPECT_EQ((*layer.argmax())(x), layer.expected(x)) << rows << " " << out << " " << in << " " << seed;
      }
    }
  });
}

// All columns alike but for less than what int8 loses: the bound decides, and often more columns are left than are
// computed one by one.
TEST(LinearArgmax, TellsColumnsApartThatInt8CannotTellApart) {
  on_every_isa([] {
    int64_t different = 0;  // rows that int8 alone would get wrong
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      const int64_t out = 5 + static_cast<int64_t>(seed) * 7, in = 96;
      Layer layer = uneven_layer(out, in, seed, false);
      const Tensor near = random_tensor({out, in}, seed + 5, seed % 2 == 0 ? 1e-2f : 1e-6f);
      for (int64_t j = 1; j < out; ++j)
        for (int64_t p = 0; p < in; ++p)
          layer.weight.data<float>()[j * in + p] = layer.weight.data<float>()[p] * (1 + near.data<float>()[j * in + p]);
      const Tensor x = random_tensor({64, in}, seed + 6);
      const std::vector<int32_t> expected = layer.expected(x);
      EXPECT_EQ((*layer.argmax())(x), expected) << seed;
      const ops::PackedWeight int8(layer.weight, WeightFormat::int8);
      const std::vector<int32_t> rounded = ops::argmax(ops::linear(x, int8, {}, {.save = false}).output);
      for (size_t r = 0; r < expected.size(); ++r) different += static_cast<int64_t>(expected[r] != rounded[r]);
    }
    EXPECT_GT(different, 300);
  });
}

TEST(LinearArgmax, EqualColumnsGiveTheFirst) {
  Layer layer = uneven_layer(200, 48, 4, false);
  for (int64_t j = 1; j < 200; ++j) std::copy_n(layer.weight.data<float>(), 48, layer.weight.data<float>() + j * 48);
  const Tensor x = random_tensor({5, 48}, 5);
  EXPECT_EQ((*layer.argmax())(x), std::vector<int32_t>(5, 0));
  std::vector<uint8_t> excluded(200, 0);
  std::fill_n(excluded.begin(), 7, uint8_t{1});
  EXPECT_EQ((*layer.argmax())(x, excluded), std::vector<int32_t>(5, 7));
  EXPECT_EQ((*layer.argmax())(Tensor::zeros({2, 48})), std::vector<int32_t>(2, 0));
}

TEST(LinearArgmax, LeavesOutWhatIsExcluded) {
  const Layer layer = uneven_layer(500, 40, 6, true);
  const Tensor x = random_tensor({30, 40}, 7);
  const auto argmax = layer.argmax();
  std::vector<uint8_t> excluded(500, 0);
  for (int round = 0; round < 20; ++round) {
    const std::vector<int32_t> found = (*argmax)(x, excluded);
    ASSERT_EQ(found, layer.expected(x, excluded)) << round;
    for (const int32_t id : found) excluded[static_cast<size_t>(id)] = 1;
  }
  std::fill(excluded.begin(), excluded.end(), uint8_t{1});
  EXPECT_EQ((*argmax)(x, excluded), std::vector<int32_t>(30, ops::kNoLargest));
}

// The bound says nothing of such rows and weights: all numbers are computed.
TEST(LinearArgmax, NumbersThatAreNotFiniteOrTooLarge) {
  Layer layer = uneven_layer(60, 20, 8, true);
  Tensor x = random_tensor({6, 20}, 9);
  x.data<float>()[1 * 20 + 3] = kNaN;
  x.data<float>()[2 * 20 + 4] = kInfinity;
  for (int64_t p = 0; p < 20; ++p) x.data<float>()[3 * 20 + p] *= 1e37f;
  for (int64_t p = 0; p < 20; ++p) x.data<float>()[4 * 20 + p] *= 1e-42f;
  const std::vector<int32_t> found = (*layer.argmax())(x);
  EXPECT_EQ(found, layer.expected(x));
  EXPECT_EQ(found[1], ops::kNotFinite);
  layer.bias.data<float>()[7] = -kInfinity;  // as some models keep a token from being written
  EXPECT_EQ((*layer.argmax())(x), layer.expected(x));
  layer.weight.data<float>()[5 * 20] = kInfinity;
  EXPECT_EQ((*layer.argmax())(x), layer.expected(x));
}

TEST(LinearArgmax, ThreadsAndNeighboursChangeNothing) {
  const testing::SettingsScope scope;
  const Layer layer = uneven_layer(700, 128, 11, true);
  const Tensor x = random_tensor({150, 128}, 12);
  const auto argmax = layer.argmax();
  set_num_threads(1);
  const std::vector<int32_t> all = (*argmax)(x);
  set_num_threads(3);
  EXPECT_EQ((*argmax)(x), all);
  for (int64_t r = 0; r < 150; r += 29) EXPECT_EQ((*argmax)(x.slice(0, r, r + 1))[0], all[static_cast<size_t>(r)]);
}

// Few columns are left, or the bound is of no use: of 4,000 as wide as a vocabulary, some.
TEST(LinearArgmax, LeavesFewColumns) {
  const int64_t out = 4000, in = 256;
  const Tensor weight = random_tensor({out, in}, 13, 0.0625f), x = random_tensor({32, in}, 14);
  const kernels::WeightRow rows = kernels::rows_at(weight.data<float>(), in);
  const kernels::PackedInt8 int8(rows, in, out);
  const kernels::Int8Loss loss(int8, rows, nullptr);
  const Tensor approximate = ops::linear(x, ops::PackedWeight(weight, WeightFormat::int8), {}, {.save = false}).output;
  std::vector<int32_t> chosen(static_cast<size_t>(out));
  int64_t all = 0;
  for (int64_t r = 0; r < 32; ++r) {
    const int64_t found = kernels::largest_columns(int8, loss, x.data<float>() + r * in,
                                                   approximate.data<float>() + r * out, out, chosen.data());
    ASSERT_GE(found, 1);
    all += found;
  }
  EXPECT_LT(all, 32 * 20);
}

// A row that points just where column 0 has lost most: int8 sees it far behind column 1, which has lost nothing. The
// bound holds there, and hardly more (Cauchy and Schwarz).
TEST(LinearArgmax, TheBoundHoldsWhereItIsTight) {
  on_every_isa([] {
    constexpr int64_t kIn = 64, kOut = 2;
    for (uint64_t seed = 1; seed <= 50; ++seed) {
      const Tensor draws = random_tensor({3, kIn}, seed);
      std::vector<int8_t> numbers(kOut * kIn);
      std::vector<float> weight(kOut * kIn), x(kIn);
      double first = 0, second = 0;  // the products in exact numbers
      for (size_t p = 0; p < kIn; ++p) {
        const float lost = 0.45f * std::clamp(draws.data<float>()[p], -1.0f, 1.0f);
        numbers[p] = static_cast<int8_t>(
            std::lround(std::clamp(4 * draws.data<float>()[kIn + static_cast<int64_t>(p)], -8.0f, 8.0f)));
        numbers[kIn + p] = numbers[p];
        weight[p] = static_cast<float>(numbers[p]) + lost;
        x[p] = 3 * lost;
        first += static_cast<double>(x[p]) * static_cast<double>(weight[p]);
        second += static_cast<double>(x[p]) * numbers[p];
      }
      for (size_t p = 0; p < kIn; ++p) {  // column 1 comes up to column 0 from below
        if (second + std::abs(static_cast<double>(x[p])) >= first) continue;
        numbers[kIn + p] = static_cast<int8_t>(numbers[kIn + p] + (x[p] < 0 ? -1 : 1));
        second += std::abs(static_cast<double>(x[p]));
      }
      for (size_t p = 0; p < kIn; ++p) weight[kIn + p] = static_cast<float>(numbers[kIn + p]);
      const std::vector<float> scales(kOut, 1.0f), balance(kIn, 1.0f);
      const kernels::PackedInt8 int8(numbers.data(), scales.data(), balance.data(), kIn, kOut);
      const kernels::Int8Loss loss(int8, kernels::rows_at(weight.data(), kIn), nullptr);
      std::vector<float> approximate(kOut);
      kernels::Gemm product{.m = 1, .n = kOut, .k = kIn, .a = x.data(), .a_row = kIn};
      product.int8 = &int8;
      product.c = approximate.data(), product.c_row = kOut;
      kernels::gemm(product);
      ASSERT_GT(approximate[1], approximate[0] + 5);
      std::vector<int32_t> chosen(kOut);
      const int64_t found = kernels::largest_columns(int8, loss, x.data(), approximate.data(), kOut, chosen.data());
      ASSERT_GE(found, 1) << seed;
      EXPECT_EQ(chosen[0], 0) << seed << ": " << first << " and " << second << ", in int8 " << approximate[0] << " and "
                              << approximate[1];
    }
  });
}

TEST(LinearArgmax, RefusesWhatDoesNotFit) {
  const Layer layer = uneven_layer(10, 4, 15, false);
  EXPECT_THROW((void)(*layer.argmax())(Tensor::zeros({2, 5})), Error);
  EXPECT_THROW((void)(*layer.argmax())(Tensor::zeros({2, 4}), std::vector<uint8_t>(9, 0)), Error);
  EXPECT_THROW(ops::LinearArgmax(nullptr, {}), Error);
  const auto int8 = std::make_shared<const ops::PackedWeight>(layer.weight, WeightFormat::int8);
  EXPECT_THROW(ops::LinearArgmax(int8, {}), Error);
  EXPECT_FALSE(ops::LinearArgmax::pays(*int8));
}

}  // namespace
}  // namespace heed
