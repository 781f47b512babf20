// `heed bench attention`: the fused kernels against the processor's own multiply-add peak, both measured in one run.
#pragma once

#include <string>
#include <vector>

#include "heed/tensor.h"

namespace heed::cli {

struct BenchOptions {
  std::vector<std::string> shapes;  // "B,H,Hkv,L,S,D"; empty: the usual ones
  int repeats = 15;                 // timings of each line
  std::string dtype = "f32";        // of queries, keys, values: `heed bench attention` alone
  bool json = false;
};

struct BenchShape {
  int64_t batch, heads, kv_heads, queries, keys, size;
};
[[nodiscard]] BenchShape parse_bench_shape(const std::string& text);

// Numbers that spread the softmax as trained models do; the same in every run.
[[nodiscard]] Tensor bench_tensor(const Shape& shape);

// Measures forward, causal forward and backward of each shape with one thread and with all; returns a table, or JSON.
[[nodiscard]] std::string bench_attention(const BenchOptions& options);

}  // namespace heed::cli
