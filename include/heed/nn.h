// Modules: the named parameters of a network and the functions that use them.
//
// A module owns its parameters and its child modules; every parameter has a path such as
// "encoder.layers.0.self_attention.query.weight". Modules are neither copied nor moved. forward() is const: caches are
// passed in, and observers and random numbers come from scopes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/autograd.h"
#include "heed/export.h"
#include "heed/kv_cache.h"
#include "heed/ops.h"

HEED_EXPORT_BEGIN
namespace heed::nn {

class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // All parameters below this module with their paths, in the order of construction. A tied parameter appears once.
  [[nodiscard]] std::vector<std::pair<std::string, Value>> named_parameters() const;
  [[nodiscard]] std::vector<Value> parameters() const;
  [[nodiscard]] int64_t parameter_count() const;

  // Packs the weights of all linear layers below this module for inference (Value::pack).
  void pack(WeightFormat format) const;
  // Calls f(weight) for each weight that pack() packs.
  virtual void for_packed(const std::function<void(const Value& weight)>& f) const;
  // Whether a weight below this module is packed in `format`.
  [[nodiscard]] bool packed_as(WeightFormat format) const;

  // This module's path below the root ("" for the root itself), known once the root is built.
  [[nodiscard]] const std::string& path() const { return path_; }

 protected:
  // Registers a parameter or a child under `name`. Children must outlive the registration (members, or owned
  // elsewhere).
  Value add_parameter(std::string name, Tensor initial);
  void add_module(std::string name, Module& child);
  void name_paths(const std::string& prefix = "");  // the root calls it at the end of its constructor

 private:
  std::vector<std::pair<std::string, Value>> parameters_;
  std::vector<std::pair<std::string, Module*>> children_;
  std::string path_;
};

// Random numbers for initial weights: counter-based, keyed by (seed, running number), so construction order decides.
class Initializer {
 public:
  explicit Initializer(uint64_t seed) : seed_(seed) {}
  [[nodiscard]] Tensor normal(const Shape& shape, float deviation);
  [[nodiscard]] Tensor uniform(const Shape& shape, float bound);           // in [-bound, bound)
  [[nodiscard]] Tensor xavier_uniform(int64_t out_size, int64_t in_size);  // Glorot and Bengio 2010; (Out, In)

  // While it is alive, nothing is drawn in this thread: for a model whose weights are about to be loaded. They hold
  // arbitrary numbers until then.
  class Skipped {
   public:
    Skipped();
    ~Skipped();
    Skipped(const Skipped&) = delete;
    Skipped& operator=(const Skipped&) = delete;
    [[nodiscard]] static bool active();

   private:
    bool before_;
  };

 private:
  uint64_t seed_;
  uint64_t count_ = 0;
};

// y = activation(x W^T + b). Weights start Xavier uniform, biases zero.
class Linear : public Module {
 public:
  Linear(int64_t in_size, int64_t out_size, bool with_bias, Initializer& init);
  [[nodiscard]] Value operator()(const Value& x, Activation activation = Activation::none) const;
  void for_packed(const std::function<void(const Value& weight)>& f) const override;
  Value weight;  // (Out, In)
  Value bias;    // (Out) or undefined
};

// Token vectors; the row of `padding_id` is the zero vector. Vaswani et al. 2017, section 3.4: multiplied by sqrt(E).
class Embedding : public Module {
 public:
  Embedding(int64_t vocabulary, int64_t width, int64_t padding_id, bool scale_by_sqrt_width, Initializer& init);
  [[nodiscard]] Value operator()(const Tensor& ids) const;  // ids (B, L) i32 -> (B, L, E)
  Value weight;                                             // (V, E)

 private:
  EmbeddingOptions options_;
};

enum class PositionLayout {
  interleaved,  // PE(pos, 2i) = sin, PE(pos, 2i+1) = cos (the paper, section 3.5)
  halves,       // first half sines, second half cosines (tensor2tensor, OpenNMT, fairseq)
  paper_halves  // the same with the paper's wavelengths (Marian in transformers)
};

// (length, E), E even: sin and cos of position / 10000^(2i/E) (halves: 10000^(i/(E/2-1))), positions from `first`.
[[nodiscard]] Tensor sinusoidal_positions(int64_t length, int64_t width, PositionLayout layout, int64_t first = 0);

enum class NormKind { layer_norm, rms_norm, none };  // none: its input, without parameters

class Norm : public Module {
 public:
  Norm(NormKind kind, int64_t width, float epsilon, bool with_bias);
  [[nodiscard]] Value operator()(const Value& x) const;
  // norm(residual + dropout(x))
  [[nodiscard]] Value of_sum(const Value& x, const Value& residual, float dropout_rate) const;
  Value gain;  // (E); undefined for NormKind::none
  Value bias;  // (E), of a layer_norm with_bias; else undefined

 private:
  NormKind kind_;
  float epsilon_;
};

struct FeedForwardOptions {
  int64_t width = 0;  // E
  int64_t inner = 0;  // F
  Activation activation = Activation::relu;
  bool bias = true;
  bool gated = false;
  float dropout = 0;  // after the activation
};

