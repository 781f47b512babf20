// Values: tensors that remember how they were made, so that gradients can be computed.
//
// Every function here is a forward function of heed::ops (or attention) whose backward partner is recorded on the fly;
// backward() runs the partners in reverse order. Everything is f32 and contiguous unless a comment says otherwise.
// Not thread-safe: one thread builds and differentiates one graph (the arithmetic inside is parallel).
//
//   Value w(Tensor::full({4, 3}, 0.1f), true);
//   Value loss = cross_entropy(linear(x, w), targets);
//   loss.backward();                                    // w.grad() is d loss / d w
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "heed/attention.h"
#include "heed/distributed_attention.h"
#include "heed/export.h"
#include "heed/ops.h"
#include "heed/tensor.h"

HEED_EXPORT_BEGIN
namespace heed {

namespace tape {
struct Step;  // how a value was made
struct Graph;
}  // namespace tape

// A tensor and, where a gradient will be wanted, the step that made it. A value without a step is as cheap as a tensor.
class Value {
 public:
  Value() = default;  // undefined: stands for "no bias" and the like
  explicit Value(Tensor data, bool requires_grad = false);

  [[nodiscard]] bool defined() const { return step_ != nullptr || data_.defined(); }
  [[nodiscard]] const Tensor& data() const;
  // The gradient that backward() has added up, for a leaf that requires one. Undefined until backward() has reached
  // this leaf. Always undefined for a value that is no leaf: its gradient is dropped as soon as it has been used.
  [[nodiscard]] const Tensor& grad() const;
  [[nodiscard]] bool requires_grad() const { return step_ != nullptr; }
  [[nodiscard]] bool same_leaf(const Value& other) const { return step_ != nullptr && step_ == other.step_; }
  [[nodiscard]] const Shape& shape() const;
  [[nodiscard]] int64_t size(int axis) const;
  [[nodiscard]] float item() const;  // of a one-element value

  // These three are for leaves that require a gradient. All copies of a leaf are the same leaf, and see the change.
  void set_data(const Tensor& data) const;  // exchanges the contents; same shape
  void zero_grad() const;                   // keeps the memory
  void set_grad(Tensor grad) const;         // contiguous; the next backward() adds into it; undefined: no gradient

  // A leaf's weight in the order in which products read it, in place of its rows: for inference. linear() and
  // embedding() use it. data() brings the rows back and drops the packed weight, so that nobody changes one of two
  // copies; set_data() drops it too.
  void pack(WeightFormat format = WeightFormat::f32) const;
  void set_packed(std::shared_ptr<const ops::PackedWeight> packed) const;  // the same with a weight that is packed
  [[nodiscard]] std::shared_ptr<const ops::PackedWeight> packed() const;   // null: it is not

  // Adds seed * d this / d leaf to the grad() of every leaf that requires one. This value must have one element. The
  // graph is freed on the way: what a function kept for its gradient is released as soon as it has been used.
  // Throws Error where nothing requires a gradient, or where an earlier backward() has freed a part of this graph.
  void backward(float seed = 1.0f) const;

  // For functions of your own: a value with `data`, made from `inputs`. `backward` gets the value's gradient,
  // contiguous, and returns one tensor for each input, undefined where none is needed. Where no input requires a
  // gradient, or a NoGradScope is open, nothing is recorded and `backward` is dropped.
  [[nodiscard]] static Value record(Tensor data, const std::vector<Value>& inputs,
                                    std::function<std::vector<Tensor>(const Tensor& d_output)> backward);

 private:
  friend struct tape::Graph;
  Tensor data_;                       // undefined for a leaf, whose data lies in its step: its copies share it
  std::shared_ptr<tape::Step> step_;  // null: requires no gradient
};

// While a NoGradScope is alive, nothing is recorded in this thread.
class NoGradScope {
 public:
  NoGradScope();
  ~NoGradScope();
  NoGradScope(const NoGradScope&) = delete;
  NoGradScope& operator=(const NoGradScope&) = delete;

