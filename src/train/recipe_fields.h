// The keys of a recipe in one table: printing, parsing, command-line options and help texts all come from it.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "formats/json.h"
#include "heed/train.h"

namespace heed::train {

using FieldPointer = std::variant<std::string*, bool*, int64_t*, uint64_t*, float*, double*, ScheduleKind*>;

enum class FieldUse {
  fixed,  // a continued run must have the same value: it decides what the weights become
  free,   // may differ when a run is continued
  path,   // free, and a file: relative ones are resolved; the contents are compared by checksum
};

// The values that a key may have: words, or an interval of numbers. The default allows every value of the type.
struct Allowed {
  std::string_view words = {};  // "f32, bf16"
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool above_low = false, below_high = false;  // the end of the interval is excluded

  [[nodiscard]] bool holds(double value) const;
  [[nodiscard]] bool holds(std::string_view word) const;
  [[nodiscard]] std::string text() const;  // "f32 or bf16", "0 or more", "more than 0", "from 1 to 5"
};

struct FieldEntry {
  std::string_view key;
  FieldPointer (*at)(Recipe& recipe);
  FieldUse use;
  Allowed allowed;
  std::string_view help;  // a sentence or two for someone who sees the key for the first time
};

// A key of [model]. Its value and its type are those of models::Config.
struct ModelKey {
  std::string_view key;
  Allowed allowed;
  std::string_view help;
};

// Everything but [model], whose keys are those of models::Config.
[[nodiscard]] std::span<const FieldEntry> field_table();
[[nodiscard]] const FieldEntry* find_field(std::string_view key);
[[nodiscard]] std::span<const ModelKey> model_keys();

[[nodiscard]] std::string field_text(const FieldPointer& field);       // "0.005", "true", a string as it is
[[nodiscard]] std::string_view field_type(const FieldPointer& field);  // "number", ...

// What a recipe written as JSON holds for a key ("schedule.peak"); null where it has no such key.
[[nodiscard]] io::Json value_at(const io::Json& recipe, std::string_view key);

// Keys of models::Config that no recipe may set: the task and the tokenizers decide them.
[[nodiscard]] bool is_decided_model_key(std::string_view key);

[[nodiscard]] models::Architecture architecture_of(std::string_view task);
[[nodiscard]] bool is_classification(const Recipe& recipe);
[[nodiscard]] bool has_scores(const Recipe& recipe);           // its texts, or its pairs of texts, have scores
[[nodiscard]] bool starts_from_encoder(const Recipe& recipe);  // its task needs an encoder as recipe.from
[[nodiscard]] std::string_view to_string(ScheduleKind kind);
[[nodiscard]] ScheduleKind schedule_kind(std::string_view word);  // throws Error for a word that is none

// The preset of `recipe` with recipe.model_keys applied. `where` begins the messages.
[[nodiscard]] models::Config model_from_keys(const Recipe& recipe, const std::string& where);
// The same, or recipe.model where no key is set.
[[nodiscard]] models::Config model_of(const Recipe& recipe);

}  // namespace heed::train
