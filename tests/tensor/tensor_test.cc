// Tensor: shapes, views, copies, conversions, and the errors of each.
#include "heed/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "heed/error.h"

namespace heed {
namespace {

Tensor counting(const Shape& shape) {
  Tensor tensor = Tensor::empty(shape);
  std::iota(tensor.data<float>(), tensor.data<float>() + tensor.numel(), 0.0f);
  return tensor;
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ((Shape{2, 3, 4}).numel(), 24);
  EXPECT_EQ((Shape{int64_t{1} << 40, 0, int64_t{1} << 40}).numel(), 0);
  EXPECT_THROW((void)(Shape{int64_t{1} << 40, int64_t{1} << 40}).numel(), Error);
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), Error);
  EXPECT_EQ(to_string(Shape{2, -1}), "(2, -1)");
}

TEST(Tensor, ViewsShareMemory) {
  const Tensor x = counting({2, 3, 4});
  const Tensor t = x.transpose(0, 2);
  EXPECT_EQ(t.shape(), (Shape{4, 3, 2}));
  EXPECT_FALSE(t.is_contiguous());
  EXPECT_EQ(t.at({3, 1, 1}), x.at({1, 1, 3}));
  const Tensor s = x.slice(1, 1, 3);
  EXPECT_EQ(s.shape(), (Shape{2, 2, 4}));
  EXPECT_EQ(s.at({1, 0, 2}), 18.0);
  s.data<float>()[0] = -7;
  EXPECT_EQ(x.at({0, 1, 0}), -7.0);
  EXPECT_EQ(x.select(0, 1).at({2, 3}), 23.0);
  EXPECT_EQ(x.reshape({6, -1}).shape(), (Shape{6, 4}));
  const Tensor e = counting({3, 1}).expand({2, 3, 5});
  EXPECT_EQ(e.at({1, 2, 4}), 2.0);
  EXPECT_EQ(e.strides(), (Shape{0, 1, 0}));
}

TEST(Tensor, CopiesOfAnyStridesAgree) {
  const Tensor x = counting({3, 4, 5});
  const Tensor t = x.transpose(0, 1).slice(2, 1, 4);
  const Tensor c = t.contiguous();
  ASSERT_TRUE(c.is_contiguous());
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      for (int64_t k = 0; k < 3; ++k) EXPECT_EQ(c.at({i, j, k}), x.at({j, i, k + 1}));
    }
  }
  Tensor back = Tensor::zeros({3, 4, 5});
  back.transpose(0, 1).slice(2, 1, 4).copy_from(c);
  EXPECT_EQ(back.at({2, 3, 1}), x.at({2, 3, 1}));
  EXPECT_EQ(back.at({2, 3, 0}), 0.0);
}

TEST(Tensor, NegativeStridesWork) {
  const Tensor x = counting({5});
  const Tensor reversed = Tensor::wrap(x.data<float>() + 4, {5}, Shape{-1}, DType::f32);
  EXPECT_EQ(reversed.at({0}), 4.0);
  EXPECT_EQ(reversed.clone().at({4}), 0.0);
}

TEST(Tensor, ConvertsBetweenTypes) {
  const Tensor x = Tensor::from({0.0f, 1.5f, -2.0f, 1e-3f}, {4});
  for (const DType dtype : {DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64}) {
    const Tensor y = x.to(dtype).to(DType::f32);
    EXPECT_NEAR(y.at({2}), -2.0, 0);
    if (dtype == DType::f64) {
      EXPECT_EQ(y.at({3}), x.at({3}));
    }
  }
  EXPECT_EQ(x.to(DType::boolean).at({0}), 0.0);
  EXPECT_EQ(x.to(DType::boolean).at({3}), 1.0);
}

constexpr DType kTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16,   DType::i64,
                            DType::i32, DType::i8,  DType::u8,  DType::boolean};

// `values` as a tensor of the given type, every second element of a longer one.
Tensor every_second(const std::vector<double>& values, DType dtype) {
  const Tensor wide = Tensor::empty({static_cast<int64_t>(values.size()), 2}, DType::f64);
  wide.zero();
  for (size_t i = 0; i < values.size(); ++i) wide.data<double>()[2 * i] = values[i];
  return wide.to(dtype).select(1, 0);
}

