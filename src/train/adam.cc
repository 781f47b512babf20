// Adam and AdamW: the moments of every parameter; the arithmetic is ops::adam_step.
#include "heed/error.h"
#include "heed/ops.h"
#include "heed/train.h"
#include "train/adam_step.h"
#include "train/moments.h"

namespace heed::train {

Adam::Adam(std::vector<std::pair<std::string, Value>> parameters, const AdamOptions& options) : options_(options) {
  slots_.reserve(parameters.size());
  for (auto& each : parameters) {
    const Value& parameter = each.second;
    require(parameter.defined(), "adam", "a defined parameter; found none for ", each.first);
    slots_.push_back({.name = std::move(each.first),
                      .parameter = parameter,
                      .first = Tensor::zeros(parameter.shape()),
                      .second = Tensor::zeros(parameter.shape())});
  }
}

double Adam::gradient_norm() const {
  std::vector<Tensor> gradients;
  gradients.reserve(slots_.size());
  for (const Slot& slot : slots_) {
    if (slot.parameter.grad().defined()) gradients.push_back(slot.parameter.grad());
  }
  return ops::norm(gradients);
}

void Adam::step(float learning_rate, float gradient_scale) {
  ++steps_;
  const ops::AdamStepOptions step{
      .learning_rate = learning_rate, .gradient_scale = gradient_scale, .step = steps_, .zero_gradient = true};
  for (const Slot& slot : slots_) {
    if (!slot.parameter.grad().defined()) continue;  // the loss does not use this parameter
    ops::adam_step(slot.parameter.data(), slot.parameter.grad(), slot.first, slot.second,
                   with_settings(options_, slot.parameter.shape(), step));
  }
}

std::vector<std::pair<std::string, Tensor>> Adam::state() const {
  std::vector<std::pair<std::string, Tensor>> state;
  state.reserve(2 * slots_.size());
  for (const Slot& slot : slots_) {
    state.emplace_back("first." + slot.name, slot.first);
    state.emplace_back("second." + slot.name, slot.second);
  }
  return state;
}

void Adam::restore(const std::vector<std::pair<std::string, Tensor>>& state, int64_t steps) {
  const Moments found(state, steps);
  for (const Slot& slot : slots_) {
    slot.first.copy_from(found.at("first." + slot.name, slot.first.shape()));
    slot.second.copy_from(found.at("second." + slot.name, slot.second.shape()));
  }
  steps_ = steps;
}

}  // namespace heed::train
