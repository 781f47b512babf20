// One pass over contiguous f32 arrays. Threads share the elements; each element is computed alone.
#pragma once

#include <cstdint>

#include "heed/ops_options.h"

namespace heed::kernels {

enum class Binary { add, sub, mul };

// out[i * inner + j] = a[i * inner + j] op b[j].
void binary(Binary op, const float* a, const float* b, float* out, int64_t outer, int64_t inner);
void scale(const float* x, float factor, float* out, int64_t count);  // out may be x
void axpy(float* out, float factor, const float* x, int64_t count);   // out += factor * x, fused
void activate(const float* x, float* out, int64_t count, Activation activation);
void activate_backward(const float* d_output, const float* saved, float* out, int64_t count, Activation activation);
// out = dropout(x) (+ residual, where it is not null).
void dropout(const float* x, const float* residual, float* out, int64_t count, const ops::Dropout& dropout);

// Where element i's random word comes from: 64 elements a block, word r / 16 of counter 16 * block + r % 16, so that
// sixteen counters side by side in vectors give sixty-four elements in order.
[[nodiscard]] bool dropout_keeps(const ops::Dropout& dropout, int64_t index);

struct AdamArrays {
  float* parameter;
  float* gradient;
  float* first;
  float* second;
  int64_t count;
};
void adam(const AdamArrays& arrays, const ops::AdamStepOptions& options);

}  // namespace heed::kernels
