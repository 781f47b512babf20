// Mathematics on tensors: each forward function with its backward partner.
//
// Everything is f32 (ids are i32). Inputs may be strided views where a comment says "any strides"; others are made
// contiguous first. Results are contiguous and new, except in functions named *_into, which write or add into their
// first argument. All functions are thread-safe and share their work among num_threads() threads. Every element is
// computed in one fixed order: neither the number of threads, nor the other rows, nor the instruction set changes a
// bit. Undefined tensors stand for "none". A function throws Error when shapes, dtypes or options do not fit.
//
//   auto [h, saved] = ops::linear(x, weight, bias, {.activation = Activation::gelu});
//   Tensor d_x = ops::linear_backward(d_h, x, weight, {.activation = Activation::gelu, .saved = saved,
//                                                      .d_weight = d_weight, .d_bias = d_bias});   // adds into both
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/export.h"
#include "heed/ops_options.h"
#include "heed/tensor.h"

HEED_EXPORT_BEGIN
namespace heed {

[[nodiscard]] std::string_view to_string(Activation activation);

// ids (...) i32, weight (V, E) -> scale * weight[id] (..., E). The row of padding_id is read as zeros and gets no
// gradient; -1: no such id. Throws Error for an id outside [0, V).
struct EmbeddingOptions {
  int64_t padding_id = -1;
  float scale = 1.0f;
};

// logits (..., V), targets (...) i32. The loss is the mean, over the targets that are not ignored, of
//   (1 - smoothing) * -log p(target) + smoothing * mean_v -log p(v).
struct CrossEntropyOptions {
  int64_t ignored_id = -1;    // targets with this id do not count; -1: all targets count
  float label_smoothing = 0;  // Szegedy et al. 2016
  bool sum = false;           // the sum instead of the mean
  // R-Drop (Liang et al. 2021): rows i and i + n/2 of n are the same sample under two draws of dropout, and each row
  // adds consistency / 2 * KL(its softmax || that of the other one). Their targets must be equal. 0: off.
  float consistency = 0;
};

}  // namespace heed

namespace heed::ops {

// ---- Matrix products ----

// The type to which the operands of matrix products are rounded before they are multiplied. Sums and results are f32.
enum class Precision { f32, bf16 };

[[nodiscard]] std::string_view to_string(Precision precision);
[[nodiscard]] Precision parse_precision(std::string_view name);  // throws Error for any other name

// While a MatmulPrecisionScope is alive, matmul, linear and linear_cross_entropy and their backward partners multiply
// in `precision` in this thread. bf16, up to twice as fast, is for training: it keeps 8 bits of each operand. Where
// multiplies_bf16() is false, bf16 means f32. In bf16, too, no result depends on the threads or on other rows, but
// instruction sets differ.
class MatmulPrecisionScope {
 public:
  explicit MatmulPrecisionScope(Precision precision);
  ~MatmulPrecisionScope();
  MatmulPrecisionScope(const MatmulPrecisionScope&) = delete;
  MatmulPrecisionScope& operator=(const MatmulPrecisionScope&) = delete;
  [[nodiscard]] static Precision current();  // f32 outside of any scope

 private:
  Precision before_;
};

// Each output element is one chain of fused multiply-adds over k, in order: c = fma(a[i][k], b[k][j], c).
struct MatmulOptions {
  bool transpose_a = false;  // a is given as (..., K, M)
  bool transpose_b = false;  // b is given as (..., N, K)
  bool accumulate = false;   // matmul_into only: the chain starts from `out` instead of 0
};

// a (..., M, K) b (..., K, N) -> (..., M, N). b may be a plain matrix, shared by all of a's batch; otherwise the
// leading extents are equal. Any strides (fast where the last stride of either is 1 or the last two are transposed).
[[nodiscard]] Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options = {});
// out (..., M, N), any strides. With `accumulate`, a plain matrix `out` receives the sum over a's and b's batch.
void matmul_into(const Tensor& out, const Tensor& a, const Tensor& b, const MatmulOptions& options = {});

struct LinearOptions {
  Activation activation = Activation::none;
  bool save = true;  // false: inference, `saved` stays undefined
};
struct LinearResult {
  Tensor output;  // (..., Out)
  // What the activation's backward needs: the output itself for relu (the same memory), the pre-activation (..., Out)
  // for gelu, gelu_tanh and silu, undefined for none.
  Tensor saved;
};
// x (..., In), weight (Out, In), bias (Out) or undefined -> activation(x weight^T + bias).
[[nodiscard]] LinearResult linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                  const LinearOptions& options = {});

