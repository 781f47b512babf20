// EncoderLayer: self-attention, then the feed-forward network.
#include "models/encoder.h"

namespace heed::models {

EncoderLayer::EncoderLayer(const Config& config, const LayerSetup& setup, nn::Initializer& init)
    : self_attention_(attention_options(config, setup), init),
      self_attention_norm_(config, config.first_norm || setup.index > 0),
      feed_forward_(feed_forward_options(config), init),
      feed_forward_norm_(config) {
  add_module("self_attention", self_attention_);
  add_module("self_attention_norm", self_attention_norm_);
  add_module("feed_forward", feed_forward_);
  add_module("feed_forward_norm", feed_forward_norm_);
}

Value EncoderLayer::forward(const Value& x, const AttentionOptions& masks, const nn::Places& places) const {
  const Value h = self_attention_norm_(x, [&](const Value& y) { return self_attention_.self(y, masks, places); });
  return feed_forward_norm_(h, feed_forward_);
}

KeyValueCache EncoderLayer::start(int64_t rows, const KeyValueCache::Options& options) const {
  return self_attention_.start(rows, options);
}

Value EncoderLayer::step(const Value& x, KeyValueCache& cache) const {
  const Value h = self_attention_norm_(x, [&](const Value& y) { return self_attention_.self(y, cache); });
  return feed_forward_norm_(h, feed_forward_);
}

}  // namespace heed::models
