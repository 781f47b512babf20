// Rows of logits: their log-sum-exp.
#include "generate/rows.h"

#include <cmath>

#include "heed/error.h"
#include "heed/ops.h"

namespace heed::generate {

std::vector<float> finite_logsumexp(const Tensor& logits, const char* function) {
  const Tensor sums = ops::logsumexp(logits);
  std::vector<float> result(sums.data<float>(), sums.data<float>() + sums.numel());
  for (const float x : result) require_finite(std::isfinite(x), function);
  return result;
}

void require_finite(bool finite, const char* function) {
  require(finite, function, "logits that are numbers; the model gave NaN or infinity");
}

}  // namespace heed::generate
