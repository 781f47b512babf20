// Matrix products of tensors, and the gradient of the linear layer.
#include <algorithm>

#include "base/threads.h"
#include "heed/ops.h"
#include "kernels/gemm/gemm.h"
#include "kernels/rows/reduce.h"
#include "ops/checks.h"

namespace heed::ops {
namespace {

thread_local Precision current_precision = Precision::f32;

// A tensor as a batch of matrices.
struct Matrices {
  Tensor tensor;
  int64_t rows, columns, row_stride, column_stride;
  int leading;  // axes of the batch

  Matrices(const Tensor& t, bool transposed, std::string_view name) : tensor(t), leading(t.rank() - 2) {
    require_f32(t, "matmul", name);
    require(t.rank() >= 2, "matmul", name, " with at least two axes; found shape ", t.shape());
    rows = t.size(transposed ? -1 : -2);
    columns = t.size(transposed ? -2 : -1);
    row_stride = t.stride(transposed ? -1 : -2);
    column_stride = t.stride(transposed ? -2 : -1);
  }
  Shape batch() const { return Shape(std::span(tensor.shape().begin(), static_cast<size_t>(leading))); }
  // Where matrix `index` of the batch begins; always the first where there is no batch.
  float* at(int64_t index) const {
    float* p = tensor.data<float>();
    for (int axis = leading - 1; axis >= 0; --axis) {
      p += index % tensor.size(axis) * tensor.stride(axis);
      index /= tensor.size(axis);
    }
    return p;
  }
  // The batch's axes follow each other without gaps, the last of them `inner` apart: one long matrix.
  bool merges(int64_t inner, int64_t inner_extent) const {
    int64_t expected = inner * inner_extent;
    for (int axis = leading - 1; axis >= 0; --axis) {
      if (tensor.size(axis) != 1 && tensor.stride(axis) != expected) return false;
      expected *= tensor.size(axis);
    }
    return true;
  }
};

kernels::Gemm product(const Matrices& a, const Matrices& b, const Matrices& out, bool accumulate) {
  kernels::Gemm g;
  g.m = a.rows, g.n = b.columns, g.k = a.columns;
  g.a = a.at(0), g.a_row = a.row_stride, g.a_column = a.column_stride;
  g.b = b.at(0), g.b_row = b.row_stride, g.b_column = b.column_stride;
  g.c = out.at(0), g.c_row = out.row_stride;
  g.accumulate = accumulate;
  g.bf16 = current_precision == Precision::bf16;
  return g;
}

}  // namespace

std::string_view to_string(Precision precision) { return precision == Precision::bf16 ? "bf16" : "f32"; }

Precision parse_precision(std::string_view name) {
  require(name == "f32" || name == "bf16", "precision", "f32 or bf16; found \"", name, "\"");
  return name == "bf16" ? Precision::bf16 : Precision::f32;
}

MatmulPrecisionScope::MatmulPrecisionScope(Precision precision) : before_(current_precision) {
  current_precision = precision;
}

MatmulPrecisionScope::~MatmulPrecisionScope() { current_precision = before_; }

Precision MatmulPrecisionScope::current() { return current_precision; }

void matmul_into(const Tensor& out_tensor, const Tensor& a_tensor, const Tensor& b_tensor,
                 const MatmulOptions& options) {
  const Matrices a(a_tensor, options.transpose_a, "a"), b(b_tensor, options.transpose_b, "b");
  require_f32(out_tensor, "matmul", "out");
  require(a.columns == b.rows, "matmul", "as many columns of a as rows of b; found ", a.columns, " and ", b.rows);
  const Shape batch = a.batch();
  require(b.leading == 0 || b.batch() == batch, "matmul", "b a matrix, or with a's leading extents ", batch,
          "; found shape ", b_tensor.shape());
  Shape wanted = batch;
  wanted.push_back(a.rows);
  wanted.push_back(b.columns);
  const bool sum = options.accumulate && out_tensor.rank() == 2 && a.leading > 0;  // over the batch
  require_shape(out_tensor, sum ? Shape{a.rows, b.columns} : wanted, "matmul", "out");
  if (out_tensor.numel() == 0) return;
  if (out_tensor.stride(-1) != 1 && out_tensor.size(-1) > 1) {
    const Tensor copy = options.accumulate ? contiguous(out_tensor) : Tensor::empty(out_tensor.shape());
    matmul_into(copy, a_tensor, b_tensor, options);
    copy_into(out_tensor, copy);
    return;
  }
  const Matrices out(out_tensor, false, "out");
  const int64_t count = batch.numel();
  if (count == 0) return;
  kernels::Gemm g = product(a, b, out, options.accumulate);
  if (count == 1) {
    kernels::gemm(g);
    return;
  }
  if (sum) {
    // One chain over the whole batch: the batch's axes continue k.
    if (a.merges(a.column_stride, a.columns) && b.leading > 0 && b.merges(b.row_stride, b.rows)) {
      g.k *= count;
      kernels::gemm(g);
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      g.a = a.at(i), g.b = b.at(i);
      kernels::gemm(g);
    }
    return;
  }
  if (b.leading == 0 && a.merges(a.row_stride, a.rows) && out.merges(out.row_stride, out.rows)) {
    g.m *= count;
    kernels::gemm(g);
    return;
  }
  const int64_t work = g.m * g.n * std::max<int64_t>(1, g.k);
  const auto items = [&](int64_t begin, int64_t end) {
    kernels::Gemm one = g;
    for (int64_t i = begin; i < end; ++i) {
      one.a = a.at(i), one.b = b.at(i), one.c = out.at(i);
      kernels::gemm(one);
    }
  };
  if (work < 4'000'000) {
    parallel_for(count, std::max<int64_t>(1, 250'000 / work), items);
  } else {
    items(0, count);
  }
}

Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  require(!options.accumulate, "matmul", "accumulate only with matmul_into; found it set");
  require(a.rank() >= 2 && b.rank() >= 2, "matmul", "operands with at least two axes; found shapes ", a.shape(),
          " and ", b.shape());
  Shape shape(std::span(a.shape().begin(), static_cast<size_t>(a.rank() - 2)));
  shape.push_back(a.size(options.transpose_a ? -1 : -2));
  shape.push_back(b.size(options.transpose_b ? -2 : -1));
  Tensor out = Tensor::empty(shape);
  matmul_into(out, a, b, options);
  return out;
}

Tensor linear_backward(const Tensor& d_output, const Tensor& x_tensor, const Tensor& weight,
                       const LinearBackwardOptions& options) {
  const Tensor x = dense(x_tensor, "linear_backward", "x");
  Tensor d = dense(d_output, "linear_backward", "d_output");
  require_f32(weight, "linear_backward", "weight");
  const auto [rows, in] = rows_of(x, "linear_backward", "x");
  const auto [d_rows, out] = rows_of(d, "linear_backward", "d_output");
  require(weight.shape() == Shape{out, in}, "linear_backward", "weight of shape ", Shape{out, in}, "; found ",
          weight.shape());
  require(rows == d_rows, "linear_backward", "d_output with the rows of x, ", rows, "; found ", d_rows);
  if (options.activation != Activation::none) d = activate_backward(d, options.saved, options.activation);
  if (options.d_bias.defined()) {
    require_dense(options.d_bias, "linear_backward", "d_bias");
    require_shape(options.d_bias, {out}, "linear_backward", "d_bias");
    kernels::add_column_sums(d.data<float>(), rows, out, out, 1.0f, options.d_bias.data<float>());
  }
  if (options.d_weight.defined()) {
    matmul_into(options.d_weight, d.reshape({rows, out}), x.reshape({rows, in}),
                {.transpose_a = true, .accumulate = true});
  }
  if (!options.want_input) return {};
  Tensor d_x = Tensor::empty(x.shape());
  matmul_into(d_x.reshape({rows, in}), d.reshape({rows, out}), weight);
  return d_x;
}

}  // namespace heed::ops
