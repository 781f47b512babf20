// Embedding: one vector a token; that of the padding is zero.
#include <cmath>

#include "heed/nn.h"

namespace heed::nn {

Embedding::Embedding(int64_t vocabulary, int64_t width, int64_t padding_id, bool scale_by_sqrt_width,
                     Initializer& init) {
  const float root = std::sqrt(static_cast<float>(width));
  options_ = {.padding_id = padding_id, .scale = scale_by_sqrt_width ? root : 1.0f};
  // Deviation 1/sqrt(E): scaled by sqrt(E) the vectors have unit variance, and tied as an output projection they give
  // logits of unit variance.
  Tensor vectors = init.normal({vocabulary, width}, 1.0f / root);
  if (padding_id >= 0) vectors.select(0, padding_id).zero();
  weight = add_parameter("weight", vectors);
}

Value Embedding::operator()(const Tensor& ids) const { return embedding(ids, weight, options_); }

}  // namespace heed::nn
