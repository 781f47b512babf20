// An exponential moving average of the weights.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "heed/autograd.h"

namespace heed::train {

class MovingAverage {
 public:
  // Starts as a copy of the weights. Does nothing for decay 0.
  MovingAverage(std::vector<std::pair<std::string, Value>> parameters, double decay);
  [[nodiscard]] bool active() const { return decay_ > 0; }
  // average = d average + (1 - d) weights, d = min(decay, (1 + update) / (10 + update)): the average follows the
  // weights quickly at first.
  void update(int64_t update) const;
  // Exchanges average and weights, so that validation and saving use the average.
  void exchange();
  // The tensors of the other side: the average, or the weights after exchange().
  [[nodiscard]] const std::vector<Tensor>& other() const { return other_; }

 private:
  std::vector<std::pair<std::string, Value>> parameters_;
  double decay_;
  std::vector<Tensor> other_;
};

// Exchanges average and weights for the lifetime of the object.
class AverageScope {
 public:
  explicit AverageScope(MovingAverage& average) : average_(average) { average_.exchange(); }
  ~AverageScope() { average_.exchange(); }
  AverageScope(const AverageScope&) = delete;
  AverageScope& operator=(const AverageScope&) = delete;

 private:
  MovingAverage& average_;
};

}  // namespace heed::train
