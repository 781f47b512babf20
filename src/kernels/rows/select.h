// The largest numbers of a row, and where they stand.
#pragma once

#include <cstdint>

namespace heed::kernels {

struct Selected {
  float value = 0;
  int32_t place = -1;
};

// The `count` largest of x[0 .. size), fewer where fewer are allowed: the largest first, equal ones in the order of
// their places. -infinity and NaN are never chosen, nor are places with blocked[i] != 0; null: all are allowed. Returns
// how many were written.
[[nodiscard]] int64_t select_largest(const float* x, int64_t size, const uint8_t* blocked, int64_t count,
                                     Selected* out);

// Whether no number is NaN or infinity. -infinity counts as a number.
[[nodiscard]] bool all_below_infinity(const float* x, int64_t size);

}  // namespace heed::kernels
