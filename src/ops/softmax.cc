// Softmax, its logarithm and logsumexp.
#include "kernels/rows/softmax.h"

#include "heed/ops.h"
#include "ops/checks.h"

namespace heed::ops {
namespace {

using Forward = void (*)(const float*, float*, int64_t, int64_t);
using Backward = void (*)(const float*, const float*, float*, int64_t, int64_t);

Tensor forward(std::string_view function, Forward kernel, const Tensor& x_tensor) {
  const Tensor x = dense(x_tensor, function, "x");
  Tensor out = Tensor::empty(x.shape());
  if (x.numel() == 0) return out;
  const auto [rows, columns] = rows_of(x, function, "x");
  kernel(x.data<float>(), out.data<float>(), rows, columns);
  return out;
}

Tensor backward(std::string_view function, Backward kernel, const Tensor& d_output, const Tensor& output) {
  const Tensor d = dense(d_output, function, "d_output"), y = dense(output, function, "output");
  require_shape(y, d.shape(), function, "output");
  Tensor out = Tensor::empty(d.shape());
  if (d.numel() == 0) return out;
  const auto [rows, columns] = rows_of(d, function, "d_output");
  kernel(d.data<float>(), y.data<float>(), out.data<float>(), rows, columns);
  return out;
}

}  // namespace

Tensor softmax(const Tensor& x) { return forward("softmax", kernels::softmax, x); }
Tensor softmax_backward(const Tensor& d_output, const Tensor& output) {
  return backward("softmax_backward", kernels::softmax_backward, d_output, output);
}
Tensor log_softmax(const Tensor& x) { return forward("log_softmax", kernels::log_softmax, x); }
Tensor log_softmax_backward(const Tensor& d_output, const Tensor& output) {
  return backward("log_softmax_backward", kernels::log_softmax_backward, d_output, output);
}

Tensor logsumexp(const Tensor& x_tensor) {
  const Tensor x = dense(x_tensor, "logsumexp", "x");
  const auto [rows, columns] = rows_of(x, "logsumexp", "x");
  Tensor out = Tensor::empty(Shape(std::span(x.shape().begin(), x.shape().end() - 1)));
  if (out.numel() > 0) kernels::logsumexp(x.data<float>(), out.data<float>(), rows, columns);
  return out;
}

}  // namespace heed::ops
