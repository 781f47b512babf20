// Products with a packed B: one chain of fused multiply-adds an element, for any number of rows and instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/gemm/gemm.h"
#include "kernels/operands.h"
#include "kernels/settings.h"

namespace heed::kernels {
namespace {

using testing::SettingsScope;

struct PackedCase : Operands {
  using Operands::Operands;

  [[nodiscard]] PackedB packed(bool bf16 = false) const { return {weight.data(), 1, k, k, n, bf16}; }
  [[nodiscard]] std::vector<float> unpacked_product_in_bf16() const {
    std::vector<float> c(static_cast<size_t>(m * n), 99);
    Gemm g = into(c);
    g.b = weight.data(), g.b_row = 1, g.b_column = k;
    g.bf16 = true;
    gemm(g);
    return c;
  }
  [[nodiscard]] std::vector<float> product(const PackedB& b) const {
    std::vector<float> c(static_cast<size_t>(m * n), 99);
    Gemm g = into(c);
    g.packed = &b;
    gemm(g);
    return c;
  }
  [[nodiscard]] std::vector<float> chains() const {
    std::vector<float> c(static_cast<size_t>(m * n));
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (int64_t p = 0; p < k; ++p) {
          sum = std::fma(a[static_cast<size_t>(i * k + p)], weight[static_cast<size_t>(j * k + p)], sum);
        }
        c[static_cast<size_t>(i * n + j)] = sum + bias[static_cast<size_t>(j)];
      }
    }
    return c;
  }
};

void expect_same_bits(const std::vector<float>& found, const std::vector<float>& expected, const std::string& where) {
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(std::memcmp(&found[i], &expected[i], sizeof(float)), 0)
        << where << ", element " << i << ": " << found[i] << ", not " << expected[i];
  }
}

TEST(PackedB, GivesTheChainsOfTheDefinition) {
  const SettingsScope scope;
  for (const int64_t m : {1, 2, 5, 8, 16, 17, 61, 200}) {
    for (const int64_t n : {1, 16, 47, 65}) {
      for (const int64_t k : {1, 30, 257}) {
        const PackedCase o(m, n, k);
        const std::vector<float> expected = o.chains();
        for (const Isa isa : available_isas()) {
          set_isa(isa);
          const PackedB b = o.packed();
          for (const int threads : {1, 3}) {
            set_num_threads(threads);
            expect_same_bits(o.product(b), expected,
                             std::string(to_string(isa)) + " " + std::to_string(m) + " x " + std::to_string(n) + " x " +
                                 std::to_string(k));
          }
        }
      }
    }
  }
}

TEST(PackedB, DeepAndWideWeights) {
  const PackedCase o(19, 300, 2100);
  expect_same_bits(o.product(o.packed()), o.chains(), "19 x 300 x 2100");
}

TEST(PackedB, UnpacksWhatWasPacked) {
  testing::on_every_isa([] {
    for (const int64_t n : {1, 48, 51, 130}) {
      const PackedCase o(1, n, 600);
      std::vector<float> weight(o.weight.size());
      o.packed().unpack(weight.data());
      EXPECT_EQ(weight, o.weight) << n;
    }
  });
}

TEST(PackedB, GivesEachColumn) {
  testing::on_every_isa([] {
    for (const int64_t n : {1, 15, 48, 51, 130, 1000}) {
      for (const int64_t k : {1, 2, 255, 600}) {
        const PackedCase o(1, n, k);
        const PackedB b = o.packed();
        std::vector<float> column(static_cast<size_t>(k) + 1, 77);
        for (int64_t j = 0; j < n; ++j) {
          b.column(j, column.data());
          ASSERT_TRUE(std::equal(column.begin(), column.end() - 1, o.weight.begin() + j * k)) << n << " " << k;
          ASSERT_EQ(column.back(), 77);  // nothing behind it
        }
      }
    }
  });
}

TEST(PackedB, WorksAfterAChangeOfTheInstructionSet) {
  const SettingsScope scope;
  const PackedCase o(20, 70, 300);
  const std::vector<float> expected = o.chains();
  for (const Isa packed_for : available_isas()) {
    set_isa(packed_for);
    const PackedB b = o.packed();
    for (const Isa used_with : available_isas()) {
      set_isa(used_with);
      expect_same_bits(o.product(b), expected, std::string(to_string(packed_for)) + ", then others");
    }
  }
}

// Products of bf16 without packing have tests of their own (gemm_test.cc).
TEST(PackedB, InBf16HasTheBitsOfOneThatIsNotPacked) {
  const SettingsScope scope;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    if (!multiplies_bf16()) continue;
    for (const int64_t m : {1, 2, 8, 16, 17, 61, 64, 65, 200}) {
      for (const int64_t n : {1, 16, 47, 65}) {
        for (const int64_t k : {1, 2, 30, 257, 1100}) {
          const PackedCase o(m, n, k);
          const PackedB b = o.packed(true);
          EXPECT_TRUE(b.layout().bf16);
          const std::vector<float> expected = o.unpacked_product_in_bf16();
          for (const int threads : {1, 3}) {
            set_num_threads(threads);
            expect_same_bits(o.product(b), expected,
                             std::string(to_string(isa)) + " " + std::to_string(m) + " x " + std::to_string(n) + " x " +
                                 std::to_string(k));
          }
        }
      }
    }
  }
}

TEST(PackedB, InBf16TakesHalfTheMemoryAndUnpacksWhatItRounded) {
  const SettingsScope scope;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    if (!multiplies_bf16()) continue;
    for (const int64_t k : {1, 599, 600}) {
      const PackedCase o(1, 96, k);
      const PackedB b = o.packed(true);
      if (k == 600) {
        EXPECT_LE(b.nbytes(), o.packed().nbytes() * 11 / 20);
      }
      std::vector<float> weight(o.weight.size(), 99);
      b.unpack(weight.data());
      for (size_t i = 0; i < weight.size(); ++i) {
        uint32_t bits;
        std::memcpy(&bits, &o.weight[i], sizeof bits);
        bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u;  // to the nearest, ties to even
        float rounded;
        std::memcpy(&rounded, &bits, sizeof rounded);
        ASSERT_EQ(weight[i], rounded) << i;
      }
    }
  }
}

TEST(PackedB, InBf16WorksAfterAChangeOfTheInstructionSet) {
  const SettingsScope scope;
  const PackedCase o(20, 70, 301);
  for (const Isa packed_for : available_isas()) {
    set_isa(packed_for);
    if (!multiplies_bf16()) continue;
    const PackedB b = o.packed(true);
    const std::vector<float> expected = o.product(b);
    for (const Isa used_with : available_isas()) {
      set_isa(used_with);
      const std::vector<float> found = o.product(b);
      for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 0.3) << to_string(used_with);
    }
  }
}

}  // namespace
}  // namespace heed::kernels
