// Attention in its other forms: ragged batches, additive attention, and kernel regression with any kernel alpha(q, k).
#pragma once

#include <concepts>
#include <functional>
#include <span>
#include <type_traits>
#include <utility>

#include "heed/attention.h"
#include "heed/export.h"

HEED_EXPORT_BEGIN
namespace heed {

// The cumulative lengths of B sequences that follow each other without padding. `queries` and `keys`, (B + 1)
// i32, say where each sequence begins: 0, the first length, the sum of the first two, ..., the number of rows.
struct CuSeqlens {
  Tensor queries;
  Tensor keys;
};

// attention() within each sequence: query (T, H, D), key (U, Hkv, D), value (U, Hkv, Dv), f32, bf16 or f16, any strides
// -> output (T, H, Dv), logsumexp (H, T) on request. The bits are those of the same sequences in a padded batch with
// key_lengths, dropout included. Throws Error for cumulative lengths that decrease or do not fit, and for mask, bias,
// key_lengths, documents, weights, scores and taps.
[[nodiscard]] AttentionResult attention_varlen(const Tensor& query, const Tensor& key, const Tensor& value,
                                               const CuSeqlens& cu_seqlens, const AttentionOptions& options = {});
// -> gradients in the shapes of query, key and value; each sequence gets the bits that it has alone. `forward` must
// have the logsumexp. The gradients of what sequences share (sinks, slopes, a score function's table) are summed over
// the sequences, in order.
[[nodiscard]] AttentionGradients attention_varlen_backward(const Tensor& d_output, const Tensor& query,
                                                           const Tensor& key, const Tensor& value,
                                                           const CuSeqlens& cu_seqlens, const AttentionResult& forward,
                                                           const AttentionOptions& options = {},
                                                           const AttentionWantGradients& want = {});

// Additive attention (Bahdanau et al. 2015, appendix A.1.2) in the same engine: the score of a pair is
//   sum_d weight_d tanh(q_d + k_d)
// of queries and keys that are projected already (Wq q, Wk k). weight (D) or (H, D); all in f32. options.scale has no
// place here; masks, biases, dropout and the rest act as in attention(). Nothing of size L * S * D is stored. It
// computes L * S * D tanh forward, and four to six times as many backward.
[[nodiscard]] AttentionResult attention_additive(const Tensor& query, const Tensor& key, const Tensor& value,
                                                 const Tensor& weight, const AttentionOptions& options = {});
// Also returns additive_weight.
[[nodiscard]] AttentionGradients attention_additive_backward(const Tensor& d_output, const Tensor& query,
                                                             const Tensor& key, const Tensor& value,
                                                             const Tensor& weight, const AttentionResult& forward,
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

// Attention with any kernel: out_i = sum_j alpha(q_i, k_j) v_j / sum_j alpha(q_i, k_j), for any alpha >= 0.
// With a Gaussian it is Nadaraya-Watson kernel regression ("Dive into Deep Learning", section 11.2).
namespace alpha {

// alpha(q, k), or a function that gives ln alpha(q, k). Of the second kind the largest of a row is subtracted before
// the exponential, so that no row overflows and the nearest key counts however far away it is.
class Kernel {
 public:
  using Function = std::function<double(std::span<const float> query, std::span<const float> key)>;

  Kernel() = default;
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, Kernel> && std::constructible_from<Function, F>) Kernel(F alpha)
      : function_(std::move(alpha)) {}  // as lambdas are passed
  [[nodiscard]] static Kernel of_log(Function log_alpha);

  [[nodiscard]] double operator()(std::span<const float> query, std::span<const float> key) const;  // alpha
  [[nodiscard]] bool is_log() const { return is_log_; }
  [[nodiscard]] const Function& function() const { return function_; }

 private:
  Function function_;
  bool is_log_ = false;
};

// These throw Error for vectors that do not fit together.
[[nodiscard]] Kernel gaussian(float width);      // exp(-|q - k|^2 / (2 width^2))
[[nodiscard]] Kernel boxcar(float width);        // 1 if |q - k| < width, else 0
[[nodiscard]] Kernel epanechnikov(float width);  // max(0, 1 - |q - k| / width)
[[nodiscard]] Kernel dot_product(float scale);   // exp(scale * q.k): softmax attention, without overflow
// Bahdanau et al. 2015: exp(w . tanh(Wq q + Wk k)). query_weight (E, D), key_weight (E, D), w (E).
[[nodiscard]] Kernel additive(const Tensor& query_weight, const Tensor& key_weight, const Tensor& w);

}  // namespace alpha

// query (L, D), key (S, D), value (S, Dv), f32 -> output (L, Dv) and weights (L, S). Where alpha is 0 for every key,
// the row is 0. Throws Error where alpha is below 0, or the sum of a row is infinite.
struct PoolingResult {
  Tensor output;
  Tensor weights;
};
[[nodiscard]] PoolingResult attention_pooling(const Tensor& query, const Tensor& key, const Tensor& value,
                                              const alpha::Kernel& alpha);

}  // namespace heed
HEED_EXPORT_END
