// `heed bench matmul`: the matrix product beside the processor's own multiply-add peak, both measured in one run.
#pragma once

#include <string>
#include <vector>

#include "heed/ops.h"

namespace heed::bench {

struct MatmulBench {
  // "M,N,K" or "M,N,K,XY", where X and Y are N (as it is) or T (given transposed); XY is NT unless given. Empty: the
  // usual shapes.
  std::vector<std::string> shapes = {};
  std::string precision = "f32";  // or "bf16": of matrix products
  int repeats = 15;               // timings of each line
  bool json = false;
};

// Throws Error where the instruction set in use has no products of that precision.
[[nodiscard]] ops::Precision usable_precision(const std::string& name);

// Measures each shape with one thread and with all; returns a table, or JSON.
[[nodiscard]] std::string measure_matmul(const MatmulBench& options);

}  // namespace heed::bench
