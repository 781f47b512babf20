// Norm: layer normalisation (Ba et al. 2016) or root mean square normalisation (Zhang and Sennrich 2019).
#include "heed/nn.h"

namespace heed::nn {

Norm::Norm(NormKind kind, int64_t width, float epsilon, bool with_bias) : kind_(kind), epsilon_(epsilon) {
  if (kind == NormKind::none) return;
  gain = add_parameter("gain", Tensor::full({width}, 1.0f));
  if (with_bias && kind == NormKind::layer_norm) bias = add_parameter("bias", Tensor::zeros({width}));
}

Value Norm::operator()(const Value& x) const {
  if (kind_ == NormKind::none) return x;
  return kind_ == NormKind::layer_norm ? layer_norm(x, gain, bias, epsilon_) : rms_norm(x, gain, epsilon_);
}

Value Norm::of_sum(const Value& x, const Value& residual, float dropout_rate) const {
  if (kind_ == NormKind::none) return dropout_add(x, residual, dropout_rate);
  if (kind_ == NormKind::rms_norm) return rms_norm(dropout_add(x, residual, dropout_rate), gain, epsilon_);
  return dropout_add_layer_norm(x, residual, dropout_rate, gain, bias, epsilon_);
}

}  // namespace heed::nn
