// The keys of a recipe in one table: printing, parsing, command-line options and help texts all come from it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "heed/train.h"

namespace heed::train {

using FieldPointer = std::variant<std::string*, bool*, int64_t*, uint64_t*, float*, double*, ScheduleKind*>;

enum class FieldUse {
  fixed,  // a continued run must have the same value: it decides what the weights become
  free,   // may differ when a run is continued
  path,   // free, and a file: relative ones are resolved; the contents are compared by checksum
};

struct FieldEntry {
  std::string_view key;
  FieldPointer (*at)(Recipe& recipe);
  FieldUse use;
  std::string_view help;
};

// Everything but [model], whose keys are those of models::Config.
[[nodiscard]] std::span<const FieldEntry> field_table();
[[nodiscard]] const FieldEntry* find_field(std::string_view key);

[[nodiscard]] std::string field_text(const FieldPointer& field);       // "0.005", "true", a string as it is
[[nodiscard]] std::string_view field_type(const FieldPointer& field);  // "number", ...

// Keys of models::Config that no recipe may set: the task and the tokenizers decide them.
[[nodiscard]] bool is_decided_model_key(std::string_view key);

[[nodiscard]] models::Architecture architecture_of(std::string_view task);
[[nodiscard]] std::string_view to_string(ScheduleKind kind);

// The preset of `recipe` with recipe.model_keys applied. `where` begins the messages.
[[nodiscard]] models::Config model_from_keys(const Recipe& recipe, const std::string& where);
// That, or recipe.model where there are no keys.
[[nodiscard]] models::Config model_of(const Recipe& recipe);

}  // namespace heed::train
