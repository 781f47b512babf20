// Rotary embeddings against complex multiplication in double precision.
#include <gtest/gtest.h>

#include <complex>

#include "heed/error.h"
#include "heed/ops.h"
#include "ops/arrays.h"

namespace heed {
namespace {

using testing::random_tensor;

TEST(Rotary, TurnsPairsByTheirAngle) {
  const Tensor x = random_tensor({2, 5, 3, 10}, 1, 0.3f).transpose(1, 2);  // (B 2, H 3, L 5, D 10), strided
  for (const bool interleaved : {false, true}) {
    for (const int64_t size : {10, 4, 0}) {
      const ops::RotaryTables tables = ops::rotary_tables(5, size, 7);
      const Tensor y = ops::rotary_embedding(x, tables.cos, tables.sin, interleaved);
      const Tensor back = ops::rotary_embedding_backward(y, tables.cos, tables.sin, interleaved);
      for (int64_t b = 0; b < 2; ++b) {
        for (int64_t h = 0; h < 3; ++h) {
          for (int64_t i = 0; i < 5; ++i) {
            for (int64_t n = 0; n < size / 2; ++n) {
              const int64_t first = interleaved ? 2 * n : n, second = interleaved ? 2 * n + 1 : n + size / 2;
              const auto power =
                  static_cast<float>(std::pow(10000.0, 2.0 * static_cast<double>(n) / static_cast<double>(size)));
              const auto angle = static_cast<double>(static_cast<float>(7 + i) * (1 / power));
              const std::complex<double> turned =
                  std::complex<double>(x.at({b, h, i, first}), x.at({b, h, i, second})) * std::polar(1.0, angle);
              EXPECT_NEAR(y.at({b, h, i, first}), turned.real(), 2e-7);
              EXPECT_NEAR(y.at({b, h, i, second}), turned.imag(), 2e-7);
            }
            for (int64_t d = size; d < 10; ++d) EXPECT_EQ(y.at({b, h, i, d}), x.at({b, h, i, d}));
            for (int64_t d = 0; d < 10; ++d) EXPECT_NEAR(back.at({b, h, i, d}), x.at({b, h, i, d}), 3e-7);
          }
        }
      }
    }
  }
}

// A rotation's backward is its transpose: <rotate(x), d> = <x, backward(d)>.
TEST(Rotary, BackwardIsTheTranspose) {
  const Tensor x = random_tensor({2, 2, 4, 6}, 2), d = random_tensor({2, 2, 4, 6}, 3);
  const Tensor cos = random_tensor({2, 4, 2}, 4), sin = random_tensor({2, 4, 2}, 5);  // any numbers, a table a sequence
  for (const bool interleaved : {false, true}) {
    const double left = ops::sum(ops::mul(ops::rotary_embedding(x, cos, sin, interleaved), d));
    const double right = ops::sum(ops::mul(x, ops::rotary_embedding_backward(d, cos, sin, interleaved)));
    EXPECT_NEAR(left, right, 1e-5);
  }
}

TEST(Rotary, RefusesWhatDoesNotFit) {
  const Tensor x = random_tensor({1, 2, 3, 4}, 6);
  const ops::RotaryTables good = ops::rotary_tables(3, 4), wide = ops::rotary_tables(3, 6),
                          more = ops::rotary_tables(4, 4);
  EXPECT_THROW((void)ops::rotary_embedding(x, wide.cos, wide.sin), Error);
  EXPECT_THROW((void)ops::rotary_embedding(x, more.cos, more.sin), Error);
  EXPECT_THROW((void)ops::rotary_embedding(x, good.cos, wide.sin), Error);
  EXPECT_THROW((void)ops::rotary_embedding(x.reshape({2, 3, 4}), good.cos, good.sin), Error);
  EXPECT_THROW((void)ops::rotary_tables(3, 5), Error);
}

}  // namespace
}  // namespace heed
