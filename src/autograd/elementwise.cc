// Sums, products, activations and dropout, element by element, with their gradients.
#include "autograd/tape.h"
#include "heed/error.h"

namespace heed {

using tape::dense;
using tape::Gradients;
using tape::make;
using tape::recording;

Value operator+(const Value& a, const Value& b) {
  const bool same = a.shape() == b.shape();
  return make(ops::add(a.data(), b.data()), {&a, &b}, [same](const Tensor& d, Gradients& into) {
    if (same && into.wanted(0) && into.wanted(1)) {
      into.share(0, d);
      into.share(1, d);
      return;
    }
    if (same) into.pass(1, d);
    if (!same && into.wanted(1)) ops::add_reduced_into(into.sum(1), d);
    into.pass(0, d);  // last: what is passed on may be written to
  });
}

Value operator-(const Value& a, const Value& b) {
  const bool same = a.shape() == b.shape();
  return make(ops::sub(a.data(), b.data()), {&a, &b}, [same](const Tensor& d, Gradients& into) {
    if (same && into.wanted(1)) into.give(1, ops::scale(d, -1.0f));
    if (!same && into.wanted(1)) ops::add_reduced_into(into.sum(1), d, -1.0f);
    into.pass(0, d);
  });
}

Value operator*(const Value& a, const Value& b) {
  Tensor data = ops::mul(a.data(), b.data());
  if (!recording({&a, &b})) return Value(std::move(data));
  // Each side's gradient needs the other side only.
  const Tensor saved_a = b.requires_grad() ? a.data() : Tensor();
  const Tensor saved_b = a.requires_grad() ? b.data() : Tensor();
  const bool same = a.shape() == b.shape();
  return make(std::move(data), {&a, &b}, [saved_a, saved_b, same](const Tensor& d, Gradients& into) {
    if (into.wanted(0)) into.give(0, ops::mul(d, saved_b));
    if (!into.wanted(1)) return;
    Tensor d_b = ops::mul(d, saved_a);
    if (same) {
      into.give(1, std::move(d_b));
    } else {
      ops::add_reduced_into(into.sum(1), d_b);
    }
  });
}

Value operator*(const Value& a, float factor) {
  return make(ops::scale(a.data(), factor), {&a},
              [factor](const Tensor& d, Gradients& into) { into.give(0, ops::scale(d, factor)); });
}

namespace {

Value activated(const Value& x, Activation activation) {
  const Tensor input = dense(x);
  const Tensor output = ops::activate(input, activation);
  if (!recording({&x})) return Value(output);
  const Tensor saved = activation == Activation::relu ? output : input;
  return make(output, {&x}, [saved, activation](const Tensor& d, Gradients& into) {
    into.give(0, ops::activate_backward(d, saved, activation));
  });
}

Value of_all(const Value& x, double value, float factor) {
  return make(Tensor::full(Shape{}, static_cast<float>(value)), {&x},
              [shape = x.shape(), factor](const Tensor& d, Gradients& into) {
                into.give(0, Tensor::full(shape, factor * *d.data<float>()));
              });
}

}  // namespace

Value relu(const Value& x) { return activated(x, Activation::relu); }
Value gelu(const Value& x) { return activated(x, Activation::gelu); }
Value gelu_tanh(const Value& x) { return activated(x, Activation::gelu_tanh); }
Value silu(const Value& x) { return activated(x, Activation::silu); }
Value tanh(const Value& x) { return activated(x, Activation::tanh); }

Value sum(const Value& x) { return of_all(x, ops::sum(x.data()), 1.0f); }

Value mean(const Value& x) {
  return of_all(x, ops::mean(x.data()), static_cast<float>(1.0 / static_cast<double>(x.data().numel())));
}

Value dropout(const Value& x, float rate) {
  const ops::Dropout drawn = tape::next_dropout(rate);
  if (drawn.rate == 0) return x;
  return make(ops::dropout(dense(x), drawn), {&x},
              [drawn](const Tensor& d, Gradients& into) { into.give(0, ops::dropout_backward(d, drawn)); });
}

Value dropout_add(const Value& x, const Value& residual, float rate) {
  require(x.shape() == residual.shape(), "dropout_add", "equal shapes; found ", x.shape(), " and ", residual.shape());
  const ops::Dropout drawn = tape::next_dropout(rate);
  if (drawn.rate == 0) return residual + x;
  return make(ops::dropout_add(dense(x), dense(residual), drawn), {&x, &residual},
              [drawn](const Tensor& d, Gradients& into) {
                if (into.wanted(0)) into.give(0, ops::dropout_backward(d, drawn));
                into.pass(1, d);
              });
}

}  // namespace heed
