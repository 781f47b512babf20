// Layer normalisation and its relatives over contiguous rows, forward and backward.
#pragma once

#include <cstdint>

#include "heed/ops_options.h"

namespace heed::kernels {

struct NormForward {
  int64_t rows = 0, columns = 0;
  const float* x = nullptr;
  const float* residual = nullptr;  // null: x alone is normalised
  ops::Dropout dropout = {};        // of x, before the residual is added
  const float* gain = nullptr;
  const float* bias = nullptr;  // null: none
  float epsilon = 1e-5f;
  bool centre = true;     // false: rms_norm
  float* sum = nullptr;   // residual + dropout(x); with a residual only
  float* mean = nullptr;  // (rows); with `centre` only
  float* rstd = nullptr;  // (rows)
  float* output = nullptr;
};
void norm_forward(const NormForward& n);

struct NormBackward {
  int64_t rows = 0, columns = 0;
  const float* d_output = nullptr;
  const float* input = nullptr;  // what was normalised
  const float* mean = nullptr;   // null: rms_norm
  const float* rstd = nullptr;
  const float* gain = nullptr;
  float* d_gain = nullptr;     // added into; null: not wanted
  float* d_bias = nullptr;     // likewise
  float* d_input = nullptr;    // (rows, columns)
  ops::Dropout dropout = {};   // with rate > 0 and d_dropped:
  float* d_dropped = nullptr;  // d_input through the dropout of x
};
void norm_backward(const NormBackward& n);

}  // namespace heed::kernels