// All 81 pairs of types, in rows longer than the pieces that are converted at a time.
TEST(Tensor, ConvertsEveryTypeIntoEveryOther) {
  std::vector<double> whole(1300);
  for (size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<double>((7 * i) % 120);
  for (const DType from : kTypes) {
    const Tensor strided = every_second(whole, from), contiguous = strided.contiguous();
    for (const DType to : kTypes) {
      const Tensor into = every_second(std::vector<double>(whole.size(), 1.0), to);
      into.copy_from(strided);
      const Tensor results[] = {contiguous.to(to), strided.to(to), into};
      for (const Tensor& result : results) {
        ASSERT_EQ(result.dtype(), to);
        for (int64_t i = 0; i < result.numel(); ++i) {
          const bool truth = from == DType::boolean || to == DType::boolean;
          const double value = whole[static_cast<size_t>(i)];
          ASSERT_EQ(result.at({i}), truth ? (value != 0 ? 1.0 : 0.0) : value) << to_string(from) << to_string(to) << i;
        }
      }
    }
  }
}

TEST(Tensor, ConversionsRoundOnceAndWrapAround) {
  const auto converted = [](auto value, DType from, DType to) {
    return Tensor::wrap(&value, Shape{}, from).to(to).at({});
  };
  EXPECT_EQ(converted(int64_t{(1 << 24) + 1}, DType::i64, DType::f32), 16777216.0);
  // By way of f64 this would be rounded twice, to 2^54.
  EXPECT_EQ(converted((int64_t{1} << 54) + (int64_t{1} << 30) + 1, DType::i64, DType::f32), 0x1p54 + 0x1p31);
  EXPECT_EQ(converted((int64_t{1} << 53) + 1, DType::i64, DType::f64), 0x1p53);
  EXPECT_EQ(converted(int64_t{-2}, DType::i64, DType::u8), 254.0);
  EXPECT_EQ(converted((int64_t{1} << 40) + 200, DType::i64, DType::i8), -56.0);
  EXPECT_EQ(converted((int64_t{5} << 32) + 7, DType::i64, DType::i32), 7.0);
  EXPECT_EQ(converted(int64_t{1} << 40, DType::i64, DType::boolean), 1.0);
  EXPECT_EQ(converted(-3.9f, DType::f32, DType::i8), -3.0);
  EXPECT_EQ(converted(200.9, DType::f64, DType::u8), 200.0);
  EXPECT_EQ(converted(0.5f, DType::f32, DType::boolean), 1.0);
  EXPECT_EQ(converted(1e-300, DType::f64, DType::boolean), 1.0);
  EXPECT_EQ(converted(NAN, DType::f32, DType::boolean), 1.0);
  EXPECT_EQ(converted(-0.0, DType::f64, DType::boolean), 0.0);
  EXPECT_EQ(converted(2049.0, DType::f64, DType::f16), 2048.0);
  EXPECT_EQ(converted(int64_t{2051}, DType::i64, DType::f16), 2052.0);
  EXPECT_EQ(converted(int64_t{257}, DType::i64, DType::bf16), 256.0);
  EXPECT_EQ(converted(1e30f, DType::f32, DType::f16), INFINITY);
}

// A copy between equal types moves bits, whatever the strides: a signalling NaN stays one.
TEST(Tensor, CopiesOfOneTypeKeepTheirBits) {
  const uint16_t bits[] = {0x7C01, 0xFC01, 0x0001, 0x8000};
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = Tensor::wrap(const_cast<uint16_t*>(bits), {2, 2}, dtype);
    const Tensor transposed = x.transpose(0, 1).contiguous();
    const auto* found = static_cast<const uint16_t*>(transposed.raw());
    EXPECT_EQ(found[0], 0x7C01);
    EXPECT_EQ(found[1], 0x0001);
    EXPECT_EQ(found[2], 0xFC01);
    EXPECT_EQ(found[3], 0x8000);
  }
}

TEST(Tensor, ZeroOnAViewLeavesTheRestAlone) {
  const Tensor x = counting({4, 4});
  x.slice(1, 1, 3).zero();
  EXPECT_EQ(x.at({2, 0}), 8.0);
  EXPECT_EQ(x.at({2, 1}), 0.0);
  EXPECT_EQ(x.at({2, 3}), 11.0);
}

TEST(Tensor, EmptyAndScalarShapes) {
  EXPECT_EQ(Tensor::zeros({0, 3}).clone().shape(), (Shape{0, 3}));
  EXPECT_EQ(Tensor::full({}, 2.0f).at({}), 2.0);
  EXPECT_FALSE(Tensor().defined());
}

TEST(Tensor, WrongUseIsAnError) {
  const Tensor x = counting({2, 3});
  EXPECT_THROW((void)x.data<double>(), Error);
  EXPECT_THROW((void)x.reshape({4, 2}), Error);
  EXPECT_THROW((void)x.transpose(0, 1).reshape({6}), Error);
  EXPECT_THROW((void)x.slice(1, 2, 4), Error);
  EXPECT_THROW((void)x.select(0, 2), Error);
  EXPECT_THROW((void)x.size(2), Error);
  EXPECT_THROW((void)x.expand({3, 3}), Error);
  EXPECT_THROW((void)x.at({0, 3}), Error);
  EXPECT_THROW((void)Tensor::empty({-1}), Error);
  EXPECT_THROW(x.copy_from(counting({3, 2})), Error);
  EXPECT_THROW((void)Tensor::wrap(nullptr, {2}), Error);
}

}  // namespace
}  // namespace heed
