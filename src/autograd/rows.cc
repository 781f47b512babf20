// Functions of rows with their gradients: norms, softmax, cross entropy.
#include "autograd/tape.h"
#include "heed/error.h"

namespace heed {

using tape::dense;
using tape::Gradients;
using tape::make;
using tape::recording;

namespace {

Tensor data_or_none(const Value& value) { return value.defined() ? value.data() : Tensor(); }

}  // namespace

Value layer_norm(const Value& x, const Value& gain, const Value& bias, float epsilon) {
  ops::NormResult forward = ops::layer_norm(dense(x), gain.data(), data_or_none(bias), epsilon);
  Tensor output = std::exchange(forward.output, {});  // its gradient does not read it
  if (!recording({&x, &gain, &bias})) return Value(std::move(output));
  return make(std::move(output), {&x, &gain, &bias},
              [forward = std::move(forward), gain = gain.data()](const Tensor& d, Gradients& into) {
                into.give(0, ops::layer_norm_backward(d, forward, gain, into.sum(1), into.sum(2)));
              });
}

Value rms_norm(const Value& x, const Value& gain, float epsilon) {
  ops::NormResult forward = ops::rms_norm(dense(x), gain.data(), epsilon);
  Tensor output = std::exchange(forward.output, {});
  if (!recording({&x, &gain})) return Value(std::move(output));
  return make(std::move(output), {&x, &gain},
              [forward = std::move(forward), gain = gain.data()](const Tensor& d, Gradients& into) {
                into.give(0, ops::rms_norm_backward(d, forward, gain, into.sum(1)));
              });
}

Value dropout_add_layer_norm(const Value& x, const Value& residual, float rate, const Value& gain, const Value& bias,
                             float epsilon) {
  require(x.shape() == residual.shape(), "dropout_add_layer_norm", "equal shapes; found ", x.shape(), " and ",
          residual.shape());
  const ops::Dropout drawn = tape::next_dropout(rate);
  ops::NormResult forward =
      ops::dropout_add_layer_norm(dense(x), dense(residual), drawn, gain.data(), data_or_none(bias), epsilon);
  Tensor output = std::exchange(forward.output, {});
  if (!recording({&x, &residual, &gain, &bias})) return Value(std::move(output));
  return make(std::move(output), {&x, &residual, &gain, &bias},
              [forward = std::move(forward), drawn, gain = gain.data()](const Tensor& d, Gradients& into) {
                ops::DropoutAddGradients gradients =
                    ops::dropout_add_layer_norm_backward(d, forward, drawn, gain, into.sum(2), into.sum(3));
                if (drawn.rate == 0) {  // one tensor for both
                  into.share(0, std::move(gradients.x));
                  into.share(1, std::move(gradients.residual));
                } else {
                  into.give(0, std::move(gradients.x));
                  into.give(1, std::move(gradients.residual));
                }
              });
}

Value rotary_embedding(const Value& x, const Tensor& cos, const Tensor& sin, bool interleaved) {
  return make(ops::rotary_embedding(x.data(), cos, sin, interleaved), {&x},
              [cos, sin, interleaved](const Tensor& d, Gradients& into) {
                into.give(0, ops::rotary_embedding_backward(d, cos, sin, interleaved));
              });
}

Value softmax(const Value& x) {
  const Tensor output = ops::softmax(dense(x));
  return make(output, {&x},
              [output](const Tensor& d, Gradients& into) { into.give(0, ops::softmax_backward(d, output)); });
}

Value log_softmax(const Value& x) {
  const Tensor output = ops::log_softmax(dense(x));
  return make(output, {&x},
              [output](const Tensor& d, Gradients& into) { into.give(0, ops::log_softmax_backward(d, output)); });
}

Value cross_entropy(const Value& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  const Tensor saved = dense(logits);
  ops::CrossEntropyResult forward = ops::cross_entropy(saved, targets, options);
  Tensor loss = Tensor::full(Shape{}, static_cast<float>(forward.loss(options)));
  if (!recording({&logits})) return Value(std::move(loss));
  // The logits' memory is not written over: others may hold it (a caller who counts hits, a reshaped view).
  return make(std::move(loss), {&logits},
              [saved, targets, forward = std::move(forward), options](const Tensor& d, Gradients& into) {
                into.give(0, ops::cross_entropy_backward(saved, targets, forward, *d.data<float>(), options));
              });
}

Value linear_cross_entropy(const Value& x, const Value& weight, const Value& bias, const Tensor& targets,
                           const CrossEntropyOptions& options) {
  const bool recorded = recording({&x, &weight, &bias});
  ops::LinearCrossEntropyResult forward =
      ops::linear_cross_entropy(dense(x), weight.data(), data_or_none(bias), targets,
                                {.loss = options,
                                 .want_input = recorded && x.requires_grad(),
                                 .want_weight = recorded && weight.requires_grad(),
                                 .want_bias = recorded && bias.requires_grad()});
  Tensor loss = Tensor::full(Shape{}, static_cast<float>(forward.loss));
  if (!recorded) return Value(std::move(loss));
  // The gradients are known already, but for the factor that arrives with the backward pass.
  return make(std::move(loss), {&x, &weight, &bias}, [forward = std::move(forward)](const Tensor& d, Gradients& into) {
    const float factor = *d.data<float>();
    const Tensor gradients[] = {forward.d_x, forward.d_weight, forward.d_bias};
    for (size_t i = 0; i < 3; ++i) {
      if (!gradients[i].defined()) continue;
      ops::scale_into(gradients[i], factor);
      into.give(i, gradients[i]);
    }
  });
}

}  // namespace heed
