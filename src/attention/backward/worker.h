// What a thread needs for the backward pass, and the memory in which gradients of keys and values are added up.
#pragma once

#include <algorithm>

#include "attention/schedule/group.h"
#include "attention/call/call.h"

namespace heed {

// All that one thread needs; groups are made as it comes to them.
class BackwardWorker {
 public:
  explicit BackwardWorker(const BackwardCall& call) : call_(call), memory_{call.key, call.value} {}

  // Moves to `heads` query heads of sequence b from head h on.
  void enter(int64_t b, int64_t h, int64_t heads) {
    if (b == b_ && h == h_) return;
    b_ = b, h_ = h;
    group = make_group(call_.problem, call_.query, memory_, b, h, heads);
    if (call_.pairs != nullptr) {
      paired_.load(*call_.pairs, group, true);
    } else {
      dense_.load(group);
    }
    gradients = {};
    query_rows_.enter(call_.query, b, h);
    output_rows_.enter(call_.forward.output, b, h);
    d_output_rows_.enter(call_.d_output, b, h);
    d_query_rows_.leave();
    if (!query_rows_.narrow()) {
      gradients.output = strided<const float>(call_.forward.output, b, h);
      gradients.d_output = strided<const float>(call_.d_output, b, h);
    }
    gradients.logsumexp = strided<const float>(call_.forward.logsumexp, b, h);
    if (scratch_.size() != 0) return;
    scratch_ = Buffer<float>(call_.pairs != nullptr ? kernels::attention_pairs_backward_scratch(group)
                                                    : kernels::attention_backward_scratch(group));
  }

  // Also the gradient of the group's queries.
  void want_query(const Tensor& d_query) {
    d_query_rows_.enter(d_query, b_, h_);
    if (!d_query_rows_.narrow()) gradients.d_query = strided<float>(d_query, b_, h_);
  }

  void run(RowTiles::Rows rows) {
    gradients.ahead = nullptr;
    run_tile(rows);
  }

  // The n-th of a group's tiles to run, and the one after it.
  void run(int64_t n, RowTiles::Rows rows, RowTiles::Rows next) {
    const bool outside = !d_query_rows_.narrow();  // else a tile writes memory of its own, in the cache
    gradients.ahead = outside ? ahead.tile(n, gradients.d_query, group.size, group.queries, rows, next) : nullptr;
    run_tile(rows);
  }

  kernels::AttentionGroup group;
  kernels::AttentionBackward gradients;
  TilesAhead ahead;
  Buffer<float> d_scores;

 private:
  void run_tile(RowTiles::Rows rows) {
    if (query_rows_.narrow()) {
      group.query = query_rows_.widened(rows);
      gradients.output = output_rows_.widened(rows);
      gradients.d_output = d_output_rows_.widened(rows);
    }
    if (d_query_rows_.narrow()) gradients.d_query = d_query_rows_.room(rows);
    if (call_.pairs != nullptr) {
      call_.pairs->backward_tile(group, paired_.packed(), gradients, rows.first, rows.count, scratch_.data());
    } else {
      kernels::attention_backward_tile(group, gradients, rows.first, rows.count, scratch_.data());
    }
    if (d_query_rows_.narrow()) d_query_rows_.write(rows);
  }

  const BackwardCall& call_;
  const KeyValues memory_;
  int64_t b_ = -1, h_ = -1;
  DenseKeys dense_;
  PairedKeys paired_;
  TileRows query_rows_, output_rows_, d_output_rows_, d_query_rows_;
  Buffer<float> scratch_;
};

// Rows [first, first + count) of a gradient (S, columns) while they are added up in `sums`, rows of whole vectors.
class GradientRows {
 public:
  // Of head h of sequence b of `gradient`.
  GradientRows(const Tensor& gradient, int64_t b, int64_t h, int64_t first, int64_t count, float* sums)
      : result_(static_cast<char*>(gradient.raw()) +
                (b * gradient.stride(0) + h * gradient.stride(1) + first * gradient.stride(2)) *
                    size_of(gradient.dtype())),
        element_(element_of(gradient.dtype())),
        result_row_(gradient.stride(2)),
        count_(count),
        columns_(gradient.size(3)),
        sums_(sums) {}
  void clear() const { std::fill_n(sums_, count_ * kernels::padded(columns_), 0.0f); }
  // From `sums` to where they belong.
  void write() const {
    const int64_t row = kernels::padded(columns_);
    const bool narrow = element_ != kernels::Element::f32;
    float* const to = narrow ? sums_ : static_cast<float*>(result_);
    kernels::attention_copy_rows(sums_, row, to, narrow ? row : result_row_, count_, columns_);
    if (narrow) kernels::attention_narrow_rows(to, row, count_, columns_, element_, result_, result_row_);
  }

 private:
  void* result_;
  kernels::Element element_;
  int64_t result_row_, count_, columns_;
  float* sums_;
};

// Memory for the gradients of a group's keys and values while they are added up.
struct GradientSums {
  int64_t key_row, value_row;
  Buffer<float> key, value;
  GradientSums(const AttentionProblem& problem, int64_t groups)
      : key_row(kernels::padded(problem.size)),
        value_row(kernels::padded(problem.value_size)),
        key(groups * problem.keys * key_row),
        value(groups * problem.keys * value_row) {}
};

}  // namespace heed