// A weight (Out, In) in int8: W[o, i] = numbers[o, i] * scales[o] * balance[i]. A product multiplies column i of its
// input by balance[i], and then rounds it to 8 bits (Xiao et al. 2023, SmoothQuant).
struct Int8Numbers {
  Tensor numbers;       // (Out, In), i8
  Tensor scales;        // (Out)
  Tensor balance = {};  // (In); undefined: all 1
};

// A linear layer's weight in the order in which products read it: packed once for all of them. Immutable, shared by
// threads.
class PackedWeight {
 public:
  explicit PackedWeight(const Tensor& weight, WeightFormat format = WeightFormat::f32);  // (Out, In) f32
  // In int8, of a weight of shape (Out, In) that is nowhere whole in f32: `row` writes In numbers. Several threads call
  // it, twice for each row in all.
  PackedWeight(const Shape& shape, const std::function<void(int64_t number, float* out)>& row);
  explicit PackedWeight(const Int8Numbers& given);
  ~PackedWeight();
  PackedWeight(const PackedWeight&) = delete;
  PackedWeight& operator=(const PackedWeight&) = delete;

  [[nodiscard]] Tensor unpack() const;             // (Out, In) f32; of bf16 and int8 the rounded numbers
  void row(int64_t number, float* out) const;      // one row of that, In numbers
  [[nodiscard]] Int8Numbers int8_numbers() const;  // of a weight in int8
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] WeightFormat format() const;
  [[nodiscard]] int64_t nbytes() const;

 private:
  friend LinearResult linear(const Tensor&, const PackedWeight&, const Tensor&, const LinearOptions&);
  struct Contents;
  Shape shape_;
  std::unique_ptr<const Contents> contents_;
};
// The same with a packed weight: in f32 the same bits.
[[nodiscard]] LinearResult linear(const Tensor& x, const PackedWeight& weight, const Tensor& bias,
                                  const LinearOptions& options = {});

// Of each row of x (N, V) the number of its largest element, the first of equal ones, without those where excluded[i]
// is not 0 (empty: with all). kNoLargest where none is left or all that are left are -infinity. kNotFinite where the
// logsumexp of the row is no number: an element is NaN or infinity, or all are -infinity.
constexpr int32_t kNoLargest = -1, kNotFinite = -2;
[[nodiscard]] std::vector<int32_t> argmax(const Tensor& x, std::span<const uint8_t> excluded = {});

// argmax(linear(x, weight, bias)), as greedy search asks of a vocabulary, with a quarter of the work: a copy of the
// weight in int8 and a bound of its error say which columns can be the largest, and only these are computed in f32. The
// answer is that of linear(), on every processor.
class LinearArgmax {
 public:
  // weight in f32, packed; it is copied in int8, a quarter of its bytes. bias (Out) or undefined.
  LinearArgmax(std::shared_ptr<const PackedWeight> weight, const Tensor& bias);
  ~LinearArgmax();
  LinearArgmax(const LinearArgmax&) = delete;
  LinearArgmax& operator=(const LinearArgmax&) = delete;
  // Whether it is faster than the product in f32 on this processor, with this weight.
  [[nodiscard]] static bool pays(const PackedWeight& weight);

  [[nodiscard]] std::vector<int32_t> operator()(const Tensor& x, std::span<const uint8_t> excluded = {}) const;
  [[nodiscard]] const std::shared_ptr<const PackedWeight>& weight() const { return weight_; }

 private:
  struct Contents;
  std::shared_ptr<const PackedWeight> weight_;
  Tensor bias_;
  std::unique_ptr<const Contents> contents_;
};

struct LinearBackwardOptions {
  Activation activation = Activation::none;
  Tensor saved = {};       // LinearResult::saved; not needed for Activation::none
  Tensor d_weight = {};    // (Out, In): the gradient is ADDED into it; undefined: not computed
  Tensor d_bias = {};      // (Out): likewise
  bool want_input = true;  // false: the returned tensor is undefined
};
// d_output (..., Out) -> d_x (..., In).
[[nodiscard]] Tensor linear_backward(const Tensor& d_output, const Tensor& x, const Tensor& weight,
                                     const LinearBackwardOptions& options = {});

// ---- Elementwise ----

