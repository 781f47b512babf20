// Rules for the values that a recipe leaves open.
#include "train/defaults.h"

#include <algorithm>

#include "train/recipe_fields.h"

namespace heed::train {

namespace {

using io::Json;

constexpr int64_t kLargestBatch = 4096, kSmallestBatch = 512, kBatches = 20;
constexpr int64_t kEpochs = 60;  // what tens of thousands of sentences need
constexpr int64_t kFewestUpdates = 1000, kMostUpdates = 100000;
constexpr int64_t kLongestWarmup = 4000;
// Updates between validations. More often, checkpoints would take longer than training; less often, a crash would cost
// more than a thousand updates.
constexpr int64_t kShortestDistance = 100, kLongestDistance = 1000;
constexpr int64_t kEachEpoch = 0;

int64_t updates_for(const Recipe& recipe, int64_t updates_an_epoch) {
  if (recipe.max_epochs > 0) return recipe.max_epochs * updates_an_epoch;
  return std::clamp(kEpochs * updates_an_epoch, kFewestUpdates, kMostUpdates);
}

}  // namespace

int64_t batch_tokens_for(int64_t tokens) { return std::clamp(tokens / kBatches, kSmallestBatch, kLargestBatch); }

Recipe with_recorded(const Recipe& recipe, const std::string& recorded) {
  const Json before = io::parse_json(recorded).value;
  Recipe r = recipe;
  const auto take = [&](std::string_view key, int64_t& value) {
    const Json was = value_at(before, key);
    if (was.is_number_integer()) value = was.get<int64_t>();
  };
  if (r.batch_tokens == 0) take("batch_tokens", r.batch_tokens);
  // With another number of epochs, the recorded number of updates would cut it short.
  if (r.max_updates == 0 && value_at(before, "max_epochs") == r.max_epochs) take("max_updates", r.max_updates);
  if (r.schedule.warmup < 0) take("schedule.warmup", r.schedule.warmup);
  if (r.validate_every < 0) take("validate_every", r.validate_every);
  if (r.schedule.total == 0) take("schedule.total", r.schedule.total);
  if (r.schedule.width == 0) take("schedule.width", r.schedule.width);
  return r;
}

CompleteRecipe complete(const Recipe& recipe, const DataSize& size) {
  CompleteRecipe result{.recipe = recipe, .found = {}};
  Recipe& r = result.recipe;
  const auto tell = [&](const std::string& what) { result.found += (result.found.empty() ? "" : ", ") + what; };
  if (r.batch_tokens == 0) {
    r.batch_tokens = size.batch_tokens;
    if (r.batch_tokens != kLargestBatch) tell("batch_tokens " + std::to_string(r.batch_tokens));
  }
  if (r.max_updates == 0) {
    r.max_updates = updates_for(r, size.updates_an_epoch);
    tell("max_updates " + std::to_string(r.max_updates));
  }
  if (r.schedule.warmup < 0) {
    r.schedule.warmup = std::min(kLongestWarmup, r.max_updates / 10);
    tell("schedule.warmup " + std::to_string(r.schedule.warmup));
  }
  if (r.validate_every < 0) {
    const int64_t distance = std::clamp(size.updates_an_epoch, kShortestDistance, kLongestDistance);
    r.validate_every = distance == size.updates_an_epoch ? kEachEpoch : distance;
    if (r.validate_every != kEachEpoch) tell("validate_every " + std::to_string(r.validate_every));
  }
  if (r.schedule.kind == ScheduleKind::cosine && r.schedule.total == 0) r.schedule.total = r.max_updates;
  if (r.schedule.kind == ScheduleKind::noam && r.schedule.width == 0) r.schedule.width = r.model.width;
  return result;
}

}  // namespace heed::train
