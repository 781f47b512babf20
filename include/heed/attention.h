// Attention: output = softmax(softcap(scale * Q K^T) + bias + mask) V, and its gradient.
//
// One operator, computed in tiles: memory grows with L + S, never with L * S, unless the weights or scores are asked
// for. Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1. Letters, everywhere the same:
//   B batch, H query heads, Hkv key/value heads, L query length, S key length, D head size of Q and K, Dv head size of
//   V.
// All functions are thread-safe; the work is shared among num_threads() threads. No result depends on their number,
// on what else is in the batch, on the strides, or on the instruction set: in f32 the bits are the same.
//
//   auto r = attention(q, k, v, {.causal = Causal::bottom_right(), .want = {.logsumexp = true}});
//   auto g = attention_backward(d_output, q, k, v, r, {.causal = Causal::bottom_right()});
//
// The options are in attention_options.h; ragged batches, additive attention and kernel regression in
// attention_variants.h; a cache of keys and values for decoding in kv_cache.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "heed/attention_options.h"
#include "heed/export.h"
#include "heed/tensor.h"

HEED_EXPORT_BEGIN
namespace heed {

struct AttentionTapped {
  Tensor entropy;  // (B, H, L)
  // The keys with the largest weights, the largest first; among equal weights, the smaller key first. Where fewer than
  // k keys have a weight above 0, the rest is -1, with weight 0.
  Tensor top_keys;     // (B, H, L, k) i32
  Tensor top_weights;  // (B, H, L, k)
  Tensor column_sums;  // (B, H, S)
  Tensor map;          // (B, H, rows, columns)
  Tensor rows;         // (B, number of rows, S)
  Tensor row_scores;   // (B, number of rows, S)
};

struct AttentionResult {
  Tensor output;     // (B, H, L, Dv), a view of memory laid out (B, L, H, Dv): merging the heads needs no copy; or
                     // want.output
  Tensor logsumexp;  // (B, H, L): log of the softmax's denominator; -inf for a row that attends to nothing
  Tensor weights;    // (B, H, L, S)
  Tensor scores;     // (B, H, L, S)
  AttentionTapped taps;
};

struct AttentionGradients {
  Tensor query;            // (B, H, L, D), as key and value laid out like the output: (B, L, H, D)
  Tensor key;              // (B, Hkv, S, D)
  Tensor value;            // (B, Hkv, S, Dv)
  Tensor bias;             // the bias's own shape, summed over what was broadcast; only where asked for
  Tensor sinks;            // (H), where sinks were given
  Tensor alibi_slopes;     // (H); only where asked for
  Tensor score_table;      // the table's shape; only where asked for
  Tensor additive_weight;  // the weight's shape; from attention_additive_backward() only
};

// Gradients that cost a pass of their own.
struct AttentionWantGradients {
  bool bias = false;
  bool alibi_slopes = false;
  bool score_table = false;
};

// query (B, H, L, D), key (B, Hkv, S, D), value (B, Hkv, S, Dv): f32, bf16 or f16, all three alike, any strides. H is a
// multiple of Hkv, and query head h reads key/value head floor(h * Hkv / H). L or S may be 0.
// Half precision is computed in f32 and the output is rounded once. One exception: with Isa::avx512bf16 or Isa::amx,
// bf16 is multiplied as bf16, and the weights are rounded to bf16.
// A row that may attend to nothing gives output 0, logsumexp -inf and weights 0. A weight below e^-75 of the row's
// largest is 0, too. Masked keys and values never enter a sum, so a NaN among them does no harm; a NaN in an attended
// key or value reaches the output. Throws Error when shapes, dtypes or options do not fit.
[[nodiscard]] AttentionResult attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                        const AttentionOptions& options = {});

// The gradients of query, key and value, given the gradient of the output, d_output (B, H, L, Dv). `forward` is what
// attention() returned for the same arguments, with logsumexp; the dropout mask is computed again, not stored.
// In half precision the sums start from the rounded output, and carry its error.
// The gradients of alibi_slopes and score_table are sums over many pairs. They are added up in double precision.
[[nodiscard]] AttentionGradients attention_backward(const Tensor& d_output, const Tensor& query, const Tensor& key,
                                                    const Tensor& value, const AttentionResult& forward,
                                                    const AttentionOptions& options = {},
                                                    const AttentionWantGradients& want = {});

// PyTorch's function of this name, over any leading dimensions, the same for all three: query (..., L, D), key (..., S,
// D), value (..., S, Dv) -> (..., L, Dv). Of rank 4, key and value may have fewer heads, as in attention(). An additive
// mask (f32) or a boolean one broadcasts to (..., L, S).
[[nodiscard]] Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                                  std::optional<float> scale = {}, const Tensor& mask = {});

// A mask where true means blocked (torch.nn.MultiheadAttention), converted to heed's convention (true = attends).
[[nodiscard]] Tensor mask_from_blocked(const Tensor& blocked);

// True where dropout keeps weight (b, h, i, j). The same in forward, backward and reference.
[[nodiscard]] bool attention_dropout_keeps(const AttentionOptions::Dropout& dropout, int64_t b, int64_t h, int64_t i,
                                           int64_t j);

// What a call of attention() runs, without running it. The same line, with the time it took, its speed and its share of
// the processor's peak, is appended to the file HEED_EXPLAIN names (1: standard error) at every call of attention(),
// attention_varlen() and their gradients.
struct AttentionPlan {
  std::string engine;  // "f32 tiles", "bf16 tiles (AVX512-BF16)", "bf16 tiles (AMX)", "decode" or
                       // "decode, keys shared among threads"
  Isa isa = Isa::portable;
  int threads = 1;
  int64_t blocks = 0;   // how many blocks of 64 keys there are, over all tiles of queries
  int64_t skipped = 0;  // how many of these blocks are skipped, because none of their pairs is attended
  double flops = 0;     // 2 (D + Dv) for each pair that causal, window and lengths allow
  double bytes = 0;     // the size of query, key, value and output, each once
  std::string text;     // the whole plan in a line, with the shapes
};
[[nodiscard]] AttentionPlan attention_plan(const Tensor& query, const Tensor& key, const Tensor& value,
                                           const AttentionOptions& options = {});

namespace reference {

// The plain formula, one line after the other, f32 or f64 (in the dtype of query), memory L * S. It teaches, and the
// tiled operator is compared with it (beside the tests' own oracle).
[[nodiscard]] AttentionResult attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                        const AttentionOptions& options = {});
[[nodiscard]] AttentionGradients attention_backward(const Tensor& d_output, const Tensor& query, const Tensor& key,
                                                    const Tensor& value, const AttentionOptions& options = {});

}  // namespace reference

}  // namespace heed
HEED_EXPORT_END
