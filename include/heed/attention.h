// Attention: out = softmax(softcap(scale * Q K^T) + bias + mask) V, its gradient, and its general form.
//
// One operator, computed in tiles: memory grows with L + S, never with L * S, unless the weights are asked for.
// Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1. Letters, everywhere the same:
//   B batch, H query heads, Hkv key/value heads, L query length, S key length, D head size of Q and K, Dv head size of
//   V.
// All functions are thread-safe; the work is shared among num_threads() threads. No result depends on their number,
// on what else is in the batch, on the strides, or on the instruction set: in f32 the bits are the same.
//
//   auto r = attention(q, k, v, {.causal = Causal::bottom_right(), .want = {.logsumexp = true}});
//   auto g = attention_backward(d_output, q, k, v, r, {.causal = Causal::bottom_right()});
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heed/score.h"
#include "heed/tensor.h"

namespace heed {

// Query i may see key j iff j <= i + offset.
class Causal {
 public:
  [[nodiscard]] static Causal none() { return {}; }
  [[nodiscard]] static Causal top_left() { return Causal(Kind::offset, 0); }  // offset 0, as PyTorch
  [[nodiscard]] static Causal bottom_right() {
    return Causal(Kind::bottom_right, 0);
  }  // offset S - L: the last query sees all
  [[nodiscard]] static Causal offset(int64_t offset) { return Causal(Kind::offset, offset); }

  [[nodiscard]] bool enabled() const { return kind_ != Kind::none; }
  // The offset for these lengths; with key_lengths, `keys` is the length of that sequence.
  [[nodiscard]] int64_t offset_for(int64_t queries, int64_t keys) const {
    return kind_ == Kind::bottom_right ? keys - queries : offset_;
  }

 private:
  enum class Kind { none, bottom_right, offset };
  Causal() = default;
  Causal(Kind kind, int64_t offset) : kind_(kind), offset_(offset) {}
  Kind kind_ = Kind::none;
  int64_t offset_ = 0;
};

// What to tell of the weights without keeping them: memory linear in L + S, a sixth to a third of a forward pass each
// (heed bench rules; beyond 65,536 keys, and for few rows, two thirds and more). All are of the weights that
// Want::weights would return.
struct AttentionTaps {
  bool entropy = false;      // of each row, -sum_j w log w, in nats
  int64_t top_k = 0;         // the keys with the largest weights of each row; at most S
  bool column_sums = false;  // sum_i w: how much each key was attended to

  // The weights of each head pooled to a picture of rows x columns cells: cell (r, c) holds rows [r L / rows,
  // (r + 1) L / rows) and keys [c S / columns, (c + 1) S / columns). 0 x 0: none; at most L x S.
  struct Map {
    int64_t rows = 0;
    int64_t columns = 0;
    bool largest = false;  // the largest weight of a cell instead of their mean
  } map = {};

  struct Row {
    int64_t head = 0;
    int64_t query = 0;
  };
  std::vector<Row> rows = {};  // whose weights to return whole, of every sequence; no pair twice
  bool row_scores = false;     // also the scores of `rows`, as Want::scores has them

  [[nodiscard]] bool any() const { return entropy || top_k > 0 || column_sums || map.rows > 0 || !rows.empty(); }
};

struct AttentionTapped {
  Tensor entropy;   // (B, H, L)
  Tensor top_keys;  // (B, H, L, k) i32, the largest weight first, of equals the smaller key; -1 where fewer keys have
  Tensor top_weights;  // (B, H, L, k)          a weight above 0, with weight 0
  Tensor column_sums;  // (B, H, S)
  Tensor map;          // (B, H, rows, columns)
  Tensor rows;         // (B, number of rows, S)
  Tensor row_scores;   // likewise
};

struct AttentionOptions {
  std::optional<float> scale = {};  // 1/sqrt(D) unless given
  Causal causal = Causal::none();

  // Query i sees key j only if i + offset - left <= j <= i + offset + right (-1: no bound), where offset is the causal
  // one, or S - L without causal. Intersects with causal and masks.
  struct Window {
    int64_t left = -1;
    int64_t right = -1;
  } window = {};

  Tensor key_lengths = {};   // (B) i32: keys at and beyond the length are not attended; undefined: all S
  Tensor mask = {};          // boolean, true = attends; any shape that broadcasts to (B, H, L, S); undefined: none
  Tensor bias = {};          // f32, added to the scores (-inf: not attended); broadcasts likewise; undefined: none
  float softcap = 0;         // c: scores become c * tanh(score / c), before bias and masks; 0: off
  Tensor alibi_slopes = {};  // (H) f32: adds -slope_h * |i + offset - j|; undefined: none
  Score score = {};          // any function of the score, its position and a table (score.h), after softcap and ALiBi
  Tensor sinks = {};  // (H) f32: one more score in every row's softmax sum, with no value behind it; undefined: none
  Tensor query_documents = {};  // (B, L) i32 and
  Tensor key_documents = {};    // (B, S) i32: a query sees only keys of its own document; both or neither

