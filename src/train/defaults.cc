// Rules for the values that a recipe leaves open.
#include "train/defaults.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "train/recipe_fields.h"

namespace heed::train {

namespace {

using Json = nlohmann::json;

constexpr int64_t kEpochs = 60;  // tens of thousands of sentences want about so many
constexpr int64_t kFewestUpdates = 1000, kMostUpdates = 100000;
constexpr int64_t kLongestWarmup = 4000;
// Updates between validations. More often, checkpoints would take longer than training; less often, a crash would cost
// more than a thousand updates.
constexpr int64_t kShortestDistance = 100, kLongestDistance = 1000;

int64_t updates_for(const Recipe& recipe, int64_t updates_an_epoch) {
  if (recipe.max_epochs > 0) return recipe.max_epochs * updates_an_epoch;
  return std::clamp(kEpochs * updates_an_epoch, kFewestUpdates, kMostUpdates);
}

}  // namespace

CompleteRecipe complete(const Recipe& recipe, int64_t updates_an_epoch, const std::string& recorded) {
  const Json before = recorded.empty() ? Json() : Json::parse(recorded, nullptr, false);
  CompleteRecipe result{.recipe = recipe, .found = {}};
  Recipe& r = result.recipe;
  // Sets `value`, which the recipe leaves open: to what the run began with, or else to `otherwise`.
  const auto fill = [&](std::string_view key, int64_t& value, int64_t otherwise, bool tell) {
    const Json was = value_at(before, key);
    if (was.is_number_integer() && was.get<int64_t>() >= 0) {
      value = was.get<int64_t>();
    } else if (value != otherwise) {
      value = otherwise;
      if (tell) result.found += (result.found.empty() ? "" : ", ") + std::string(key) + " " + std::to_string(value);
    }
  };
  if (r.max_updates == 0 && before.is_object() && value_at(before, "max_epochs") != r.max_epochs) {
    r.max_updates = updates_for(r, updates_an_epoch);
  } else if (r.max_updates == 0) {
    fill("max_updates", r.max_updates, updates_for(r, updates_an_epoch), true);
  }
  if (r.schedule.warmup < 0) {
    fill("schedule.warmup", r.schedule.warmup, std::min(kLongestWarmup, r.max_updates / 10), true);
  }
  if (r.validate_every == 0) {
    const int64_t distance = std::clamp(updates_an_epoch, kShortestDistance, kLongestDistance);
    fill("validate_every", r.validate_every, distance == updates_an_epoch ? 0 : distance, true);
  }
  if (r.schedule.kind == ScheduleKind::cosine && r.schedule.total == 0) {
    fill("schedule.total", r.schedule.total, r.max_updates, false);
  }
  if (r.schedule.kind == ScheduleKind::noam && r.schedule.width == 0) {
    fill("schedule.width", r.schedule.width, r.model.width, false);
  }
  return result;
}

}  // namespace heed::train
