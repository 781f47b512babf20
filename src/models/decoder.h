// DecoderLayer: causal self-attention, attention to the encoder's output, then the feed-forward network.
// The right half of figure 1 of Vaswani et al. 2017.
#pragma once

#include <span>

#include "models/add_norm.h"

namespace heed::models {

class DecoderLayer : public nn::Module {
 public:
  DecoderLayer(const Config& config, const LayerSetup& setup, nn::Initializer& init);

  // x (B, L, E), memory (B, S, E); memory_masks hides the padding of the source.
  [[nodiscard]] Value forward(const Value& x, const Value& memory, const AttentionOptions& memory_masks,
                              const nn::Places& places = {}) const;

  // The same, one or a few positions at a time: what a layer keeps between steps.
  struct Cache {
    KeyValueCache self;    // N rows: the positions so far
    KeyValueCache memory;  // sources; each serves N / sources rows that stand together
  };
  [[nodiscard]] Cache start(const Value& memory, const Tensor& memory_lengths, int64_t rows,
                            const KeyValueCache::Options& options) const;
  // x: the next positions of all rows; or of `rows` alone, each once, whose memories are then `sources`.
  [[nodiscard]] Value step(const Value& x, Cache& cache, const Value& distance_bias = {},
                           std::span<const int64_t> rows = {}, std::span<const int64_t> sources = {}) const;

 private:
  nn::MultiHeadAttention self_attention_;
  AddNorm self_attention_norm_;
  nn::MultiHeadAttention cross_attention_;
  AddNorm cross_attention_norm_;
  nn::FeedForward feed_forward_;
  AddNorm feed_forward_norm_;
};

}  // namespace heed::models
