// What one thread needs for the backward pass, and the memory in which gradients of keys and values are added up.
#pragma once

#include "attention/schedule/half_rows.h"
#include "attention/schedule/tile_prefetch.h"

namespace heed {

class BackwardWorker {
 public:
  explicit BackwardWorker(const BackwardCall& call) : call_(call) {}

  // Moves to `heads` query heads of sequence b from head h on.
  void enter(int64_t b, int64_t h, int64_t heads);
  // Also computes the gradient of the group's queries.
  void want_query(const Tensor& d_query);
  void run(RowRange rows);
  // The n-th of a group's tiles to run, and the rows of the one after it.
  void run(int64_t n, RowRange rows, RowRange next);

  kernels::AttentionGroup group;
  kernels::TileGradients gradients;
  TilePrefetch prefetch;
  Buffer<float> d_scores;

 private:
  void run_tile(RowRange rows);

  const BackwardCall& call_;
  int64_t b_ = -1, h_ = -1;
  kernels::Operands operands_;
  HalfRows query_rows_, output_rows_, d_output_rows_, d_query_rows_;
  Buffer<float> scratch_;
};

// Rows [first, first + count) of a gradient (S, columns) while they are added up in `sums`, in padded rows of f32.
class GradientRows {
 public:
  // Of head h of sequence b of `gradient`.
  GradientRows(const Tensor& gradient, int64_t b, int64_t h, int64_t first, int64_t count, float* sums);
  void clear() const;
  void write() const;  // copies the sums, in canonical form and rounded, to where they belong

 private:
  void* result_;
  kernels::Element element_;
  int64_t result_row_, count_, columns_;
  float* sums_;
};

// Memory for the gradients of the keys and values of some groups while they are added up.
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