  // On the normalised weights. Whether a weight is kept is a pure function of (seed, b, h, i, j).
  struct Dropout {
    float rate = 0;  // in [0, 1)
    uint64_t seed = 0;
  } dropout = {};

  // What to return beside the output.
  struct Want {
    bool logsumexp = false;
    bool weights = false;  // (B, H, L, S) f32, after dropout; like scores not linear in L + S
    bool scores = false;   // (B, H, L, S) f32: what enters the softmax, after scale, softcap, score function, bias and
                           // masks; -inf where not attended
    AttentionTaps taps = {};
    // Where the output goes: (B, H, L, Dv) in the query's type, unit stride along Dv, nothing of it in the memory of an
    // operand. Undefined: into memory of its own.
    Tensor output = {};
  } want = {};
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
  Tensor alibi_slopes;     // (H), and
  Tensor score_table;      // in the shape of the score function's table: only where asked for
  Tensor additive_weight;  // of attention_additive() alone, in the shape of its weight
};

// Gradients that cost a pass of their own.
struct AttentionWantGradients {
  bool bias = false;
  bool alibi_slopes = false;
  bool score_table = false;
};

// query (B, H, L, D), key (B, Hkv, S, D), value (B, Hkv, S, Dv): f32, bf16 or f16, all three alike, any strides; half
// precision is computed in f32 and the output rounded once, but bf16 on a processor that multiplies it
// (Isa::avx512bf16, Isa::amx), which rounds the weights to bf16 too. H is a multiple of Hkv, and query head h reads
// key/value head floor(h * Hkv / H). L or S may be 0. A row that may attend to nothing gives output 0, logsumexp -inf,
// weights 0; a weight below e^-75 of the row's largest is 0, too. What is behind a mask is never read into the sum; NaN
// in what is attended propagates. Throws Error when shapes, dtypes or options do not fit.
[[nodiscard]] AttentionResult attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                        const AttentionOptions& options = {});

// The gradient with respect to query, key and value, given that of the output (B, H, L, Dv). `forward` is what
// attention() returned for the same arguments, with logsumexp; the dropout mask is computed again, not stored.
// In half precision it starts from the rounded output, whose error its sums carry.
// What is summed over many pairs (alibi_slopes, score_table) is added up in double precision.
[[nodiscard]] AttentionGradients attention_backward(const Tensor& d_output, const Tensor& query, const Tensor& key,
                                                    const Tensor& value, const AttentionResult& forward,
                                                    const AttentionOptions& options = {},
                                                    const AttentionWantGradients& want = {});

// What a call of attention() runs, without running it. The same line, with the time it took, its speed and its share of
// the processor's peak, is appended to the file HEED_EXPLAIN names (1: standard error) at every call of attention(),
// attention_packed() and their gradients.
struct AttentionPlan {
  std::string engine;  // "f32 tiles", "bf16 tiles (AVX512-BF16)", "bf16 tiles (AMX)", "decode" or
                       // "decode, keys shared among threads"
  Isa isa = Isa::portable;
  int threads = 1;
  int64_t blocks = 0;   // of 64 keys for a tile of queries
  int64_t skipped = 0;  // of these: no pair of them is attended
  double flops = 0;     // of the pairs that causal, window and lengths allow: 2 (D + Dv) each
  double bytes = 0;     // of query, key, value and output, each once
  std::string text;     // all of it in a line, with the shapes
};
[[nodiscard]] AttentionPlan attention_plan(const Tensor& query, const Tensor& key, const Tensor& value,
                                           const AttentionOptions& options = {});

// Sequences of different lengths one behind the other, without padding. `queries` and `keys`, (B + 1) i32, say where
// each begins: 0, the first length, the sum of the first two, ..., all rows.
struct PackedLengths {
  Tensor queries;
  Tensor keys;
};

// attention() of every sequence with itself only: query (T, H, D), key (U, Hkv, D), value (U, Hkv, Dv), f32, bf16 or
// f16, any strides.
// -> output (T, H, Dv), logsumexp (H, T) on request. The bits are those of the same sequences in a padded batch with
// key_lengths (and of each query's position in it), dropout included. Of the options, mask, bias, key_lengths and
// documents have no place here, nor have weights and taps. Throws Error for lengths that decrease or do not fit.
[[nodiscard]] AttentionResult attention_packed(const Tensor& query, const Tensor& key, const Tensor& value,
                                               const PackedLengths& lengths, const AttentionOptions& options = {});
// -> gradients in the shapes of query, key and value, with the bits of every sequence alone; `forward` with logsumexp.
// What sequences share (sinks, slopes, a score function's table) is summed over them in order.
[[nodiscard]] AttentionGradients attention_packed_backward(const Tensor& d_output, const Tensor& query,
                                                           const Tensor& key, const Tensor& value,
                                                           const PackedLengths& lengths, const AttentionResult& forward,
                                                           const AttentionOptions& options = {},
                                                           const AttentionWantGradients& want = {});

