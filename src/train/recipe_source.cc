// Reading TOML and JSON. The one file that includes toml++.
#include "train/recipe_source.h"

#include <toml++/toml.h>

#include <cmath>

#include "heed/error.h"
#include "heed/io.h"

namespace heed::train {

namespace {

using io::Json;
constexpr int64_t kMaxRecipeBytes = 1 << 20;

// toml++ frees tables inside of tables by recursion, and a name with dots is a table in a table for each dot: a line of
// 100,000 of them would use up the stack.
void require_shallow(std::string_view text, const std::string& file) {
  constexpr int kMostDots = 16;
  int64_t line = 1;
  int dots = 0;
  char quote = '\0';
  bool escaped = false, comment = false;
  for (const char c : text) {
    if (c == '\n') {
      ++line;
      dots = 0;
      quote = '\0';
      escaped = comment = false;
    } else if (comment) {
      continue;
    } else if (quote != '\0') {
      if (c == quote && !escaped) quote = '\0';
      escaped = quote == '"' && c == '\\' && !escaped;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      comment = true;
    } else if (c == '.' && ++dots > kMostDots) {
      fail("read_recipe", file, ", line ", line, ": names with at most ", kMostDots, " dots; found more");
    }
  }
}

Json from_toml(const toml::node& node, const std::string& key, RecipeSource& source) {
  source.lines[key] = node.source().begin.line;
  if (const auto* table = node.as_table()) {
    Json object = Json::object();
    for (const auto& [name, child] : *table) {
      const std::string below = key.empty() ? std::string(name.str()) : key + "." + std::string(name.str());
      object[std::string(name.str())] = from_toml(child, below, source);
    }
    return object;
  }
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* number = node.as_floating_point()) {
    require(std::isfinite(number->get()), "read_recipe", source.at(key), ": ", key, ": a finite number; found ",
            number->get());
    return number->get();
  }
  if (const auto* boolean = node.as_boolean()) return boolean->get();
  fail("read_recipe", source.at(key), ": ", key, ": text, a number, true or false; found a list or a date");
}

}  // namespace

std::string RecipeSource::at(const std::string& key) const {
  const auto found = lines.find(key);
  return found == lines.end() ? file : file + ", line " + std::to_string(found->second);
}

RecipeSource read_source(const std::filesystem::path& file) {
  RecipeSource source;
  source.file = file.string();
  const std::string text = io::read_file(file, kMaxRecipeBytes);
  if (file.extension() == ".json") {
    const io::ParsedJson parsed = io::parse_json(text);
    require(parsed.problem.empty(), "read_recipe", source.file, ": ", parsed.problem);
    source.values = parsed.value;
    require(source.values.is_object(), "read_recipe", source.file, ": a JSON object; found ",
            source.values.type_name());
    return source;
  }
  require(file.extension() == ".toml", "read_recipe", "a file named .toml or .json; found ", source.file);
  require_shallow(text, source.file);
  try {
    source.values = from_toml(toml::parse(text, source.file), "", source);
  } catch (const toml::parse_error& error) {
    fail("read_recipe", source.file, ", line ", static_cast<int64_t>(error.source().begin.line),
         ": TOML; found: ", std::string(error.description()));
  }
  return source;
}

}  // namespace heed::train
