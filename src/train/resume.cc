// Comparing recipes, and putting tensors back into a model.
#include "train/resume.h"

#include "heed/error.h"
#include "train/recipe_fields.h"

namespace heed::train {

namespace {

using io::Json;

std::string shown(const Json& value) { return value.is_null() ? "nothing" : io::json_text(value); }

}  // namespace

void require_same_recipe(const Recipe& recipe, const std::string& saved_recipe, const std::string& config,
                         const std::string& saved_config) {
  const Json ours = io::parse_json(to_json(recipe)).value;
  const Json theirs = io::parse_json(saved_recipe).value;
  require(theirs.is_object(), "train", "a recipe in the checkpoint; found none");
  const Json defaults =
      io::parse_json(to_json(Recipe())).value;  // for keys that did not exist when the checkpoint was written
  std::string differences;
  const auto compare = [&](const std::string& key, const Json& now, const Json& before) {
    if (now == before) return;
    differences += (differences.empty() ? "" : ", ") + key + " (" + shown(before) + " before, " + shown(now) + " now)";
  };
  for (const FieldEntry& field : field_table()) {
    if (field.use != FieldUse::fixed || field.key == "preset") continue;  // the model's keys say more
    const Json before = value_at(theirs, field.key);
    compare(std::string(field.key), value_at(ours, field.key),
            before.is_null() ? value_at(defaults, field.key) : before);
  }
  const Json model = io::parse_json(config).value, saved_model = io::parse_json(saved_config).value;
  for (const auto& [key, value] : model.items()) {
    compare("model." + key, value, saved_model.is_object() ? saved_model.value(key, Json()) : Json());
  }
  for (const auto& [key, value] : saved_model.items()) {
    if (!model.contains(key)) compare("model." + key, Json(), value);
  }
  require(differences.empty(), "train", "the recipe that this run was begun with; found other values of ", differences);
}

void copy_into(const NamedParameters& parameters, const io::Tensors& tensors, const std::string& prefix,
               const std::string& where) {
  for (const auto& [name, parameter] : parameters) {
    const auto found = tensors.find(prefix + name);
    require(found != tensors.end(), "train", where, ": the parameter ", prefix, name, "; found none");
    require(found->second.shape() == parameter.shape(), "train", where, ": ", prefix, name, " of shape ",
            parameter.shape(), "; found ", found->second.shape());
    parameter.data().copy_from(found->second);
  }
}

}  // namespace heed::train
