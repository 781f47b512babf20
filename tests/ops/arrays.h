// Tensors to and from the oracle's arrays.
#pragma once

#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "heed/ops.h"
#include "kernels/settings.h"
#include "oracle/ops_oracle.h"

namespace heed::testing {

inline Tensor random_tensor(const Shape& shape, uint64_t seed, float scale = 1.0f) {
  const std::vector<float> values = random_floats(static_cast<size_t>(shape.numel()), seed, scale);
  return Tensor::from(std::span<const float>(values), shape);
}

inline std::vector<float> floats(const Tensor& tensor) {
  const Tensor dense = tensor.contiguous();
  return {dense.data<float>(), dense.data<float>() + dense.numel()};
}

inline oracle::Array array(const Tensor& tensor) {
  const std::vector<float> values = floats(tensor);
  return {values.begin(), values.end()};
}

inline Tensor ids(const std::vector<int32_t>& values, const Shape& shape) {
  return Tensor::from(std::span<const int32_t>(values), shape);
}

inline void expect_close(const Tensor& found, const oracle::Array& expected, double tolerance = 1e-5) {
  ASSERT_EQ(static_cast<size_t>(found.numel()), expected.size());
  const std::vector<float> values = floats(found);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], tolerance * (1 + std::fabs(expected[i]))) << "element " << i;
  }
}

inline void expect_same_bits(const Tensor& found, const Tensor& expected) {
  ASSERT_EQ(found.shape(), expected.shape());
  const std::vector<float> a = floats(found), b = floats(expected);
  for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(std::memcmp(&a[i], &b[i], sizeof(float)), 0) << "element " << i;
}

}  // namespace heed::testing