 private:
  bool before_;
};
[[nodiscard]] bool grad_enabled();

// While a TrainingScope is alive, dropout drops in this thread; without one, dropout is the identity. The n-th dropout
// of a scope draws from Philox stream (seed, step, n): the same numbers whatever the thread count, and after a resume.
class TrainingScope {
 public:
  TrainingScope(uint64_t seed, uint64_t step);
  ~TrainingScope();
  TrainingScope(const TrainingScope&) = delete;
  TrainingScope& operator=(const TrainingScope&) = delete;
  [[nodiscard]] static bool active();
  [[nodiscard]] static uint64_t next_dropout_seed();  // a 64-bit key for the next dropout of this scope

 private:
  void* before_;
  uint64_t seed_, step_, count_ = 0;
};

// While it is alive, this thread computes one part of longer sequences, and other ranks compute the others: the rows of
// its tensors are those that `layout` gives this rank. attention() is then distributed::attention() over `ranks`, with
// the gradients of the whole sequence; its dropout is that of the whole, other dropouts differ from part to part.
// What is computed position by position needs no change. `ranks` must live until backward() has returned.
class SequencePartScope {
 public:
  SequencePartScope(distributed::Communicator& ranks, distributed::SequenceLayout layout);
  ~SequencePartScope();
  SequencePartScope(const SequencePartScope&) = delete;
  SequencePartScope& operator=(const SequencePartScope&) = delete;

  [[nodiscard]] static const SequencePartScope* active();  // null: sequences are whole
  [[nodiscard]] distributed::Communicator& ranks() const { return ranks_; }
  [[nodiscard]] const distributed::SequenceLayout& layout() const { return layout_; }
  [[nodiscard]] int part() const { return ranks_.rank(); }
  // The positions of this part, in the order of its rows.
  [[nodiscard]] const std::vector<distributed::Run>& runs() const { return layout_.runs[static_cast<size_t>(part())]; }

 private:
  const SequencePartScope* before_;
  distributed::Communicator& ranks_;
  distributed::SequenceLayout layout_;
};

// While it is alive, backward() in this thread calls whole(i) as soon as it has added all it has to add to the gradient
// of leaves[i]: then that gradient can be sent elsewhere while backward() goes on. The order is that of the tape.
// Leaves that the loss does not depend on are not reported.
class LeafGradientScope {
 public:
  LeafGradientScope(std::span<const Value> leaves, std::function<void(size_t)> whole);
  ~LeafGradientScope();
  LeafGradientScope(const LeafGradientScope&) = delete;
  LeafGradientScope& operator=(const LeafGradientScope&) = delete;

