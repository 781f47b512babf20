// Linear: y = activation(x W^T + b).
#include "heed/nn.h"

namespace heed::nn {

Linear::Linear(int64_t in_size, int64_t out_size, bool with_bias, Initializer& init) {
  weight = add_parameter("weight", init.xavier_uniform(out_size, in_size));
  if (with_bias) bias = add_parameter("bias", Tensor::zeros({out_size}));
}

Value Linear::operator()(const Value& x, Activation activation) const { return linear(x, weight, bias, activation); }

void Linear::for_packed(const std::function<void(const Value& weight)>& f) const { f(weight); }

}  // namespace heed::nn
