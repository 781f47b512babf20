// Layer normalisation, RMS normalisation, and the paper's sublayer: dropout, residual sum and normalisation in one.
#include "kernels/rows/norm.h"

#include <cmath>

#include "heed/error.h"
#include "heed/ops.h"
#include "ops/checks.h"

namespace heed::ops {
namespace {

float* pointer(const Tensor& tensor) { return tensor.defined() ? tensor.data<float>() : nullptr; }

NormResult forward(std::string_view function, const Tensor& x_tensor, const Tensor& residual, const Dropout& dropout,
                   const Tensor& gain_tensor, const Tensor& bias_tensor, float epsilon, bool centre) {
  const Tensor x = dense(x_tensor, function, "x");
  const auto [rows, columns] = rows_of(x, function, "x");
  const Tensor gain = dense(gain_tensor, function, "gain");
  require_shape(gain, {columns}, function, "gain");
  Tensor bias, residual_dense;
  if (bias_tensor.defined()) {
    bias = dense(bias_tensor, function, "bias");
    require_shape(bias, {columns}, function, "bias");
  }
  require_rate(dropout, function);
  require(std::isfinite(epsilon) && epsilon >= 0, function, "an epsilon of 0 or more; found ", epsilon);
  NormResult r{Tensor::empty(x.shape()), centre ? Tensor::empty({rows}) : Tensor(), Tensor::empty({rows}), x};
  kernels::NormForward n;
  if (residual.defined()) {
    residual_dense = dense(residual, function, "residual");
    require_shape(residual_dense, x.shape(), function, "residual");
    r.input = Tensor::empty(x.shape());
    n.residual = residual_dense.data<float>();
    n.sum = r.input.data<float>();
    n.dropout = dropout;
  }
  n.rows = rows, n.columns = columns;
  n.x = x.data<float>();
  n.gain = gain.data<float>();
  n.bias = pointer(bias);
  n.epsilon = epsilon;
  n.centre = centre;
  n.mean = pointer(r.mean);
  n.rstd = r.rstd.data<float>();
  n.output = r.output.data<float>();
  kernels::norm_forward(n);
  return r;
}

DropoutAddGradients backward(std::string_view function, const Tensor& d_output, const NormResult& forward,
                             const Dropout& dropout, const Tensor& gain_tensor, const Tensor& d_gain,
                             const Tensor& d_bias) {
  const Tensor d = dense(d_output, function, "d_output"), input = dense(forward.input, function, "the forward input");
  const auto [rows, columns] = rows_of(d, function, "d_output");
  require_shape(input, d.shape(), function, "the forward input");
  const Tensor gain = dense(gain_tensor, function, "gain");
  require_shape(gain, {columns}, function, "gain");
  for (const Tensor* sum : {&d_gain, &d_bias}) {
    if (!sum->defined()) continue;
    require_dense(*sum, function, "d_gain and d_bias");
    require_shape(*sum, {columns}, function, "d_gain and d_bias");
  }
  DropoutAddGradients g;
  g.residual = Tensor::empty(d.shape());
  g.x = dropout.rate > 0.0f ? Tensor::empty(d.shape()) : g.residual;
  kernels::NormBackward n;
  n.rows = rows, n.columns = columns;
  n.d_output = d.data<float>();
  n.input = input.data<float>();
  n.mean = pointer(forward.mean);
  n.rstd = forward.rstd.data<float>();
  n.gain = gain.data<float>();
  n.d_gain = pointer(d_gain);
  n.d_bias = pointer(d_bias);
  n.d_input = g.residual.data<float>();
  n.dropout = dropout;
  n.d_dropped = dropout.rate > 0.0f ? g.x.data<float>() : nullptr;
  kernels::norm_backward(n);
  return g;
}

}  // namespace

NormResult layer_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, float epsilon) {
  return forward("layer_norm", x, {}, {}, gain, bias, epsilon, true);
}

NormResult rms_norm(const Tensor& x, const Tensor& gain, float epsilon) {
  return forward("rms_norm", x, {}, {}, gain, {}, epsilon, false);
}

NormResult dropout_add_layer_norm(const Tensor& x, const Tensor& residual, const Dropout& dropout, const Tensor& gain,
                                  const Tensor& bias, float epsilon) {
  require_f32(residual, "dropout_add_layer_norm", "residual");
  return forward("dropout_add_layer_norm", x, residual, dropout, gain, bias, epsilon, true);
}

Tensor layer_norm_backward(const Tensor& d_output, const NormResult& forward, const Tensor& gain, const Tensor& d_gain,
                           const Tensor& d_bias) {
  return backward("layer_norm_backward", d_output, forward, {}, gain, d_gain, d_bias).residual;
}

Tensor rms_norm_backward(const Tensor& d_output, const NormResult& forward, const Tensor& gain, const Tensor& d_gain) {
  return backward("rms_norm_backward", d_output, forward, {}, gain, d_gain, {}).residual;
}

DropoutAddGradients dropout_add_layer_norm_backward(const Tensor& d_output, const NormResult& forward,
                                                    const Dropout& dropout, const Tensor& gain, const Tensor& d_gain,
                                                    const Tensor& d_bias) {
  return backward("dropout_add_layer_norm_backward", d_output, forward, dropout, gain, d_gain, d_bias);
}

}  // namespace heed::ops