// FFN(x) = act(x W1 + b1) W2 + b2 (section 3.3); gated: (act(x W1 + b1) * (x Wg + bg)) W2 + b2 (Shazeer 2020).
// Parameters: inner, outer and, gated, gate, each a Linear.
class FeedForward : public Module {
 public:
  FeedForward(const FeedForwardOptions& options, Initializer& init);
  [[nodiscard]] Value operator()(const Value& x) const;

 private:
  Linear inner_, outer_;
  std::unique_ptr<Linear> gate_;
  Activation activation_;
  float dropout_rate_;
};

// Gets the weights of every attention layer while an ObserverScope is open in this thread.
class AttentionObserver {
 public:
  virtual ~AttentionObserver() = default;
  // path: of the layer, e.g. "decoder.layers.2.cross_attention". weights (B, H, L, S). While a beam is decoded, cross
  // attention reports the rows of one source together: (sources, H, rows of each * L, S).
  virtual void on_attention(std::string_view path, const Tensor& weights) = 0;
};
class ObserverScope {
 public:
  explicit ObserverScope(AttentionObserver& observer);
  ~ObserverScope();
  ObserverScope(const ObserverScope&) = delete;
  ObserverScope& operator=(const ObserverScope&) = delete;

 private:
  AttentionObserver* before_;
};

struct MultiHeadAttentionOptions {
  int64_t width = 0;            // E: of the input, from which the queries are made, and of the output
  int64_t heads = 0;            // H
  int64_t key_value_heads = 0;  // Hkv; 0: H
  int64_t head_size = 0;        // D; 0: E / H, which must then be whole
  int64_t value_size = 0;       // Dv; 0: D
  int64_t memory_width = 0;     // of the memory, from which cross attention makes keys and values; 0: E
  bool bias = true;             // on the four projections
  // self() lowers the score of a key by slope_h times its distance (alibi_slopes()). cross() has no distances.
  bool alibi = false;
  float scale = 0;                // of the scores; 0: 1 / sqrt(D)
  int64_t window = -1;            // self() sees so many tokens to each side; -1: all
  ops::RotaryTables rotary = {};  // angles of as many positions as self() may meet; undefined: no rotary positions
  float attention_dropout = 0;    // on the weights
};

// How the sequences of a batch stand in the rows of x, for self-attention.
struct Places {
  // (B + 1) i32: x is (1, T, E), the sequences one behind the other without padding, and sequence b begins at row
  // starts[b]; undefined: x is (B, L, E).
  Tensor starts = {};
  Tensor positions = {};  // (1, T) i32: of each row in its sequence; only with starts
  // (H, 2 R + 1): self-attention adds column R + i - j to the score of query i and key j, where i - j is taken to be at
  // most R and at least -R; undefined: none.
  Value distance_bias = {};
};

// (H) f32: 2^(-8/H), 2^(-16/H), ..., 2^-8; where H is no power of two, those of the next smaller one, and then every
// second of the next larger one. Press et al. 2022, section 3 and its published code.
[[nodiscard]] Tensor alibi_slopes(int64_t heads);

// MultiHead(Q, K, V) = Concat(head_1 .. head_h) Wo, head_i = Attention(Q Wq_i, K Wk_i, V Wv_i); section 3.2.2.
// Parameters: query, key, value (H*D, E) and output (E, H*Dv), each a Linear. The weights of the first three start as
// those of one matrix would: Xavier uniform, divided by sqrt(2).
class MultiHeadAttention : public Module {
 public:
  MultiHeadAttention(const MultiHeadAttentionOptions& options, Initializer& init);

  // Self-attention of x (B, L, E). masks: key_lengths, causal, mask, bias of AttentionOptions.
  [[nodiscard]] Value self(const Value& x, const AttentionOptions& masks, const Places& places = {}) const;
  // Queries from x (B, L, E), keys and values from memory (B, S, memory_width).
  [[nodiscard]] Value cross(const Value& x, const Value& memory, const AttentionOptions& masks) const;

  // For decoding, without gradients:
  // An empty cache for `batch` sequences; it grows.
  [[nodiscard]] KeyValueCache start(int64_t batch, const KeyValueCache::Options& options = {}) const;
  // Self-attention of new positions x (B, L, E) that follow those in the cache; appends to it. Causal, bottom right.
  // `sequences`: those of the cache that x has, each once; empty: all.
  [[nodiscard]] Value self(const Value& x, KeyValueCache& cache, const Value& distance_bias = {},
                           std::span<const int64_t> sequences = {}) const;
  // The keys and values of a memory (B, S, memory_width) whose sequences have `lengths` (B) i32, computed once.
  [[nodiscard]] KeyValueCache remember(const Value& memory, const Tensor& lengths,
                                       const KeyValueCache::Options& options = {}) const;
  // Cross-attention to such a memory. `sequences`: the one that each row of x reads; empty: all in order.
  [[nodiscard]] Value cross(const Value& x, const KeyValueCache& memory, std::span<const int64_t> sequences = {}) const;

 private:
  [[nodiscard]] Value turned(const Value& heads, int64_t first, const Tensor& positions) const;
  Value attend(const Value& q, const Value& k, const Value& v, AttentionOptions options, const Places& places) const;
  Value attend(const Value& q, const KeyValues& memory, AttentionOptions options) const;
  MultiHeadAttentionOptions options_;
  Tensor slopes_;  // (H) with `alibi`, else undefined
  Linear query_, key_, value_, output_;
};

}  // namespace heed::nn
HEED_EXPORT_END
