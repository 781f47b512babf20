// Softmax, its logarithm, and the cross entropy.
#include "kernels/softmax.h"

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

kernels::CrossEntropy arguments(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  const auto [rows, columns] = rows_of(logits, "cross_entropy", "logits");
  require(options.label_smoothing >= 0.0f && options.label_smoothing < 1.0f, "cross_entropy",
          "a label smoothing in [0, 1); found ", options.label_smoothing);
  require(targets.defined() && targets.dtype() == DType::i32, "cross_entropy", "targets of i32");
  require(targets.numel() == rows, "cross_entropy", "a target for each of ", rows, " rows of logits; found ",
          targets.numel());
  const auto* const ids = targets.data<int32_t>();
  for (int64_t i = 0; i < rows; ++i) {
    require(ids[i] == options.ignored_id || (ids[i] >= 0 && ids[i] < columns), "cross_entropy", "targets in [0, ",
            columns, ") or the ignored id ", options.ignored_id, "; found ", ids[i], " at row ", i);
  }
  return {logits.data<float>(), ids, rows, columns, options.ignored_id, options.label_smoothing};
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

CrossEntropyResult cross_entropy(const Tensor& logits_tensor, const Tensor& targets_tensor,
                                 const CrossEntropyOptions& options) {
  const Tensor logits = dense(logits_tensor, "cross_entropy", "logits");
  const Tensor targets = targets_tensor.contiguous();
  const kernels::CrossEntropy c = arguments(logits, targets, options);
  CrossEntropyResult result;
  result.losses = Tensor::empty({c.rows});
  result.logsumexp = Tensor::empty({c.rows});
  kernels::cross_entropy(c, result.losses.data<float>(), result.logsumexp.data<float>());
  const float* const losses = result.losses.data<float>();
  for (int64_t i = 0; i < c.rows; ++i) {
    if (c.targets[i] == c.ignored) continue;
    result.sum += static_cast<double>(losses[i]);
    ++result.count;
  }
  return result;
}

void cross_entropy_backward_into(const Tensor& d_logits, const Tensor& logits_tensor, const Tensor& targets_tensor,
                                 const CrossEntropyResult& forward, float factor, const CrossEntropyOptions& options) {
  const Tensor logits = dense(logits_tensor, "cross_entropy_backward", "logits");
  const Tensor targets = targets_tensor.contiguous();
  require_dense(d_logits, "cross_entropy_backward", "d_logits");
  require_shape(d_logits, logits.shape(), "cross_entropy_backward", "d_logits");
  const kernels::CrossEntropy c = arguments(logits, targets, options);
  require_dense(forward.logsumexp, "cross_entropy_backward", "the forward logsumexp");
  require_shape(forward.logsumexp, {c.rows}, "cross_entropy_backward", "the forward logsumexp");
  const int64_t divisor = options.sum || forward.count == 0 ? 1 : forward.count;
  kernels::cross_entropy_backward(c, forward.logsumexp.data<float>(), factor / static_cast<float>(divisor),
                                  d_logits.data<float>());
}

Tensor cross_entropy_backward(const Tensor& logits, const Tensor& targets, const CrossEntropyResult& forward,
                              float factor, const CrossEntropyOptions& options) {
  Tensor d_logits = Tensor::empty(logits.shape());
  cross_entropy_backward_into(d_logits, logits, targets, forward, factor, options);
  return d_logits;
}

}  // namespace heed::ops
