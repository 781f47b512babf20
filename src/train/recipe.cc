// Recipes: reading TOML and JSON strictly, options of the command line, and writing them back.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/nearest_word.h"
#include "heed/error.h"
#include "heed/train.h"
#include "train/recipe_fields.h"
#include "train/recipe_source.h"

namespace heed::train {

namespace {

using io::Json;

[[noreturn]] void fail_unknown(std::string_view function, const std::string& where, std::string_view key) {
  const std::vector<RecipeField> fields = recipe_fields();
  std::vector<std::string_view> keys;
  for (const RecipeField& field : fields) keys.emplace_back(field.key);
  const std::string nearest(nearest_word(key, keys));
  const std::string hint = nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?";
  fail(function, where, "a key of a recipe; found unknown key \"", key, "\"", hint);
}

// Assigns one JSON value to a field of `recipe`. The message names `where` and the key.
void assign(Recipe& recipe, const FieldEntry& field, const Json& value, std::string_view function,
            const std::string& where) {
  const auto wrong = [&](const std::string& expected) {
    const std::string range = field.allowed.words.empty() ? field.allowed.text() : "";
    fail(function, where, field.key, ": ", expected, range.empty() ? "" : ", " + range, "; found ",
         io::json_text(value));
  };
  const auto as_word = [&] {
    if (!value.is_string()) wrong("text in quotes");
    const auto word = value.get<std::string>();
    if (!field.allowed.holds(std::string_view(word))) wrong(field.allowed.text());
    return word;
  };
  const auto require_in_range = [&](std::string_view expected) {
    if (!field.allowed.holds(value.get<double>())) wrong(std::string(expected));
  };
  std::visit(
      [&](auto* target) {
        using T = std::remove_pointer_t<decltype(target)>;
        if constexpr (std::is_same_v<T, std::string>) {
          *target = as_word();
        } else if constexpr (std::is_same_v<T, bool>) {
          if (!value.is_boolean()) wrong("true or false");
          *target = value.get<bool>();
        } else if constexpr (std::is_same_v<T, ScheduleKind>) {
          *target = schedule_kind(as_word());
        } else if constexpr (std::is_floating_point_v<T>) {
          if (!value.is_number() || !std::isfinite(value.get<double>())) wrong("a number");
          require_in_range("a number");
          *target = static_cast<T>(value.get<double>());
        } else {
          const bool fits =
              value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t{1} << 62);
          if (!fits) wrong("a whole number");
          require_in_range("a whole number");
          *target = value.get<T>();
        }
      },
      field.at(recipe));
}

// `text` as a value of the given type.
Json parse_option(std::string_view key, std::string_view text, std::string_view type) {
  if (type == "text") return std::string(text);
  auto [value, problem] = io::parse_json(text);
  if (!problem.empty() || value.is_structured() || value.is_null()) {
    fail("set_option", key, ": ",
         type == "true|false" ? "true or false"
         : type == "integer"  ? "a whole number"
                              : "a number",
         "; found \"", text, "\"");
  }
  return value;
}

std::string_view json_type(const Json& value) {
  if (value.is_string()) return "text";
  if (value.is_boolean()) return "true|false";
  return value.is_number_float() ? "number" : "integer";
}

Json default_model(const Recipe& recipe) {
  return io::parse_json(models::to_json(models::preset(recipe.preset, architecture_of(recipe.task)))).value;
}

// Checks types. Whether all keys together make a model is known after the last key, so validate() checks that.
void set_model_key(Recipe& recipe, const std::string& name, const Json& value, std::string_view function,
                   const std::string& where) {
  require(!is_decided_model_key(name), function, where, "model.", name,
          ": no value, as the task and the tokenizers decide it; found ", io::json_text(value));
  const Json defaults = default_model(recipe);
  const auto entry = std::ranges::find(model_keys(), name, &ModelKey::key);
  if (entry == model_keys().end()) fail_unknown(function, where, "model." + name);
  const std::string_view type = json_type(defaults[name]);
  const Allowed& allowed = entry->allowed;
  const bool fits = type == "text" ? value.is_string() && allowed.holds(std::string_view(value.get<std::string>()))
                    : type == "true|false" ? value.is_boolean()
                    : type == "number"     ? value.is_number() && allowed.holds(value.get<double>())
                                           : value.is_number_integer() && allowed.holds(value.get<double>());
  const std::string range = allowed.text();
  require(fits, function, where, "model.", name, ": ",
          type == "text" ? range
          : type == "true|false"
              ? "true or false"
              : std::string(type == "number" ? "a number" : "a whole number") + (range.empty() ? "" : ", " + range),
          "; found ", io::json_text(value));
  Json keys = io::parse_json(recipe.model_keys).value;
  keys[name] = value;
  recipe.model_keys = io::json_text(keys);
  try {
    recipe.model = model_from_keys(recipe, "model");
  } catch (const Error&) {  // another key may still come; validate() asks again
  }
}

void apply(Recipe& recipe, const RecipeSource& source) {
  const auto set = [&](const std::string& key, const Json& value) {
    const FieldEntry* field = find_field(key);
    if (field == nullptr) fail_unknown("read_recipe", source.at(key) + ": ", key);
    assign(recipe, *field, value, "read_recipe", source.at(key) + ": ");
  };
  const Json& values = source.values;
  for (const char* first : {"task", "preset"}) {  // they decide what the other keys change
    if (values.contains(first)) set(first, values[first]);
  }
  try {
    recipe.model = model_from_keys(recipe, "preset");
  } catch (const Error& error) {
    fail("read_recipe", source.at("preset"), ": ", error.what());
  }
  for (const auto& [key, value] : values.items()) {
    if (key == "model") {
      require(value.is_object(), "read_recipe", source.at(key), ": model: a table; found ", io::json_text(value));
      for (const auto& [name, inner] : value.items()) {
        set_model_key(recipe, name, inner, "read_recipe", source.at("model." + name) + ": ");
      }
    } else if (value.is_object()) {
      if (key != "adam" && key != "schedule") fail_unknown("read_recipe", source.at(key) + ": ", key);
      for (const auto& [name, inner] : value.items()) set(key + "." + name, inner);
    } else {
      set(key, value);
    }
  }
}

}  // namespace

