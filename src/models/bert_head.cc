#include "models/bert_head.h"

#include "heed/error.h"
#include "models/output.h"

namespace heed::models {

BertHead::BertHead(const Config& config, const Value& embedding, nn::Initializer& init)
    : pooling_(config.head_pooling),
      activation_(config.head_activation == Activation::none ? config.activation : config.head_activation),
      dropout_(config.dropout) {
  const bool guesses_tokens = config.head == Head::masked_token;
  if (guesses_tokens || config.head_hidden) {
    dense_ = std::make_unique<nn::Linear>(config.width, config.width, config.bias, init);
    add_module("dense", *dense_);
  }
  if (guesses_tokens || config.head_norm) {
    norm_ = std::make_unique<nn::Norm>(config.norm, config.width, config.norm_epsilon, config.bias);
    add_module("norm", *norm_);
  }
  if (guesses_tokens) {
    tokens_ = std::make_unique<Output>(config, embedding, init);
    add_module("output", *tokens_);
  } else if (!config.labels.empty()) {
    classes_ = std::make_unique<nn::Linear>(config.width, static_cast<int64_t>(config.labels.size()), true, init);
    add_module("output", *classes_);
  }
}

BertHead::~BertHead() = default;

Value BertHead::states(const Value& x) const {
  const Value h = dense_ ? (*dense_)(x, activation_) : x;
  return norm_ ? (*norm_)(h) : h;
}

Value BertHead::logits(const Value& states) const {
  if (tokens_) return (*tokens_)(states);
  require(classes_ != nullptr, "Bert", "a model with classes or masked tokens to guess; found one that gives states");
  return (*classes_)(dropout(states, dropout_));
}

Value BertHead::operator()(const Value& x) const { return logits(states(x)); }

Value BertHead::loss(const Value& x, const Tensor& targets, const CrossEntropyOptions& options) const {
  return tokens_ ? tokens_->loss(states(x), targets, options) : cross_entropy((*this)(x), targets, options);
}

Value BertHead::pooled(const Value& x, const Tensor& lengths) const {
  if (pooling_ == Pooling::mean) return states(mean_of_states(x, lengths));
  require(x.size(1) > 0, "Bert", "texts of at least one token; found none");
  return states(reshape(slice(x, 1, 0, 1), {x.size(0), x.size(2)}));
}

Value mean_of_states(const Value& x, const Tensor& lengths) {
  const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
  const auto share = [lengths](int64_t b) {
    const auto count = static_cast<float>(lengths.at({b}));
    return count > 0 ? 1.0f / count : 0.0f;
  };
  const Tensor states = x.data().contiguous();
  const Tensor mean = Tensor::zeros({batch, width});
  for (int64_t b = 0; b < batch; ++b) {
    float* out = mean.data<float>() + b * width;
    const float* in = states.data<float>() + b * length * width;
    const auto count = static_cast<int64_t>(lengths.at({b}));
    for (int64_t l = 0; l < count; ++l) {
      for (int64_t e = 0; e < width; ++e) out[e] += in[l * width + e];
    }
    for (int64_t e = 0; e < width; ++e) out[e] *= share(b);
  }
  return Value::record(mean, {x}, [=](const Tensor& d_mean) {
    const Tensor d_states = Tensor::zeros({batch, length, width});
    const Tensor d_rows = d_mean.contiguous();
    for (int64_t b = 0; b < batch; ++b) {
      const float* in = d_rows.data<float>() + b * width;
      float* out = d_states.data<float>() + b * length * width;
      const auto count = static_cast<int64_t>(lengths.at({b}));
      for (int64_t l = 0; l < count; ++l) {
        for (int64_t e = 0; e < width; ++e) out[l * width + e] = in[e] * share(b);
      }
    }
    return std::vector<Tensor>{d_states};
  });
}

}  // namespace heed::models
