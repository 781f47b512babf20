// Values that a recipe leaves open: found from its other values and the size of its data.
#pragma once

#include <string>

#include "heed/train.h"

namespace heed::train {

// Tokens a batch for a text of `tokens` tokens: a small text makes several batches too.
[[nodiscard]] int64_t batch_tokens_for(int64_t tokens);

// The recipe of a run that is continued: what it leaves open has the value that the run was begun with. `recorded` is
// the recipe in the checkpoint, as JSON.
[[nodiscard]] Recipe with_recorded(const Recipe& recipe, const std::string& recorded);

// The size of the data, as far as defaults depend on it.
struct DataSize {
  int64_t updates_an_epoch = 0;  // of the first epoch
  int64_t batch_tokens = 0;      // see batch_tokens_for()
};
struct CompleteRecipe {
  Recipe recipe;
  std::string found;  // "max_updates 1000, schedule.warmup 100": what was open and depends on the data; may be empty
};
// A pure function of its arguments.
[[nodiscard]] CompleteRecipe complete(const Recipe& recipe, const DataSize& size);

}  // namespace heed::train