Recipe read_recipe(const std::filesystem::path& file, const std::filesystem::path& data_root,
                   const std::function<void(Recipe&)>& change) {
  const RecipeSource source = read_source(file);
  Recipe recipe;
  apply(recipe, source);
  const std::filesystem::path root = data_root.empty() ? file.parent_path() : data_root;
  for (const FieldEntry& field : field_table()) {
    if (field.use != FieldUse::path) continue;
    auto& path = *std::get<std::string*>(field.at(recipe));
    std::error_code ignored;
    if (field.key == "from" && !std::filesystem::exists(root / path, ignored)) continue;  // a name, then
    if (!path.empty()) path = (root / path).lexically_normal().string();
  }
  if (change) change(recipe);
  try {
    validate(recipe);
  } catch (const Error& error) {
    fail("read_recipe", source.file, ": ", error.what());
  }
  return recipe;
}

void set_option(Recipe& recipe, std::string_view key, std::string_view value) {
  if (key.starts_with("model.")) {
    const std::string name(key.substr(6));
    const Json defaults = default_model(recipe);
    const Json parsed = defaults.contains(name) ? parse_option(key, value, json_type(defaults[name])) : Json(value);
    set_model_key(recipe, name, parsed, "set_option", "");
    return;
  }
  const FieldEntry* field = find_field(key);
  if (field == nullptr) fail_unknown("set_option", "", key);
  const Json parsed = parse_option(key, value, field_type(field->at(recipe)));
  Recipe changed = recipe;
  assign(changed, *field, parsed, "set_option", "");
  if (key == "task" || key == "preset") {
    Recipe plain = changed;
    plain.model_keys = "{}";
    changed.model = model_from_keys(plain, "preset");  // throws for an unknown name
    try {
      changed.model = model_from_keys(changed, "model");
    } catch (const Error&) {  // another key may still come; validate() asks again
    }
  }
  recipe = std::move(changed);
}

std::string to_json(const Recipe& recipe) {
  Recipe copy = recipe;
  Json json = Json::object();
  for (const FieldEntry& field : field_table()) {
    const FieldPointer pointer = field.at(copy);
    const std::string text = field_text(pointer);
    // Numbers go through their shortest text, so that 0.98f is written as 0.98.
    const Json value = field_type(pointer) == "text" ? Json(text) : io::parse_json(text).value;
    const size_t dot = field.key.find('.');
    if (dot == std::string_view::npos) {
      json[std::string(field.key)] = value;
    } else {
      json[std::string(field.key.substr(0, dot))][std::string(field.key.substr(dot + 1))] = value;
    }
  }
  if (!recipe.from.empty()) {  // the other values are those of its folder
    json["model"] = io::parse_json(recipe.model_keys).value;
    return io::json_text(json, 2) + "\n";
  }
  // Every value that differs from the preset, whether a key set it or a C++ program did.
  json["model"] = Json::object();
  const auto model = io::parse_json(models::to_json(model_of(recipe))).value;
  const Json preset = default_model(recipe);
  for (const auto& [name, value] : model.items()) {
    if (!is_decided_model_key(name) && value != preset.value(name, Json())) json["model"][name] = value;
  }
  return io::json_text(json, 2) + "\n";
}

