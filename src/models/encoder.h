// EncoderLayer: self-attention, then the feed-forward network. The left half of figure 1 of Vaswani et al. 2017.
// Behind a causal mask the same layer is the block of a decoder-only model.
#pragma once

#include "models/add_norm.h"

namespace heed::models {

class EncoderLayer : public nn::Module {
 public:
  EncoderLayer(const Config& config, const LayerSetup& setup, nn::Initializer& init);

  // (B, L, E) -> (B, L, E)
  [[nodiscard]] Value forward(const Value& x, const AttentionOptions& masks, const nn::Places& places = {}) const;
  // The same for positions that follow those in the cache, each seeing what is before it. start() makes the cache.
  [[nodiscard]] KeyValueCache start(int64_t rows, const KeyValueCache::Options& options) const;
  [[nodiscard]] Value step(const Value& x, KeyValueCache& cache) const;

 private:
  nn::MultiHeadAttention self_attention_;
  AddNorm self_attention_norm_;
  nn::FeedForward feed_forward_;
  AddNorm feed_forward_norm_;
};

}  // namespace heed::models
