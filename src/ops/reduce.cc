// Sums, norms, and the update of Adam.
#include "kernels/rows/reduce.h"

#include <cmath>

#include "heed/ops.h"
#include "kernels/rows/elementwise.h"
#include "ops/checks.h"

namespace heed::ops {

double sum(const Tensor& x_tensor) {
  const Tensor x = dense(x_tensor, "sum", "x");
  return kernels::sum(x.data<float>(), x.numel());
}

double mean(const Tensor& x) { return sum(x) / static_cast<double>(x.numel()); }

int64_t norm_block() { return kernels::kSumBlock; }

std::vector<double> block_squares(const Tensor& x) {
  require_dense(x, "block_squares", "x");
  std::vector<double> sums(static_cast<size_t>((x.numel() + kernels::kSumBlock - 1) / kernels::kSumBlock));
  if (!sums.empty()) kernels::block_sums_of_squares(x.data<float>(), x.numel(), sums.data());
  return sums;
}

double norm(std::span<const Tensor> tensors) {
  double squares = 0;
  for (const Tensor& tensor : tensors) {
    const Tensor x = dense(tensor, "norm", "a tensor");
    squares += kernels::sum_of_squares(x.data<float>(), x.numel());
  }
  return std::sqrt(squares);
}

void adam_step(const Tensor& parameter, const Tensor& gradient, const Tensor& first, const Tensor& second,
               const AdamStepOptions& options) {
  require_dense(parameter, "adam_step", "parameter");
  for (const Tensor* tensor : {&gradient, &first, &second}) {
    require_dense(*tensor, "adam_step", "gradient and moments");
    require_shape(*tensor, parameter.shape(), "adam_step", "gradient and moments");
  }
  require(options.step >= 1, "adam_step", "a step from 1; found ", options.step);
  kernels::adam(
      {parameter.data<float>(), gradient.data<float>(), first.data<float>(), second.data<float>(), parameter.numel()},
      options);
}

}  // namespace heed::ops
