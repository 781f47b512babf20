// What a step of Adam is for one parameter: in one process, and where ranks share the optimizer.
#pragma once

#include "heed/ops.h"
#include "heed/train.h"

namespace heed::train {

// `step` with the settings of the optimizer, for a parameter of this shape.
[[nodiscard]] inline ops::AdamStepOptions with_settings(const AdamOptions& options, const Shape& parameter,
                                                        ops::AdamStepOptions step) {
  step.beta1 = options.beta1;
  step.beta2 = options.beta2;
  step.epsilon = options.epsilon;
  // Gains and biases are not decayed: pulling them towards zero changes what a norm or a unit means.
  step.weight_decay = parameter.rank() >= 2 ? options.weight_decay : 0.0f;
  return step;
}

}  // namespace heed::train
