// A leaf whose weight is packed: what is computed with it, and that no change to its numbers is lost.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "base/message.h"
#include "heed/autograd.h"
#include "heed/cpu.h"

namespace heed {
namespace {

Tensor random_tensor(const Shape& shape, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> normal;
  Tensor tensor = Tensor::empty(shape);
  for (int64_t i = 0; i < tensor.numel(); ++i) tensor.data<float>()[i] = normal(engine);
  return tensor;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.nbytes())) == 0;
}

struct Packed : ::testing::Test {
  Tensor rows = random_tensor({70, 30}, 1);
  Value weight{rows.clone(), true}, bias{random_tensor({70}, 2), true};
  Value x{random_tensor({3, 5, 30}, 3)};

  [[nodiscard]] Tensor product(Activation activation = Activation::none) const {
    const NoGradScope no_grad;
    return linear(x, weight, bias, activation).data();
  }
};

TEST_F(Packed, LinearHasTheSameBits) {
  const Tensor before = product(Activation::gelu);
  weight.pack();
  ASSERT_NE(weight.packed(), nullptr);
  EXPECT_TRUE(same_bits(product(Activation::gelu), before));
  EXPECT_NE(weight.packed(), nullptr);  // asking for its shape or using it leaves it packed
  EXPECT_EQ(weight.shape(), Shape({70, 30}));
  EXPECT_EQ(weight.size(-1), 30);
}

TEST_F(Packed, RowsComeBackAndThePackedWeightGoes) {
  weight.pack();
  EXPECT_TRUE(same_bits(weight.data(), rows));
  EXPECT_EQ(weight.packed(), nullptr);
  const Tensor before = product();
  weight.data().data<float>()[0] += 1;  // as an optimizer does
  EXPECT_FALSE(same_bits(product(), before));
}

TEST_F(Packed, NewNumbersTakeItsPlace) {
  weight.pack();
  const Tensor other = random_tensor({70, 30}, 9);
  weight.set_data(other);
  EXPECT_EQ(weight.packed(), nullptr);
  const Value plain(other, true);
  const NoGradScope no_grad;
  EXPECT_TRUE(same_bits(product(), linear(x, plain, bias).data()));
}

TEST_F(Packed, ATableIsLookedUpInWhatIsPacked) {
  const Tensor ids = Tensor::from(std::span<const int32_t>(std::array<int32_t, 4>{69, 0, 3, 69}), {2, 2});
  const EmbeddingOptions options{.padding_id = 3, .scale = 1.5f};
  const NoGradScope no_grad;
  std::vector<WeightFormat> formats = {WeightFormat::f32, WeightFormat::int8};
  if (multiplies_bf16()) formats.push_back(WeightFormat::bf16);
  for (const WeightFormat format : formats) {
    weight.set_data(rows);
    weight.pack(format);
    const Tensor rounded = weight.packed()->unpack();
    EXPECT_EQ(same_bits(rounded, rows), format == WeightFormat::f32);
    const Tensor found = embedding(ids, weight, options).data();
    EXPECT_TRUE(same_bits(found, ops::embedding(ids, rounded, options)));
    EXPECT_EQ(found.at({1, 0, 0}), 0);
    EXPECT_NE(found.at({1, 1, 0}), 0);
    ASSERT_NE(weight.packed(), nullptr);  // it stays
    EXPECT_EQ(weight.packed()->format(), format);
    const Tensor wrong = Tensor::from(std::span<const int32_t>(std::array<int32_t, 1>{70}), {1, 1});
    EXPECT_EQ(testing::message_of([&] { (void)embedding(wrong, weight); }),
              "[embedding] ids in [0, 70); found 70 at position 0");
  }
}

TEST_F(Packed, GradientsAreThoseOfTheRows) {
  const Value plain(rows.clone(), true);
  weight.pack();
  for (const Value& w : {plain, weight}) {
    const Value y = linear(x, w, bias, Activation::silu);
    sum(y * y).backward();
  }
  EXPECT_TRUE(same_bits(weight.grad(), plain.grad()));
}

TEST_F(Packed, Int8KeepsItsNumbers) {
  const Tensor before = product();
  weight.pack(WeightFormat::int8);
  const Tensor rounded = product();
  double dot = 0, a = 0, b = 0;
  for (int64_t i = 0; i < before.numel(); ++i) {
    const double p = static_cast<double>(before.data<float>()[i]), q = static_cast<double>(rounded.data<float>()[i]);
    dot += p * q, a += p * p, b += q * q;
  }
  EXPECT_GT(dot / std::sqrt(a * b), 0.999);
  EXPECT_FALSE(same_bits(rounded, before));
  weight.pack();  // the numbers before are gone
  EXPECT_EQ(weight.packed()->format(), WeightFormat::int8);
  EXPECT_TRUE(same_bits(product(), rounded));
}

TEST_F(Packed, ThreadsMayUseAndUnpackAtOnce) {
  const Tensor before = product();
  for (int round = 0; round < 20; ++round) {
    weight.pack();
    std::vector<std::thread> threads;
    std::atomic<int> wrong = 0;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        if (t % 2 == 0 ? !same_bits(product(), before) : !same_bits(weight.data(), rows)) ++wrong;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
  }
}

}  // namespace
}  // namespace heed