 private:
  const void* before_;
  std::function<void(size_t)> whole_;
  std::vector<std::pair<const tape::Step*, size_t>> leaves_;  // sorted
  friend struct tape::Graph;
};

// Elementwise. Shapes equal, or b's shape a suffix of a's (a bias, positions).
[[nodiscard]] Value operator+(const Value& a, const Value& b);
[[nodiscard]] Value operator-(const Value& a, const Value& b);
[[nodiscard]] Value operator*(const Value& a, const Value& b);
[[nodiscard]] Value operator*(const Value& a, float factor);
[[nodiscard]] Value relu(const Value& x);
[[nodiscard]] Value gelu(const Value& x);       // x Phi(x), with erf
[[nodiscard]] Value gelu_tanh(const Value& x);  // its tanh approximation
[[nodiscard]] Value silu(const Value& x);       // x sigmoid(x)
[[nodiscard]] Value tanh(const Value& x);
[[nodiscard]] Value sum(const Value& x);   // of all elements: shape ()
[[nodiscard]] Value mean(const Value& x);  // likewise

// a (..., M, K) b (K, N) or (..., K, N) -> (..., M, N).
[[nodiscard]] Value matmul(const Value& a, const Value& b);
// x (..., In) weight (Out, In) bias (Out) -> activation(x weight^T + bias) (..., Out).
[[nodiscard]] Value linear(const Value& x, const Value& weight, const Value& bias = {},
                           Activation activation = Activation::none);

// ids (B, L) i32, weight (V, E) -> scale * weight[id] (B, L, E), as EmbeddingOptions says. Throws Error for an id
// outside [0, V).
[[nodiscard]] Value embedding(const Tensor& ids, const Value& weight, const EmbeddingOptions& options = {});

// Over the last axis. gain and bias (E); an undefined bias is none.
[[nodiscard]] Value layer_norm(const Value& x, const Value& gain, const Value& bias, float epsilon = 1e-5f);
[[nodiscard]] Value rms_norm(const Value& x, const Value& gain, float epsilon = 1e-5f);
// ops::rotary_embedding; cos and sin get no gradient.
[[nodiscard]] Value rotary_embedding(const Value& x, const Tensor& cos, const Tensor& sin, bool interleaved = false);
[[nodiscard]] Value softmax(const Value& x);
[[nodiscard]] Value log_softmax(const Value& x);

// Zeroes elements with probability `rate` and divides the rest by 1 - rate, inside a TrainingScope.
[[nodiscard]] Value dropout(const Value& x, float rate);
// residual + dropout(x, rate), in one pass.
[[nodiscard]] Value dropout_add(const Value& x, const Value& residual, float rate);
// layer_norm(residual + dropout(x, rate)), in one pass: the post-norm sublayer of the paper.
[[nodiscard]] Value dropout_add_layer_norm(const Value& x, const Value& residual, float rate, const Value& gain,
                                           const Value& bias, float epsilon = 1e-5f);

// logits (..., V), targets (...) i32 -> shape (): the mean, or sum, of the losses, as CrossEntropyOptions says.
[[nodiscard]] Value cross_entropy(const Value& logits, const Tensor& targets, const CrossEntropyOptions& options = {});
// cross_entropy(linear(x, weight, bias), targets), some hundred rows at a time, so that the logits are never all in
// memory; rows whose target is ignored are left out. Training uses it for the output layer.
[[nodiscard]] Value linear_cross_entropy(const Value& x, const Value& weight, const Value& bias, const Tensor& targets,
                                         const CrossEntropyOptions& options = {});

// heed::attention with its gradient for query, key and value (logsumexp is kept for it). Inputs may be strided views
// (see heads()). Inside a TrainingScope, options.dropout.rate applies, with a seed from the scope in
// place of options.dropout.seed. Outside of one there is no dropout. The tensors in the options (bias, sinks, slopes,
// tables) are constants and get no gradient here (attention_backward has theirs). Throws Error where options.want is
// not empty.
[[nodiscard]] Value attention(const Value& query, const Value& key, const Value& value,
                              const AttentionOptions& options = {});
// heed::attention_additive likewise, with the gradient of its weight.
[[nodiscard]] Value attention_additive(const Value& query, const Value& key, const Value& value, const Value& weight,
                                       const AttentionOptions& options = {});

// Shapes. reshape and heads are views where the memory allows; a slice is one where it is contiguous; the others copy.
[[nodiscard]] Value reshape(const Value& x, const Shape& shape);
[[nodiscard]] Value transpose(const Value& x, int a, int b);
[[nodiscard]] Value slice(const Value& x, int axis, int64_t begin, int64_t end);
[[nodiscard]] Value concat(std::span<const Value> parts, int axis);
[[nodiscard]] std::vector<Value> split(const Value& x, int axis, std::span<const int64_t> sizes);
// Columns offset .. offset + H*D of x (B, L, C) as heads: a view (B, H, L, D), no copy where D divides C and offset.
// Queries, keys and values of one fused projection are three such views; their gradients are added into one tensor
// (B, L, C).
[[nodiscard]] Value heads(const Value& x, int64_t head_count, int64_t head_size, int64_t offset = 0);
// (B, H, L, D) -> (B, L, H*D); no copy for the output of attention().
[[nodiscard]] Value merge_heads(const Value& x);

}  // namespace heed
HEED_EXPORT_END
