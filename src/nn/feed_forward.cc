// FeedForward: the same two layers at every position. Vaswani et al. 2017, section 3.3.
#include "heed/nn.h"

namespace heed::nn {

FeedForward::FeedForward(int64_t width, int64_t inner, Activation activation, bool with_bias, float dropout_rate,
                         Initializer& init)
    : inner_(width, inner, with_bias, init),
      outer_(inner, width, with_bias, init),
      activation_(activation),
      dropout_rate_(dropout_rate) {
  add_module("inner", inner_);
  add_module("outer", outer_);
}

Value FeedForward::operator()(const Value& x) const { return outer_(dropout(inner_(x, activation_), dropout_rate_)); }

}  // namespace heed::nn
