// The moving average: one tensor beside each parameter.
#include "train/ema.h"

#include <algorithm>

#include "heed/ops.h"

namespace heed::train {

MovingAverage::MovingAverage(std::vector<std::pair<std::string, Value>> parameters, double decay)
    : parameters_(std::move(parameters)), decay_(decay) {
  if (!active()) return;
  for (const auto& [name, parameter] : parameters_) other_.push_back(parameter.data().clone());
}

void MovingAverage::update(int64_t update) const {
  if (!active()) return;
  const auto t = static_cast<double>(update);
  const double decay = std::min(decay_, (1.0 + t) / (10.0 + t));
  for (size_t i = 0; i < parameters_.size(); ++i) {
    ops::scale_into(other_[i], static_cast<float>(decay));
    ops::axpy_into(other_[i], static_cast<float>(1.0 - decay), parameters_[i].second.data());
  }
}

void MovingAverage::exchange() {
  if (!active()) return;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Tensor shown = parameters_[i].second.data();
    parameters_[i].second.set_data(other_[i]);
    other_[i] = std::move(shown);
  }
}

}  // namespace heed::train
