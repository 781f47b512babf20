// The cross entropy, of logits and of a linear layer whose logits never exist as a whole.
#include <algorithm>
#include <cmath>
#include <vector>

#include "heed/ops.h"
#include "kernels/gemm/gemm.h"
#include "kernels/rows/reduce.h"
#include "kernels/rows/softmax.h"
#include "ops/checks.h"

namespace heed::ops {
namespace {

// The targets of `rows` rows of logits, each checked.
const int32_t* checked_targets(std::string_view function, const Tensor& targets, int64_t rows, int64_t columns,
                               const CrossEntropyOptions& options) {
  require(options.label_smoothing >= 0.0f && options.label_smoothing < 1.0f, function,
          "a label smoothing in [0, 1); found ", options.label_smoothing);
  require(targets.defined() && targets.dtype() == DType::i32, function, "targets of i32");
  require(targets.numel() == rows, function, "a target for each of ", rows, " rows; found ", targets.numel());
  const auto* const ids = targets.data<int32_t>();
  for (int64_t i = 0; i < rows; ++i) {
    require(ids[i] == options.ignored_id || (ids[i] >= 0 && ids[i] < columns), function, "targets in [0, ", columns,
            ") or the ignored id ", options.ignored_id, "; found ", ids[i], " at row ", i);
  }
  require(options.consistency >= 0.0f && std::isfinite(options.consistency), function,
          "a consistency of 0 or more; found ", options.consistency);
  if (options.consistency > 0.0f) {
    require(rows % 2 == 0, function, "an even number of rows, as consistency is not 0; found ", rows);
    const auto [first, second] = std::mismatch(ids, ids + rows / 2, ids + rows / 2);
    require(first == ids + rows / 2, function, "the same target in both rows of a pair; found ", *first, " at row ",
            first - ids, " and ", *second, " at row ", second - ids);
  }
  return ids;
}

kernels::CrossEntropy arguments(std::string_view function, const Tensor& logits, const Tensor& targets,
                                const CrossEntropyOptions& options) {
  const auto [rows, columns] = rows_of(logits, function, "logits");
  const int32_t* const ids = checked_targets(function, targets, rows, columns, options);
  return {logits.data<float>(), ids, rows, columns, options.ignored_id, options.label_smoothing, options.consistency};
}

// Logits at a time, in floats: rows enough for the products to be worth packing the weight for each part. Measured with
// 9,712 columns on a Cascade Lake: 32 MB at a time take as long as all rows at once, 8 MB 12 % longer.
constexpr int64_t kLogits = 8 << 20;
constexpr int64_t kLeastRows = 192;

// The rows of x whose target counts, and their targets, in the order in which parts of `part` rows take them: one after
// another, or, as pairs, some of the first half and then those of the second half that belong to them.
struct Counted {
  std::vector<int64_t> rows;
  bool all_in_order;
  Tensor x;        // (n, E)
  Tensor targets;  // (n) i32

  Counted(const Tensor& all, const int32_t* ids, int64_t ignored, int64_t part, bool pairs) {
    const int64_t count = all.size(0), width = all.size(1);
    for (int64_t i = 0; i < count; ++i) {
      if (ids[i] != ignored) rows.push_back(i);
    }
    all_in_order = size() == count && !pairs;
    if (pairs) {
      const std::vector<int64_t> in_order = rows;
      const int64_t half = size() / 2, step = part / 2;
      rows.clear();
      for (int64_t first = 0; first < half; first += step) {
        for (const int64_t begin : {first, half + first}) {
          const auto from = in_order.begin() + begin;
          rows.insert(rows.end(), from, from + std::min(step, half - first));
        }
      }
    }
    targets = Tensor::empty({size()}, DType::i32);
    for (int64_t n = 0; n < size(); ++n) targets.data<int32_t>()[n] = ids[rows[static_cast<size_t>(n)]];
    if (all_in_order) {
      x = all;
      return;
    }
    x = Tensor::empty({size(), width});
    for (int64_t n = 0; n < size(); ++n) {
      std::copy_n(all.data<float>() + rows[static_cast<size_t>(n)] * width, width, x.data<float>() + n * width);
    }
  }
  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(rows.size()); }
};

// Gradients of the counted rows, each where its row stood; zeros elsewhere.
Tensor spread(const Tensor& d_counted, const Counted& counted, const Shape& shape) {
  if (counted.all_in_order) return d_counted.reshape(shape);
  Tensor d_x = Tensor::zeros(shape);
  const int64_t width = d_counted.size(1);
  for (int64_t n = 0; n < counted.size(); ++n) {
    std::copy_n(d_counted.data<float>() + n * width, width,
                d_x.data<float>() + counted.rows[static_cast<size_t>(n)] * width);
  }
  return d_x;
}

}  // namespace