std::vector<RecipeField> recipe_fields() {
  Recipe defaults;
  std::vector<RecipeField> fields;
  const auto allowed_text = [](const Allowed& allowed, std::string_view type) {
    return type == "true|false" ? std::string("true or false") : allowed.text();
  };
  for (const FieldEntry& entry : field_table()) {
    const FieldPointer pointer = entry.at(defaults);
    fields.push_back({.key = std::string(entry.key),
                      .default_text = field_text(pointer),
                      .help = std::string(entry.help),
                      .type = std::string(field_type(pointer)),
                      .allowed = allowed_text(entry.allowed, field_type(pointer))});
  }
  const auto model = io::parse_json(models::to_json(defaults.model)).value;
  for (const ModelKey& entry : model_keys()) {
    const auto& value = model.at(std::string(entry.key));
    const std::string_view type = json_type(value);
    fields.push_back({.key = "model." + std::string(entry.key),
                      .default_text = value.is_string() ? value.get<std::string>() : io::json_text(value),
                      .help = std::string(entry.help),
                      .type = std::string(type),
                      .allowed = allowed_text(entry.allowed, type)});
  }
  return fields;
}

namespace {

// What says how a new model and a new tokenizer are made; load_start() compares the other keys with the folder.
void check_from(const Recipe& recipe) {
  const Recipe defaults;
  const auto require_default = [](bool is_default, std::string_view key, std::string_view found) {
    require(is_default, "recipe", key, ": left out, because from has the model and its tokenizer; found ", found);
  };
  require_default(recipe.preset == defaults.preset, "preset", recipe.preset);
  const models::Config plain = models::preset(recipe.preset, recipe.model.architecture);
  require_default(recipe.model_keys != "{}" || models::to_json(recipe.model) == models::to_json(plain), "model",
                  "other values than those of a preset (set_option changes dropout rates)");
  require_default(!recipe.bpe, "bpe", "true");
  require_default(recipe.vocabulary_lines == defaults.vocabulary_lines, "vocabulary_lines",
                  std::to_string(recipe.vocabulary_lines));
  require_default(recipe.token_cache.empty(), "token_cache", recipe.token_cache);
}

// A new model must fit its task.
void check_model(const Recipe& recipe, const models::Config& model) {
  require(model.architecture == architecture_of(recipe.task), "recipe", "a model that fits the task, ", recipe.task,
          "; found ", model.architecture);
  require(!model.share_embeddings || recipe.task != "translation" || recipe.shared_vocabulary, "recipe",
          "shared_vocabulary: true, as model.share_embeddings is; found false");
  require(recipe.task != "language_model" || model.positions == models::Positions::none ||
              recipe.context <= model.max_length,
          "recipe", "context: at most model.max_length, ", model.max_length, "; found ", recipe.context);
}

// Where the text of validation comes from. (Half of two files, and both kinds of text, are refused where they are
// read.)
void check_held_back(const Recipe& recipe) {
  if (recipe.valid_fraction == 0) return;
  const bool of_pairs = recipe.task == "translation" || recipe.task == "sentence_embedding";
  require(recipe.valid_source.empty() || (of_pairs && recipe.valid_target.empty()), "recipe",
          "valid_fraction: 0 beside valid_source; found ", recipe.valid_fraction);
  const bool of_two_files = of_pairs && recipe.pairs.empty() && !recipe.train_source.empty();
  require(!of_two_files || has_scores(recipe), "recipe",
          "valid_fraction: 0 where two files have the texts (pairs names one, a part of which can be held back; "
          "valid_source and valid_target name others); found ",
          recipe.valid_fraction);
}

// The loss, and the measure of the best checkpoint.
void check_scores(const Recipe& recipe) {
  const bool scored = has_scores(recipe), chooses = scored || recipe.task == "sentence_embedding";
  require(recipe.loss == "cross_entropy" || chooses, "recipe", "loss: cross_entropy for ", recipe.task, "; found \"",
          recipe.loss, "\"");
  const bool correlation = recipe.best_by == "pearson" || recipe.best_by == "spearman";
  const bool fits = correlation ? scored : recipe.best_by != "accuracy" || (starts_from_encoder(recipe) && !scored);
  require(fits, "recipe", "best_by: ",
          scored                        ? "loss, pearson or spearman"
          : starts_from_encoder(recipe) ? "loss or accuracy"
                                        : "loss or bleu",
          " for ", recipe.task, "; found \"", recipe.best_by, "\"");
}

// Settings of other tasks, which would have no effect.
void check_unused(const Recipe& recipe) {
  const Recipe defaults;
  const bool contrasts = recipe.task == "sentence_embedding" && recipe.loss == "cross_entropy";
  require(recipe.similarity_scale == defaults.similarity_scale || contrasts, "recipe",
          "similarity_scale: left out, unless the task is sentence_embedding with the loss cross_entropy; found ",
          recipe.similarity_scale, " for ", recipe.task, " with ", recipe.loss);
  require(recipe.valid_tokenize == defaults.valid_tokenize || recipe.task == "translation", "recipe",
          "valid_tokenize: left out, unless the task is translation; found ", recipe.valid_tokenize, " for ",
          recipe.task);
}

}  // namespace

