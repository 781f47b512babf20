// FeedForward: the same two layers at every position. Vaswani et al. 2017, section 3.3.
#include "heed/nn.h"

namespace heed::nn {

FeedForward::FeedForward(const FeedForwardOptions& options, Initializer& init)
    : inner_(options.width, options.inner, options.bias, init),
      outer_(options.inner, options.width, options.bias, init),
      activation_(options.activation),
      dropout_rate_(options.dropout) {
  add_module("inner", inner_);
  add_module("outer", outer_);
  if (options.gated) {
    gate_ = std::make_unique<Linear>(options.width, options.inner, options.bias, init);
    add_module("gate", *gate_);
  }
}

Value FeedForward::operator()(const Value& x) const {
  Value h = inner_(x, activation_);
  if (gate_) h = h * (*gate_)(x);
  return outer_(dropout(h, dropout_rate_));
}

}  // namespace heed::nn
