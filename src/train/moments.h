// An optimizer's moments by their names, as a checkpoint holds them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/tensor.h"

namespace heed::train {

class Moments {
 public:
  // Refers to `state`, which must outlive it. Throws Error for a negative number of steps.
  Moments(const std::vector<std::pair<std::string, Tensor>>& state, int64_t steps);
  // Throws Error unless there is one of this name and shape, in f32.
  [[nodiscard]] const Tensor& at(const std::string& name, const Shape& shape) const;

 private:
  std::map<std::string_view, const Tensor*> found_;
};

}  // namespace heed::train