// Kernel regression in the same engine: the score of a pair is log_alpha(|q - k|^2), for any radial kernel alpha
// (score.h has Gaussian, Boxcar and Epanechnikov); options.scale and options.score have no place here. The squared
// distances come from one matrix product, |q|^2 - 2 q.k + |k|^2, so their error is that of |q|^2 + |k|^2 in f32.
[[nodiscard]] AttentionResult attention_radial(const Tensor& query, const Tensor& key, const Tensor& value,
                                               const Score& log_alpha, const AttentionOptions& options = {});
[[nodiscard]] AttentionGradients attention_radial_backward(const Tensor& d_output, const Tensor& query,
                                                           const Tensor& key, const Tensor& value,
                                                           const Score& log_alpha, const AttentionResult& forward,
                                                           const AttentionOptions& options = {},
                                                           const AttentionWantGradients& want = {});

// True where dropout keeps weight (b, h, i, j). The same in forward, backward and reference.
[[nodiscard]] bool attention_dropout_keeps(const AttentionOptions::Dropout& dropout, int64_t b, int64_t h, int64_t i,
                                           int64_t j);

// The form people know, over any leading dimensions (the same for all three): query (..., L, D), key (..., S, D), value
// (..., S, Dv) -> (..., L, Dv). An additive mask (f32) or a boolean one broadcasts to (..., L, S).
[[nodiscard]] Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                                  std::optional<float> scale = {}, const Tensor& mask = {});

// A mask in the opposite convention (true = blocked, as torch.nn.MultiheadAttention) turned into ours.
[[nodiscard]] Tensor mask_from_blocked(const Tensor& blocked);

// Additive attention (Bahdanau et al. 2015, appendix A.1.2) in the same engine: the score of a pair is
//   sum_d weight_d tanh(q_d + k_d)
// of queries and keys that are projected already (Wq q, Wk k). weight (D) or (H, D); all in f32. options.scale has no
// place here; masks, biases, dropout and the rest act as in attention(). Nothing of size L S D is stored; the time is
// that of L S D hyperbolic tangents, and of four to six times as many in the backward pass.
[[nodiscard]] AttentionResult attention_additive(const Tensor& query, const Tensor& key, const Tensor& value,
                                                 const Tensor& weight, const AttentionOptions& options = {});
// Also returns additive_weight.
[[nodiscard]] AttentionGradients attention_additive_backward(const Tensor& d_output, const Tensor& query,
                                                             const Tensor& key, const Tensor& value,
                                                             const Tensor& weight, const AttentionResult& forward,
                                                             const AttentionOptions& options = {},
                                                             const AttentionWantGradients& want = {});

namespace reference {

// The plain formula, one line after the other, f32 or f64 (in the dtype of query), memory L * S. It is what teaches,
// what the inspector falls back to, and what the fused kernels are compared with (beside the tests' own oracle).
[[nodiscard]] AttentionResult attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                        const AttentionOptions& options = {});
[[nodiscard]] AttentionGradients attention_backward(const Tensor& d_output, const Tensor& query, const Tensor& key,
                                                    const Tensor& value, const AttentionOptions& options = {});

}  // namespace reference

// General attention: out_i = sum_j alpha(q_i, k_j) v_j / sum_j alpha(q_i, k_j), for any kernel alpha >= 0.
// With a Gaussian it is Nadaraya-Watson kernel regression ("Dive into Deep Learning", section 11.2).
namespace kernel {

using Alpha = std::function<double(std::span<const float> query, std::span<const float> key)>;

[[nodiscard]] Alpha gaussian(float width);      // exp(-|q - k|^2 / (2 width^2))
[[nodiscard]] Alpha boxcar(float width);        // 1 if |q - k| < width, else 0
[[nodiscard]] Alpha epanechnikov(float width);  // max(0, 1 - |q - k| / width)
[[nodiscard]] Alpha dot_product(float scale);   // exp(scale * q.k): softmax attention
// Bahdanau et al. 2015: exp(w . tanh(Wq q + Wk k)). query_weight (E, D), key_weight (E, D), w (E).
[[nodiscard]] Alpha additive(const Tensor& query_weight, const Tensor& key_weight, const Tensor& w);

}  // namespace kernel

// query (L, D), key (S, D), value (S, Dv), f32. output (L, Dv) and weights (L, S); a row where alpha is 0 everywhere is
// 0.
struct PoolingResult {
  Tensor output;
  Tensor weights;
};
[[nodiscard]] PoolingResult attention_pooling(const Tensor& query, const Tensor& key, const Tensor& value,
                                              const kernel::Alpha& alpha);

}  // namespace heed
