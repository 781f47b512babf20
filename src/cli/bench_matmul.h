// `heed bench matmul`: the matrix product against the processor's own multiply-add peak, both measured in one run.
#pragma once

#include <string>
#include <vector>

namespace heed::cli {

struct MatmulBenchOptions {
  // "M,N,K" or "M,N,K,XY" with X, Y of N (as is) and T (given transposed), NT unless given; empty: the usual ones.
  std::vector<std::string> shapes = {};
  int repeats = 15;  // timings of each line
  bool json = false;
};

// Measures each shape with one thread and with all; returns a table, or JSON.
[[nodiscard]] std::string bench_matmul(const MatmulBenchOptions& options);

}  // namespace heed::cli
