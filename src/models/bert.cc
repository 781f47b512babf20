// Bert: encoder-only. Devlin et al. 2019.
#include "heed/error.h"
#include "models/bert_head.h"
#include "models/encode_batch.h"
#include "models/output.h"

namespace heed::models {

struct Bert::Parts {
  Parts(const Config& config, nn::Initializer init)
      : encoder(config, config.source_vocabulary, config.encoder_layers, Stack<EncoderLayer>::Sees::all, nullptr, init),
        head(config, encoder.embedding().weight(), init) {}

  Stack<EncoderLayer> encoder;
  BertHead head;
};

Bert::Bert(const Config& config, uint64_t seed) : Model(config) {
  require(config.architecture == Architecture::encoder_only, "Bert", "architecture encoder_only; found ",
          config.architecture);
  parts_ = std::make_unique<Parts>(config, nn::Initializer(seed));
  add_module("encoder", parts_->encoder);
  add_module("head", parts_->head);
  name_paths();
  initialize_normal(*this, seed);
}

Bert::~Bert() = default;

Value Bert::encode(const Tensor& tokens, const Tensor& lengths, const Tensor& types) const {
  return encode_batch(parts_->encoder, config_, tokens, lengths, types);
}

Value Bert::forward(const Tensor& tokens, const Tensor& lengths, const Tensor& types) const {
  const Value states = encode(tokens, lengths, types);
  return config_.head == Head::text_class ? parts_->head.logits(parts_->head.pooled(states, lengths))
                                          : parts_->head(states);
}

Value Bert::logits_of(const Value& states) const { return parts_->head(parts_->encoder.finish(states)); }

Value Bert::head_logits(const Value& states) const { return parts_->head(states); }

Value Bert::loss(const Tensor& tokens, const Tensor& lengths, const Tensor& expected,
                 const CrossEntropyOptions& options, const Tensor& types) const {
  if (config_.head == Head::text_class) return cross_entropy(forward(tokens, lengths, types), expected, options);
  return parts_->head.loss(encode(tokens, lengths, types), expected, options);
}

Value Bert::pooled(const Tensor& tokens, const Tensor& lengths, const Tensor& types) const {
  return parts_->head.pooled(encode(tokens, lengths, types), lengths);
}

Value Bert::embed(const Tensor& tokens, const Tensor& lengths) const {
  return mean_of_states(encode(tokens, lengths), lengths);
}

}  // namespace heed::models
