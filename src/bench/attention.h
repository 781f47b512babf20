// `heed bench attention`: the fused kernels beside the processor's own multiply-add peak, both measured in one run.
#pragma once

#include <string>
#include <vector>

#include "heed/tensor.h"

namespace heed::bench {

struct AttentionBench {
  std::vector<std::string> shapes;  // "B,H,Hkv,L,S,D"; empty: the usual ones
  int repeats = 15;                 // timings of each line
  DType dtype = DType::f32;         // of queries, keys and values; measure_attention() alone reads it
  std::string engine = {};          // the name of an engine, or "all"; empty: heed's choice. Likewise
  bool json = false;
};

struct AttentionShape {
  int64_t batch, heads, kv_heads, queries, keys, size;
};
[[nodiscard]] AttentionShape parse_attention_shape(const std::string& text);

// Numbers that spread the softmax as trained models do; the same in every run.
[[nodiscard]] Tensor spread_tensor(const Shape& shape);

// Measures forward, causal forward and backward of each shape with one thread and with all; returns a table, or JSON.
// With an engine of its own choice it measures the passes that this engine computes, and throws Error where it computes
// none of them.
[[nodiscard]] std::string measure_attention(const AttentionBench& options);
// What AttentionBench::engine takes.
[[nodiscard]] std::vector<std::string> engine_names();

}  // namespace heed::bench
