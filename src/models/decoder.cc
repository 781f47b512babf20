// DecoderLayer: causal self-attention, attention to the encoder's output, then the feed-forward network.
#include "models/decoder.h"

namespace heed::models {

DecoderLayer::DecoderLayer(const Config& config, const LayerSetup& setup, nn::Initializer& init)
    : self_attention_(attention_options(config, setup), init),
      self_attention_norm_(config),
      cross_attention_(attention_options(config), init),
      cross_attention_norm_(config),
      feed_forward_(feed_forward_options(config), init),
      feed_forward_norm_(config) {
  add_module("self_attention", self_attention_);
  add_module("self_attention_norm", self_attention_norm_);
  add_module("cross_attention", cross_attention_);
  add_module("cross_attention_norm", cross_attention_norm_);
  add_module("feed_forward", feed_forward_);
  add_module("feed_forward_norm", feed_forward_norm_);
}

Value DecoderLayer::forward(const Value& x, const Value& memory, const AttentionOptions& memory_masks,
                            const nn::Places& places) const {
  // The target's padding is on its right: no position before it sees it through the causal mask.
  const AttentionOptions causal = {.causal = Causal::top_left()};
  Value h = self_attention_norm_(x, [&](const Value& y) { return self_attention_.self(y, causal, places); });
  h = cross_attention_norm_(h, [&](const Value& y) { return cross_attention_.cross(y, memory, memory_masks); });
  return feed_forward_norm_(h, feed_forward_);
}

DecoderLayer::Cache DecoderLayer::start(const Value& memory, const Tensor& memory_lengths, int64_t rows,
                                        const KeyValueCache::Options& options) const {
  KeyValueCache::Options of_memory = options;
  of_memory.heads_together = true;  // cross-attention has no bias
  return {.self = self_attention_.start(rows, options),
          .memory = cross_attention_.remember(memory, memory_lengths, of_memory)};
}

Value DecoderLayer::step(const Value& x, Cache& cache, const Value& distance_bias, std::span<const int64_t> rows,
                         std::span<const int64_t> sources) const {
  // Cross-attention has no order among its queries: the rows of one source are so many queries to one memory, which
  // therefore is kept once, not once a row.
  const int64_t groups = rows.empty() ? cache.memory.batch() : x.size(0);
  const Shape by_source = {groups, x.size(0) / groups * x.size(1), x.size(2)};
  Value h =
      self_attention_norm_(x, [&](const Value& y) { return self_attention_.self(y, cache.self, distance_bias, rows); });
  h = cross_attention_norm_(h, [&](const Value& y) {
    return reshape(cross_attention_.cross(reshape(y, by_source), cache.memory, sources), x.shape());
  });
  return feed_forward_norm_(h, feed_forward_);
}

}  // namespace heed::models
