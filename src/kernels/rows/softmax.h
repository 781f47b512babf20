// Softmax, its logarithm, logsumexp and the cross entropy over contiguous rows. Threads share the rows.
#pragma once

#include <cstdint>

namespace heed::kernels {

// A row of -inf only gives zeros. out may be x.
void softmax(const float* x, float* out, int64_t rows, int64_t columns);
void softmax_backward(const float* d_output, const float* output, float* out, int64_t rows, int64_t columns);
void log_softmax(const float* x, float* out, int64_t rows, int64_t columns);
void log_softmax_backward(const float* d_output, const float* output, float* out, int64_t rows, int64_t columns);

// out[i] = log sum_j exp(x[i, j]); -inf for a row of -inf only.
void logsumexp(const float* x, float* out, int64_t rows, int64_t columns);

struct CrossEntropy {
  const float* logits;     // (rows, columns)
  const int32_t* targets;  // (rows), each a column or ignored
  int64_t rows, columns;
  int64_t ignored;
  float smoothing;
  float consistency;  // see CrossEntropyOptions
};
void cross_entropy(const CrossEntropy& c, float* losses, float* logsumexp);
// Rows i and i + rows / 2 are a pair: divergences[i] = KL(softmax(row i) || softmax(its other)), 0 for ignored rows.
void divergences(const CrossEntropy& c, const float* logsumexp, float* divergences);
// out = factor * d loss / d logits, row by row; out may be the logits. divergences: only where c.consistency > 0.
void cross_entropy_backward(const CrossEntropy& c, const float* logsumexp, const float* divergences, float factor,
                            float* out);

}  // namespace heed::kernels
