// What decoding needs of rows of logits: their log-sum-exp.
#pragma once

#include <cstdint>
#include <vector>

#include "heed/tensor.h"

namespace heed::generate {

// log sum_v exp(logits[r, v]) of each row r. logits (N, V), contiguous. Throws Error, naming `function`, unless all are
// finite.
[[nodiscard]] std::vector<float> finite_logsumexp(const Tensor& logits, const char* function);

// The Error of that, unless `finite`.
void require_finite(bool finite, const char* function);

}  // namespace heed::generate