CrossEntropyResult cross_entropy(const Tensor& logits_tensor, const Tensor& targets_tensor,
                                 const CrossEntropyOptions& options) {
  const Tensor logits = dense(logits_tensor, "cross_entropy", "logits");
  const Tensor targets = targets_tensor.contiguous();
  const kernels::CrossEntropy c = arguments("cross_entropy", logits, targets, options);
  CrossEntropyResult result;
  result.losses = Tensor::empty({c.rows});
  result.logsumexp = Tensor::empty({c.rows});
  kernels::cross_entropy(c, result.losses.data<float>(), result.logsumexp.data<float>());
  float* const losses = result.losses.data<float>();
  if (c.consistency > 0.0f) {
    result.divergences = Tensor::empty({c.rows});
    float* const divergences = result.divergences.data<float>();
    kernels::divergences(c, result.logsumexp.data<float>(), divergences);
    for (int64_t i = 0; i < c.rows; ++i) losses[i] += 0.5f * c.consistency * divergences[i];
  }
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
  const kernels::CrossEntropy c = arguments("cross_entropy_backward", logits, targets, options);
  require_dense(forward.logsumexp, "cross_entropy_backward", "the forward logsumexp");
  require_shape(forward.logsumexp, {c.rows}, "cross_entropy_backward", "the forward logsumexp");
  const float* divergences = nullptr;
  if (c.consistency > 0.0f) {
    require_dense(forward.divergences, "cross_entropy_backward", "the forward divergences");
    require_shape(forward.divergences, {c.rows}, "cross_entropy_backward", "the forward divergences");
    divergences = forward.divergences.data<float>();
  }
  const int64_t divisor = options.sum || forward.count == 0 ? 1 : forward.count;
  kernels::cross_entropy_backward(c, forward.logsumexp.data<float>(), divergences, factor / static_cast<float>(divisor),
                                  d_logits.data<float>());
}

Tensor cross_entropy_backward(const Tensor& logits, const Tensor& targets, const CrossEntropyResult& forward,
                              float factor, const CrossEntropyOptions& options) {
  Tensor d_logits = Tensor::empty(logits.shape());
  cross_entropy_backward_into(d_logits, logits, targets, forward, factor, options);
  return d_logits;
}

LinearCrossEntropyResult linear_cross_entropy(const Tensor& x_tensor, const Tensor& weight_tensor,
                                              const Tensor& bias_tensor, const Tensor& targets_tensor,
                                              const LinearCrossEntropyOptions& options) {
  constexpr std::string_view kName = "linear_cross_entropy";
  const Tensor x = dense(x_tensor, kName, "x"), weight = dense(weight_tensor, kName, "weight");
  require(weight.rank() == 2, kName, "weight of shape (V, E); found ", weight.shape());
  const auto [rows, width] = rows_of(x, kName, "x");
  const int64_t columns = weight.size(0);
  require(width == weight.size(1), kName, "x with a last axis of ", weight.size(1), "; found ", x.shape());
  Tensor bias;
  if (bias_tensor.defined()) {
    bias = dense(bias_tensor, kName, "bias");
    require_shape(bias, {columns}, kName, "bias");
  }
  const Tensor targets = targets_tensor.contiguous();
  const int32_t* const ids = checked_targets(kName, targets, rows, columns, options.loss);

  const int64_t most = std::max(kLeastRows, kLogits / columns / 2 * 2);
  const Counted counted(x.reshape({rows, width}), ids, options.loss.ignored_id, most, options.loss.consistency > 0.0f);
  const bool gradients = options.want_input || options.want_weight || options.want_bias;
  const float factor = options.loss.sum ? 1.0f : 1.0f / static_cast<float>(std::max<int64_t>(counted.size(), 1));
  LinearCrossEntropyResult result;
  Tensor d_counted;
  if (options.want_input) d_counted = Tensor::empty({counted.size(), width});
  if (options.want_weight) result.d_weight = Tensor::zeros(weight.shape());
  if (options.want_bias) result.d_bias = Tensor::zeros({columns});

  const Tensor room = Tensor::empty({std::min(most, counted.size()), columns});
  std::vector<float> losses(static_cast<size_t>(rows));
  for (int64_t begin = 0; begin < counted.size(); begin += most) {
    const int64_t end = std::min(begin + most, counted.size());
    const Tensor logits = room.slice(0, 0, end - begin), states = counted.x.slice(0, begin, end);
    kernels::Gemm g;
    g.m = end - begin, g.n = columns, g.k = width;
    g.a = states.data<float>(), g.a_row = width;
    g.b = weight.data<float>(), g.b_row = 1, g.b_column = width;
    g.c = logits.data<float>(), g.c_row = columns;
    g.bias = bias.defined() ? bias.data<float>() : nullptr;
    g.bf16 = MatmulPrecisionScope::current() == Precision::bf16;
    kernels::gemm(g);
    const Tensor part_targets = counted.targets.slice(0, begin, end);
    const CrossEntropyResult part = cross_entropy(logits, part_targets, options.loss);
    for (int64_t n = begin; n < end; ++n) {
      losses[static_cast<size_t>(counted.rows[static_cast<size_t>(n)])] = part.losses.data<float>()[n - begin];
    }
    if (!gradients) continue;
    CrossEntropyOptions sum = options.loss;
    sum.sum = true;
    cross_entropy_backward_into(logits, logits, part_targets, part, factor, sum);
    if (options.want_bias) {
      kernels::add_column_sums(logits.data<float>(), end - begin, columns, columns, 1.0f, result.d_bias.data<float>());
    }
    if (options.want_weight) matmul_into(result.d_weight, logits, states, {.transpose_a = true, .accumulate = true});
    if (options.want_input) matmul_into(d_counted.slice(0, begin, end), logits, weight);
  }
  for (const float loss : losses) result.loss += static_cast<double>(loss);
  if (!options.loss.sum && counted.size() > 0) result.loss /= static_cast<double>(counted.size());
  if (options.want_input) result.d_x = spread(d_counted, counted, x.shape());
  return result;
}

}  // namespace heed::ops
