#include "train/moments.h"

#include "heed/error.h"

namespace heed::train {

Moments::Moments(const std::vector<std::pair<std::string, Tensor>>& state, int64_t steps) {
  require(steps >= 0, "adam", "a number of steps, 0 or more; found ", steps);
  for (const auto& [name, tensor] : state) found_.emplace(name, &tensor);
}

const Tensor& Moments::at(const std::string& name, const Shape& shape) const {
  const auto it = found_.find(name);
  require(it != found_.end(), "adam", "the moment ", name, "; found none");
  require(it->second->shape() == shape && it->second->dtype() == DType::f32, "adam", name, " of shape ", shape,
          " and f32; found ", it->second->shape(), " and ", it->second->dtype());
  return *it->second;
}

}  // namespace heed::train
