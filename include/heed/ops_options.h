// Options that operations (ops.h) and the kernels under them share.
#pragma once

#include <cstdint>

#include "heed/export.h"

HEED_EXPORT_BEGIN
namespace heed {

// gelu: x Phi(x), with erf. gelu_tanh: its tanh approximation. silu: x sigmoid(x).
enum class Activation { none, relu, gelu, gelu_tanh, silu, tanh };

// How a weight is kept for inference. bf16: weights and inputs are rounded to bf16, and sums are f32; only where
// multiplies_bf16(). int8: whole numbers from -127 to 127, each output column times a scale of its own; inputs are
// rounded likewise, row by row, and sums are exact.
enum class WeightFormat { f32, bf16, int8 };

}  // namespace heed

namespace heed::ops {

// Zeroes elements with probability `rate` and divides the rest by 1 - rate. Whether element i (row-major) is kept is a
// pure function of (seed, i) by Philox, so the mask is never stored. Rate 0 is the identity.
struct Dropout {
  float rate = 0;  // in [0, 1)
  uint64_t seed = 0;
};

struct AdamStepOptions {
  float learning_rate = 1e-3f;
  float beta1 = 0.9f;
  float beta2 = 0.98f;
  float epsilon = 1e-9f;
  float weight_decay = 0.0f;    // decoupled: parameter -= learning_rate * weight_decay * parameter, before the update
  float gradient_scale = 1.0f;  // gradients are multiplied by it first
  int64_t step = 1;             // the number of this update, from 1: corrects the bias of the moments
  bool zero_gradient = true;    // writes zeros over the gradient in the same pass
};

}  // namespace heed::ops
HEED_EXPORT_END