void validate(const Recipe& recipe) {
  const auto model = recipe.from.empty() ? std::optional(model_of(recipe)) : std::nullopt;
  Recipe copy = recipe;
  for (const FieldEntry& field : field_table()) {
    std::visit(
        [&](auto* value) {
          using T = std::remove_pointer_t<decltype(value)>;
          if constexpr (std::is_same_v<T, std::string>) {
            require(field.allowed.holds(std::string_view(*value)), "recipe", field.key, ": ", field.allowed.text(),
                    "; found \"", *value, "\"");
          } else if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
            require(field.allowed.holds(static_cast<double>(*value)), "recipe", field.key, ": ", field.allowed.text(),
                    "; found ", *value);
          }
        },
        field.at(copy));
  }

  const bool translation = recipe.task == "translation";
  if (model) {
    check_model(recipe, *model);
  } else {
    check_from(recipe);
  }
  for (const auto& [key, language] :
       {std::pair("source_language", &recipe.source_language), std::pair("target_language", &recipe.target_language)}) {
    require(language->empty() || (translation && !recipe.from.empty()), "recipe", key,
            ": left out, unless the task is translation and from names a model of several languages; found ",
            *language);
  }
  require(recipe.best_by != "bleu" || recipe.valid_beam > 0, "recipe",
          "best_by: \"loss\" unless valid_beam is more than 0; found \"bleu\" and valid_beam 0");
  check_scores(recipe);
  check_held_back(recipe);
  require(translation || recipe.valid_beam == 0, "recipe", "valid_beam: 0 for ", recipe.task, "; found ",
          recipe.valid_beam);
  require(
      recipe.subword_sampling == 0 || (translation && recipe.tokenizer == "sentencepiece" && !recipe.bpe), "recipe",
      "subword_sampling: 0, unless the task is translation and the tokenizer sentencepiece without bpe (only unigram "
      "models give each piece a probability to draw by); found ",
      recipe.subword_sampling, ", ", recipe.task, " and ", recipe.bpe ? "bpe" : recipe.tokenizer);
  require(recipe.subword_sampling > 0 || recipe.subword_sampling_epochs == 0, "recipe",
          "subword_sampling_epochs: 0 unless subword_sampling is more than 0; found ", recipe.subword_sampling_epochs);
  require(
      recipe.token_cache.empty() || recipe.subword_sampling == 0, "recipe",
      "token_cache: empty where subword_sampling is more than 0, because each epoch cuts the text anew; found both");
  require(recipe.context_parallel == 1 ||
              (recipe.task == "language_model" && recipe.context >= 2 * recipe.context_parallel),
          "recipe",
          "context_parallel: 1, unless the task is language_model and context at least twice as large; found ",
          recipe.context_parallel, ", ", recipe.task, " and context ", recipe.context);
  check_unused(recipe);
  const bool has_pairs = translation || recipe.task == "sentence_embedding";
  require(has_pairs || recipe.pairs.empty(), "recipe", "pairs: for translation and sentence_embedding; found task ",
          recipe.task);
  require(recipe.consistency == 0 || (recipe.task != "sentence_embedding" && !has_scores(recipe)), "recipe",
          "consistency: 0 for ", recipe.task, ", where it does not say how two answers differ; found ",
          recipe.consistency);
  require(
      recipe.consistency_until == 0 || (recipe.consistency > 0 && recipe.consistency_until > recipe.consistency_from),
      "recipe", "consistency_until: 0, or, with consistency, more than consistency_from; found ",
      recipe.consistency_until, ", with consistency ", recipe.consistency, " from ", recipe.consistency_from);
}

}  // namespace heed::train
