// `heed bench training`: whole training steps (forward, backward, optimizer) of two reference models.
#pragma once

#include <string>

namespace heed::bench {

struct TrainingBench {
  std::string model = "all";      // "gpt", "transformer" or "all"
  std::string precision = "f32";  // or "bf16": of matrix products
  int steps = 8;                  // timed, after two that are not
  bool json = false;
};

// A table, or a JSON array of {model, tokens_per_second, seconds, parameters}. Medians over the steps.
[[nodiscard]] std::string measure_training(const TrainingBench& options);

}  // namespace heed::bench