// a (...), b's shape equal to a's or a suffix of it. Any strides.
[[nodiscard]] Tensor add(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor sub(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor mul(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor scale(const Tensor& x, float factor);
void scale_into(const Tensor& x, float factor);                    // x *= factor; contiguous
void add_into(const Tensor& out, const Tensor& x);                 // out += x; same shape, any strides
void axpy_into(const Tensor& out, float factor, const Tensor& x);  // out += factor * x; same shape, any strides
// out += x summed over the leading axes that out's shape, a suffix of x's, lacks: the gradient of a suffix broadcast.
void add_reduced_into(const Tensor& out, const Tensor& x, float factor = 1.0f);

[[nodiscard]] Tensor activate(const Tensor& x, Activation activation);
// d_output * activation'(...): `saved` is the OUTPUT (or the input) for relu, the INPUT for gelu, gelu_tanh and silu.
[[nodiscard]] Tensor activate_backward(const Tensor& d_output, const Tensor& saved, Activation activation);

[[nodiscard]] Tensor dropout(const Tensor& x, const Dropout& dropout);  // itself, not a copy, for rate 0
[[nodiscard]] Tensor dropout_backward(const Tensor& d_output, const Dropout& dropout);
[[nodiscard]] Tensor dropout_add(const Tensor& x, const Tensor& residual,
                                 const Dropout& dropout);  // residual + dropout(x)
[[nodiscard]] bool dropout_keeps(const Dropout& dropout, int64_t index);

// Rotary position embeddings (Su et al. 2021): pairs of columns are rotated by an angle that grows with the position,
// so that q.k depends on the distance. x (B, H, L, D), any strides; cos and sin (L, R / 2) or (B, L, R / 2), R even and
// at most D: the first R columns are rotated, the others stay. Pair n is columns (n, n + R / 2), or interleaved columns
// (2 n, 2 n + 1).
[[nodiscard]] Tensor rotary_embedding(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved = false);
// Rotates by the negative angles.
[[nodiscard]] Tensor rotary_embedding_backward(const Tensor& d_output, const Tensor& cos, const Tensor& sin,
                                               bool interleaved = false);
struct RotaryTables {
  // (count, size / 2), of the angles position * (1 / base^(2 n / size)), which are rounded to f32 at each step, as in
  // the training of published models: 1,000 turns from position 0 an angle is off by up to 5e-4.
  Tensor cos, sin;
};
[[nodiscard]] RotaryTables rotary_tables(int64_t count, int64_t size, int64_t first_position = 0, double base = 10000);

// ---- Rows: everything below works over the last axis ----

// A row of -inf only gives zeros; a NaN or +inf makes its row NaN.
[[nodiscard]] Tensor softmax(const Tensor& x);
[[nodiscard]] Tensor softmax_backward(const Tensor& d_output, const Tensor& output);
[[nodiscard]] Tensor log_softmax(const Tensor& x);
[[nodiscard]] Tensor log_softmax_backward(const Tensor& d_output, const Tensor& output);
// x (..., V) -> (...): log sum_v exp(x[..., v]). -inf for a row of -inf only; NaN where an element is NaN or +inf.
[[nodiscard]] Tensor logsumexp(const Tensor& x);

struct NormResult {
  Tensor output;  // (..., E)
  Tensor mean;    // (rows); undefined for rms_norm
  Tensor rstd;    // (rows): 1 / sqrt(variance + epsilon), or 1 / sqrt(mean square + epsilon)
  Tensor input;   // (..., E), before normalisation: x (the same memory), or residual + dropout(x)
};
// gain (E); bias (E) or undefined.
[[nodiscard]] NormResult layer_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, float epsilon = 1e-5f);
[[nodiscard]] NormResult rms_norm(const Tensor& x, const Tensor& gain, float epsilon = 1e-5f);
// layer_norm(residual + dropout(x)) in one pass.
[[nodiscard]] NormResult dropout_add_layer_norm(const Tensor& x, const Tensor& residual, const Dropout& dropout,
                                                const Tensor& gain, const Tensor& bias, float epsilon = 1e-5f);

// Gradients are ADDED into d_gain and d_bias (E) where defined. `forward` is what the forward function returned (its
// output is not read). Returns d_x.
[[nodiscard]] Tensor layer_norm_backward(const Tensor& d_output, const NormResult& forward, const Tensor& gain,
                                         const Tensor& d_gain, const Tensor& d_bias);
[[nodiscard]] Tensor rms_norm_backward(const Tensor& d_output, const NormResult& forward, const Tensor& gain,
                                       const Tensor& d_gain);
struct DropoutAddGradients {
  Tensor x;         // (..., E); the same memory as `residual` for rate 0: read it, do not write it
  Tensor residual;  // (..., E)
};
[[nodiscard]] DropoutAddGradients dropout_add_layer_norm_backward(const Tensor& d_output, const NormResult& forward,
                                                                  const Dropout& dropout, const Tensor& gain,
                                                                  const Tensor& d_gain, const Tensor& d_bias);

// ---- Ids ----

[[nodiscard]] Tensor embedding(const Tensor& ids, const Tensor& weight, const EmbeddingOptions& options = {});
[[nodiscard]] Tensor embedding(const Tensor& ids, const PackedWeight& weight, const EmbeddingOptions& options = {});
// d_weight (V, E) += the rows of d_output (..., E), each at its id, in the order of the ids.
void embedding_backward_into(const Tensor& d_weight, const Tensor& d_output, const Tensor& ids,
                             const EmbeddingOptions& options = {});

struct CrossEntropyResult {
  double sum = 0;      // of the row losses, in row order
  int64_t count = 0;   // rows that are not ignored
  Tensor losses;       // (rows); 0 for ignored rows
  Tensor logsumexp;    // (rows)
  Tensor divergences;  // (rows), the KL divergence of each row from its partner; undefined without consistency
  // The loss that the options ask for; 0 when every row is ignored.
  [[nodiscard]] double loss(const CrossEntropyOptions& options) const {
    return options.sum || count == 0 ? sum : sum / static_cast<double>(count);
  }
};
// Throws Error for a target outside [0, V) that is not the ignored id.
[[nodiscard]] CrossEntropyResult cross_entropy(const Tensor& logits, const Tensor& targets,
                                               const CrossEntropyOptions& options = {});
// d loss / d logits, times `factor`, where the loss is forward.loss(options); rows that are ignored get zeros.
[[nodiscard]] Tensor cross_entropy_backward(const Tensor& logits, const Tensor& targets,
                                            const CrossEntropyResult& forward, float factor,
                                            const CrossEntropyOptions& options = {});
// The same, written into d_logits (..., V), contiguous. It may be `logits` itself, to save memory.
void cross_entropy_backward_into(const Tensor& d_logits, const Tensor& logits, const Tensor& targets,
                                 const CrossEntropyResult& forward, float factor,
                                 const CrossEntropyOptions& options = {});

// cross_entropy(linear(x, weight, bias), targets) and its gradients, some hundred rows at a time, so that the logits
// are never all in memory. Rows whose target is ignored are left out. x (..., E), weight (V, E), bias (V) or undefined.
// Loss and d_x have the bits of the two functions one after the other.
struct LinearCrossEntropyOptions {
  CrossEntropyOptions loss;
  bool want_input = false, want_weight = false, want_bias = false;  // which gradients of loss() to compute
};
struct LinearCrossEntropyResult {
  double loss = 0;
  Tensor d_x, d_weight, d_bias;  // undefined where not wanted
};
[[nodiscard]] LinearCrossEntropyResult linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                                            const Tensor& targets,
                                                            const LinearCrossEntropyOptions& options = {});

// ---- Reductions, optimizer, copies ----

[[nodiscard]] double sum(const Tensor& x);   // in double, fixed order
[[nodiscard]] double mean(const Tensor& x);  // NaN for an empty tensor
// The sums of squares of blocks of norm_block() elements of a contiguous x, in double. Added up in order for each
// tensor, and then over the tensors, they give norm() squared, to the bit, whoever computes which blocks.
[[nodiscard]] std::vector<double> block_squares(const Tensor& x);
[[nodiscard]] int64_t norm_block();
[[nodiscard]] double norm(std::span<const Tensor> tensors);  // Euclidean, of all elements together; in double

// One update of a parameter and its two moments, in one pass. All four contiguous and of one shape.
void adam_step(const Tensor& parameter, const Tensor& gradient, const Tensor& first, const Tensor& second,
               const AdamStepOptions& options);

// out = x; same shape, f32, any strides on either side. Works in blocks, so that transposes run at the speed of memory.
void copy_into(const Tensor& out, const Tensor& x);
[[nodiscard]] Tensor contiguous(const Tensor& x);               // x itself where it is contiguous
[[nodiscard]] Tensor transpose(const Tensor& x, int a, int b);  // a copy, contiguous
// The shapes differ along `axis` only (negative: from the end). Any strides.
[[nodiscard]] Tensor concat(std::span<const Tensor> parts, int axis);
[[nodiscard]] std::vector<Tensor> split(const Tensor& x, int axis, std::span<const int64_t> sizes);  // copies

}  // namespace heed::ops
HEED_EXPORT_END
