#include "attention/schedule/backward_worker.h"

#include <algorithm>

#include "attention/call/group.h"

namespace heed {

void BackwardWorker::enter(int64_t b, int64_t h, int64_t heads) {
  if (b == b_ && h == h_) return;
  b_ = b, h_ = h;
  group = make_group(call_.problem, call_.query, call_.memory, b, h, heads);
  call_.engine->bind(group, operands_, true);
  gradients = {};
  query_rows_.enter(call_.query, b, h);
  output_rows_.enter(call_.result.output, b, h);
  d_output_rows_.enter(call_.d_output, b, h);
  d_query_rows_.leave();
  if (!query_rows_.convert()) {
    gradients.output = strided<const float>(call_.result.output, b, h);
    gradients.d_output = strided<const float>(call_.d_output, b, h);
  }
  gradients.logsumexp = strided<const float>(call_.result.logsumexp, b, h);
  if (scratch_.size() == 0) scratch_ = Buffer<float>(call_.engine->backward_scratch(group));
}

void BackwardWorker::want_query(const Tensor& d_query) {
  d_query_rows_.enter(d_query, b_, h_);
  if (!d_query_rows_.convert()) gradients.d_query = strided<float>(d_query, b_, h_);
}

void BackwardWorker::run(RowRange rows) {
  gradients.prefetch = nullptr;
  run_tile(rows);
}

void BackwardWorker::run(int64_t n, RowRange rows, RowRange next) {
  // A converted gradient is written to a buffer in the cache first.
  gradients.prefetch =
      d_query_rows_.convert() ? nullptr : prefetch.tile(n, gradients.d_query, group.size, group.queries, rows, next);
  run_tile(rows);
}

void BackwardWorker::run_tile(RowRange rows) {
  if (query_rows_.convert()) {
    group.query = query_rows_.as_f32(rows);
    gradients.output = output_rows_.as_f32(rows);
    gradients.d_output = d_output_rows_.as_f32(rows);
  }
  if (d_query_rows_.convert()) gradients.d_query = d_query_rows_.buffer(rows);
  call_.engine->backward(group, operands_, gradients, rows.first, rows.count, scratch_.data());
  if (d_query_rows_.convert() && gradients.parts.last) d_query_rows_.write(rows);
}

GradientRows::GradientRows(const Tensor& gradient, int64_t b, int64_t h, int64_t first, int64_t count, float* sums)
    : result_(static_cast<char*>(gradient.raw()) +
              (b * gradient.stride(0) + h * gradient.stride(1) + first * gradient.stride(2)) *
                  size_of(gradient.dtype())),
      element_(element_of(gradient.dtype())),
      result_row_(gradient.stride(2)),
      count_(count),
      columns_(gradient.size(3)),
      sums_(sums) {}

void GradientRows::clear() const { std::fill_n(sums_, count_ * kernels::padded(columns_), 0.0f); }

void GradientRows::write() const {
  const int64_t row = kernels::padded(columns_);
  const bool half = element_ != kernels::Element::f32;
  float* const to = half ? sums_ : static_cast<float*>(result_);
  kernels::copy_canonical_rows(sums_, row, to, half ? row : result_row_, count_, columns_);
  if (half) kernels::rows_to_half(to, row, count_, columns_, element_, result_, result_row_);
}

}  // namespace heed
