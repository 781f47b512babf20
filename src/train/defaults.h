// Values that a recipe leaves open: found from its other values and the size of its data.
#pragma once

#include <string>

#include "heed/train.h"

namespace heed::train {

struct CompleteRecipe {
  Recipe recipe;
  std::string found;  // "max_updates 1000, schedule.warmup 100": what was open and depends on the data; may be empty
};

// `updates_an_epoch`: of the first epoch. `recorded`: the recipe of the run that is continued, as JSON, whose values
// hold where `recipe` leaves them open; empty for a new run. A pure function of its arguments.
[[nodiscard]] CompleteRecipe complete(const Recipe& recipe, int64_t updates_an_epoch, const std::string& recorded);

}  // namespace heed::train
