// The operands of a product a (m, k) times weight (n, k) transposed, plus bias (n), which tests of packed weights
// share.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "kernels/settings.h"

namespace heed::kernels {

struct Operands {
  int64_t m, n, k;
  std::vector<float> a, weight, bias;

  Operands(int64_t rows, int64_t columns, int64_t depth)
      : m(rows),
        n(columns),
        k(depth),
        a(testing::random_floats(static_cast<size_t>(m * k), 1)),
        weight(testing::random_floats(static_cast<size_t>(n * k), 2)),
        bias(testing::random_floats(static_cast<size_t>(n), 3)) {}

  // The product into c (m, n), but for the weight, which each test packs in its own way.
  [[nodiscard]] Gemm into(std::vector<float>& c) const {
    Gemm g;
    g.m = m, g.n = n, g.k = k;
    g.a = a.data(), g.a_row = k;
    g.c = c.data(), g.c_row = n;
    g.bias = bias.data();
    return g;
  }
};

}  // namespace heed::kernels
