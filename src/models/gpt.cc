// Gpt: decoder-only. Radford et al. 2019.
#include "heed/error.h"
#include "models/encoder.h"
#include "models/output.h"
#include "models/stack.h"

namespace heed::models {

struct Gpt::Parts {
  Parts(const Config& config, nn::Initializer init)
      : decoder(config, config.target_vocabulary, config.decoder_layers, Stack<EncoderLayer>::Sees::before, nullptr,
                init),
        output(config, decoder.embedding().weight(), init) {}

  Stack<EncoderLayer> decoder;  // without an encoder to attend to, its layers have the encoder's form
  Output output;
};

namespace {

class TextDecoder : public Decoder {
 public:
  TextDecoder(const Stack<EncoderLayer>& decoder, const Output& output, const KeyValueCache::Options& options)
      : decoder_(decoder), output_(output), options_(options) {
    options_.heads_together = true;
  }

  Tensor step(const Tensor& tokens) override {
    require(tokens.defined() && tokens.rank() == 2 && (length_ == 0 || tokens.size(0) == rows_), "Decoder::step",
            "tokens (N, L), the rows as before; found ", tokens.shape(), " after ", rows_, " rows");
    const NoGradScope no_grad;
    if (caches_.empty()) {
      for (const auto& layer : decoder_.layers()) caches_.push_back(layer->start(tokens.size(0), options_));
    }
    const Value x = decoder_({.ids = tokens, .first = length_}, [&](const EncoderLayer& layer, const Value& y,
                                                                    size_t i) { return layer.step(y, caches_[i]); });
    rows_ = tokens.size(0);
    length_ += tokens.size(1);
    return output_.of_last(x);
  }

  void reorder(std::span<const int64_t> rows) override {
    for (auto& cache : caches_) cache.reorder(rows);
    rows_ = static_cast<int64_t>(rows.size());
  }

  [[nodiscard]] int64_t vocabulary() const override { return output_.vocabulary(); }

 private:
  const Stack<EncoderLayer>& decoder_;
  const Output& output_;
  KeyValueCache::Options options_;
  std::vector<KeyValueCache> caches_;  // a layer each
  int64_t rows_ = 0;
  int64_t length_ = 0;
};

}  // namespace

Gpt::Gpt(const Config& config, uint64_t seed) : Model(config) {
  require(config.architecture == Architecture::decoder_only, "Gpt", "architecture decoder_only; found ",
          config.architecture);
  require(config.relative_buckets == 0, "Gpt", "no relative_buckets; found ", config.relative_buckets);
  parts_ = std::make_unique<Parts>(config, nn::Initializer(seed));
  add_module("decoder", parts_->decoder);
  add_module("output", parts_->output);
  name_paths();
  initialize_normal(*this, seed);
  shrink_residual_projections(*this, config.decoder_layers);
}

Gpt::~Gpt() = default;

namespace {

Value states(const Stack<EncoderLayer>& decoder, const Tensor& tokens) {
  const AttentionOptions masks = {.causal = Causal::top_left()};
  return decoder({.ids = tokens},
                 [&](const EncoderLayer& layer, const Value& x, size_t) { return layer.forward(x, masks); });
}

}  // namespace

Value Gpt::forward(const Tensor& tokens) const { return parts_->output(states(parts_->decoder, tokens)); }

Value Gpt::logits_of(const Value& states) const { return parts_->output(parts_->decoder.finish(states)); }

Value Gpt::loss(const Tensor& tokens, const Tensor& expected, const CrossEntropyOptions& options) const {
  return parts_->output.loss(states(parts_->decoder, tokens), expected, options);
}

std::unique_ptr<Decoder> Gpt::start(const KeyValueCache::Options& cache) const {
  return std::make_unique<TextDecoder>(parts_->decoder, parts_->output, cache);
}

}  // namespace heed::models
