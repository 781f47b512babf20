// One update of the weights, in two ways: the gradient of whole batches in this process, and the sum of the gradients
// of shards, computed by one process or several.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heed/distributed.h"
#include "heed/train.h"
#include "train/data.h"
#include "train/grid.h"

namespace heed::train {

struct UpdateResult {
  double loss_sum = 0;       // over all target tokens
  int64_t tokens = 0;        // target tokens
  double gradient_norm = 0;  // of the mean over tokens
  bool stop = false;         // somebody asked for the training to stop
};

class Updater {
 public:
  virtual ~Updater() = default;
  // Loss and gradient of update `number` (from 1) on its batches. Throws Error for a loss that is not finite; the
  // weights are as before. `stop`: whether this process was asked to stop.
  [[nodiscard]] virtual UpdateResult gradients(int64_t number, const std::vector<Batch>& batches, bool stop) = 0;
  // Updates the weights with these gradients times `scale`.
  virtual void step(float learning_rate, float scale) = 0;
  [[nodiscard]] virtual int64_t steps() const = 0;
  // The optimizer's moments, as Adam::state() names them: on rank 0. All ranks call it.
  [[nodiscard]] virtual std::vector<std::pair<std::string, Tensor>> state() = 0;
  virtual void restore(const std::vector<std::pair<std::string, Tensor>>& state, int64_t steps) = 0;
};

// What may help where a loss or a gradient is not finite, in brackets.
[[nodiscard]] std::string advice_for_infinities(const Recipe& recipe);

// Where the recipe has one shard and whole sequences the first way, otherwise the second one.
[[nodiscard]] std::unique_ptr<Updater> make_updater(const Recipe& recipe, const models::Model& model,
                                                    distributed::Communicator& ranks, const Grid& grid);

}  // namespace heed::train
