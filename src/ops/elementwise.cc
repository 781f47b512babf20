// Elementwise operations, activations and dropout.
#include "kernels/rows/elementwise.h"
#include "heed/ops.h"
#include "kernels/rows/copy.h"
#include "kernels/rows/reduce.h"
#include "ops/checks.h"

namespace heed {

std::string_view to_string(Activation activation) {
  switch (activation) {
    case Activation::none: return "none";
    case Activation::relu: return "relu";
    case Activation::gelu: return "gelu";
    case Activation::gelu_tanh: return "gelu_tanh";
    case Activation::silu: return "silu";
    case Activation::tanh: return "tanh";
  }
  return "unknown";
}

}  // namespace heed

namespace heed::ops {
namespace {

void require_suffix(const Shape& whole, const Shape& suffix, std::string_view function) {
  bool ok = suffix.rank() <= whole.rank();
  for (int i = 1; ok && i <= suffix.rank(); ++i) ok = whole[whole.rank() - i] == suffix[suffix.rank() - i];
  require(ok, function, "one shape, or the second a suffix of the first; found ", whole, " and ", suffix);
}

Tensor binary(kernels::Binary op, std::string_view function, const Tensor& a_tensor, const Tensor& b_tensor) {
  const Tensor a = dense(a_tensor, function, "the first operand"), b = dense(b_tensor, function, "the second operand");
  require_suffix(a.shape(), b.shape(), function);
  Tensor out = Tensor::empty(a.shape());
  if (out.numel() == 0) return out;
  kernels::binary(op, a.data<float>(), b.data<float>(), out.data<float>(), a.numel() / b.numel(), b.numel());
  return out;
}

kernels::StridedCopy strided_pair(const Tensor& out, const Tensor& x, std::string_view function) {
  require_f32(out, function, "out");
  require_f32(x, function, "x");
  require_shape(x, out.shape(), function, "x");
  kernels::StridedCopy s;
  s.rank = out.rank();
  for (int axis = 0; axis < s.rank; ++axis) {
    const auto i = static_cast<size_t>(axis);
    s.extents[i] = out.size(axis);
    s.out_strides[i] = out.stride(axis);
    s.x_strides[i] = x.stride(axis);
  }
  s.out = out.data<float>();
  s.x = x.data<float>();
  return s;
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) { return binary(kernels::Binary::add, "add", a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return binary(kernels::Binary::sub, "sub", a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return binary(kernels::Binary::mul, "mul", a, b); }

Tensor scale(const Tensor& x_tensor, float factor) {
  const Tensor x = dense(x_tensor, "scale", "x");
  Tensor out = Tensor::empty(x.shape());
  kernels::scale(x.data<float>(), factor, out.data<float>(), x.numel());
  return out;
}

void scale_into(const Tensor& x, float factor) {
  require_dense(x, "scale", "x");
  kernels::scale(x.data<float>(), factor, x.data<float>(), x.numel());
}

void add_into(const Tensor& out, const Tensor& x) { axpy_into(out, 1.0f, x); }

void axpy_into(const Tensor& out, float factor, const Tensor& x) {
  kernels::StridedCopy s = strided_pair(out, x, "axpy");
  s.accumulate = true;
  s.factor = factor;
  kernels::strided_copy(s);
}

void copy_into(const Tensor& out, const Tensor& x) { kernels::strided_copy(strided_pair(out, x, "copy")); }

void add_reduced_into(const Tensor& out, const Tensor& x_tensor, float factor) {
  require_dense(out, "add_reduced", "out");
  const Tensor x = dense(x_tensor, "add_reduced", "x");
  require_suffix(x.shape(), out.shape(), "add_reduced");
  if (x.numel() == 0) return;
  const int64_t columns = out.numel();
  kernels::add_column_sums(x.data<float>(), x.numel() / columns, columns, columns, factor, out.data<float>());
}

Tensor activate(const Tensor& x_tensor, Activation activation) {
  const Tensor x = dense(x_tensor, "activate", "x");
  if (activation == Activation::none) return x;
  Tensor out = Tensor::empty(x.shape());
  kernels::activate(x.data<float>(), out.data<float>(), x.numel(), activation);
  return out;
}

Tensor activate_backward(const Tensor& d_output, const Tensor& saved_tensor, Activation activation) {
  const Tensor d = dense(d_output, "activate_backward", "d_output");
  if (activation == Activation::none) return d;
  const Tensor saved = dense(saved_tensor, "activate_backward", "what the forward function saved");
  require_shape(saved, d.shape(), "activate_backward", "what the forward function saved");
  Tensor out = Tensor::empty(d.shape());
  kernels::activate_backward(d.data<float>(), saved.data<float>(), out.data<float>(), d.numel(), activation);
  return out;
}

Tensor dropout(const Tensor& x_tensor, const Dropout& dropout) {
  require_rate(dropout, "dropout");
  if (dropout.rate == 0.0f) return x_tensor;
  const Tensor x = dense(x_tensor, "dropout", "x");
  Tensor out = Tensor::empty(x.shape());
  kernels::dropout(x.data<float>(), nullptr, out.data<float>(), x.numel(), dropout);
  return out;
}

Tensor dropout_backward(const Tensor& d_output, const Dropout& dropout) { return ops::dropout(d_output, dropout); }

Tensor dropout_add(const Tensor& x_tensor, const Tensor& residual_tensor, const Dropout& dropout) {
  require_rate(dropout, "dropout_add");
  if (dropout.rate == 0.0f) return add(residual_tensor, x_tensor);
  const Tensor x = dense(x_tensor, "dropout_add", "x"), residual = dense(residual_tensor, "dropout_add", "residual");
  require_shape(residual, x.shape(), "dropout_add", "residual");
  Tensor out = Tensor::empty(x.shape());
  kernels::dropout(x.data<float>(), residual.data<float>(), out.data<float>(), x.numel(), dropout);
  return out;
}

bool dropout_keeps(const Dropout& dropout, int64_t index) { return kernels::dropout_keeps(dropout, index); }

}  // namespace heed::ops
