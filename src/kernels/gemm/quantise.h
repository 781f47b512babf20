// Rows of f32 to whole numbers from -127 to 127 times a scale.
#pragma once

#include <cstdint>

namespace heed::kernels {

// out[p] = the integer nearest to row[p] * 127 / largest magnitude, ties to even; returns the scale, largest / 127. A
// row with NaN or infinity becomes zeros times NaN.
float quantise(const float* row, int64_t count, int8_t* out);

}  // namespace heed::kernels
