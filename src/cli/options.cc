// Values of options: what each takes, and how a word becomes a number, a text or a choice.
#include "cli/options.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <type_traits>

#include "cli/console.h"

namespace heed::cli {
namespace {

template <class T>
struct Inner {
  using type = T;
};
template <class T>
struct Inner<std::optional<T>> {
  using type = T;
};

// The type a variable's value has, whether it is optional or not.
template <class Pointer>
using ValueOf = typename Inner<std::remove_pointer_t<Pointer>>::type;

template <class T>
bool parse_number(const std::string& text, T& value) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) return false;
  }
  return error == std::errc() && stop == end;
}

bool is_whole(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

std::string joined(const std::vector<std::string>& words, const char* last) {
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) out += (i == 0 ? "" : i + 1 == words.size() ? last : ", ") + words[i];
  return out;
}

std::string bound_text(double bound) { return fmt::format("{:.12g}", bound); }

}  // namespace

Option::Option(std::string name, Variable variable, std::string help, std::string group)
    : name_(std::move(name)),
      help_(std::move(help)),
      group_(std::move(group)),
      variable_(std::move(variable)),
      least_(std::numeric_limits<double>::lowest()),
      most_(std::numeric_limits<double>::max()) {
  // What the variable holds now is the default.
  std::visit(
      [&](auto& target) {
        using Target = std::decay_t<decltype(target)>;
        if constexpr (std::is_same_v<Target, bool*>) {
          takes_ = "";
        } else if constexpr (std::is_same_v<Target, Choice>) {
          takes_ = joined(target.words, "|");
          for (size_t at; (at = takes_.find(", ")) != std::string::npos;) takes_.replace(at, 2, "|");
        } else if constexpr (std::is_same_v<Target, Action>) {
          takes_ = "VALUE";
        } else {
          using Value = ValueOf<Target>;
          if constexpr (std::is_arithmetic_v<Value>) {
            takes_ = std::is_integral_v<Value> ? "N" : "NUMBER";
            if constexpr (std::is_arithmetic_v<std::remove_pointer_t<Target>>) default_ = fmt::format("{}", *target);
          } else {
            takes_ = "TEXT";
            if constexpr (std::is_same_v<Target, std::string*>) default_ = *target;
          }
        }
      },
      variable_);
}

Option& Option::required() {
  required_ = true;
  return *this;
}

Option& Option::takes(std::string what) {
  takes_ = std::move(what);
  return *this;
}

Option& Option::range(double least, double most) {
  least_ = least;
  most_ = most;
  has_range_ = true;
  return *this;
}

Option& Option::one_of(std::vector<std::string> words) {
  words_ = std::move(words);
  takes_.clear();
  for (const std::string& word : words_) takes_ += (takes_.empty() ? "" : "|") + word;
  return *this;
}

Option& Option::allows(std::string values) {
  allowed_ = std::move(values);
  return *this;
}

Option& Option::shows(std::string default_text) {
  default_ = std::move(default_text);
  return *this;
}

std::string Option::expected(bool names_the_most) const {
  if (!words_.empty()) return joined(words_, " or ");
  return std::visit(
      [&](const auto& target) -> std::string {
        using Target = std::decay_t<decltype(target)>;
        if constexpr (std::is_same_v<Target, Choice>) {
          return joined(target.words, " or ");
        } else if constexpr (std::is_same_v<Target, Action>) {
          return "a value";
        } else {
          using Value = ValueOf<Target>;
          if constexpr (std::is_arithmetic_v<Value>) {
            const std::string kind = std::is_integral_v<Value> ? "a whole number" : "a number";
            if (has_range_ && (most_ < kMany || names_the_most))
              return kind + " from " + bound_text(least_) + " to " + bound_text(most_);
            if (has_range_) return kind + ", " + bound_text(least_) + " or more";
            return std::is_unsigned_v<Value> ? kind + ", 0 or more" : kind;
          } else {
            return takes_ == "FILE" ? "the name of a file" : takes_ == "DIR" ? "the name of a folder" : "a text";
          }
        }
      },
      variable_);
}

void Option::refuse(std::string_view found, bool is_above) const {
  throw UsageError(fmt::format("{} takes {}; found {}", name_, expected(is_above), found));
}

void Option::set(const std::string& text) {
  const std::string found = in_quotes(text);
  if (given_ && !repeats() && !is_flag() && !std::holds_alternative<Action>(variable_))
    throw UsageError(fmt::format("{} is given once; found it again, with {}", name_, found));
  given_ = true;
  if (text.empty() && (takes_ == "FILE" || takes_ == "DIR")) refuse(found);
  const bool writes_folder = takes_ == "DIR" && (name_ == "--output" || name_ == "OUTPUT");
  if (text == "-" && writes_folder) refuse(found + " (standard output holds no folder)");
  std::error_code ignored;
  if (writes_folder && std::filesystem::exists(text, ignored) && !std::filesystem::is_directory(text, ignored))
    throw UsageError(fmt::format("{} {}: a file has that name; give a folder", name_, escaped(text)));
  if (!words_.empty() && std::find(words_.begin(), words_.end(), text) == words_.end()) refuse(found);
  std::visit(
      [&](auto& target) {
        using Target = std::decay_t<decltype(target)>;
        if constexpr (std::is_same_v<Target, bool*>) {
          *target = true;
        } else if constexpr (std::is_same_v<Target, Choice>) {
          const auto word = std::find(target.words.begin(), target.words.end(), text);
          if (word == target.words.end()) refuse(found);
          target.set(static_cast<size_t>(word - target.words.begin()));
        } else if constexpr (std::is_same_v<Target, Action>) {
          target(text);
        } else {
          using Value = ValueOf<Target>;
          if constexpr (std::is_arithmetic_v<Value>) {
            Value value{};
            // (a whole number that fails has too many digits)
            if (!parse_number(text, value)) refuse(found, has_range_ && is_whole(text));
            const auto number = static_cast<double>(value);
            if (number < least_ || number > most_) refuse(found, number > most_);
            *target = value;
          } else if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
            target->push_back(text);
          } else {
            *target = text;
          }
        }
      },
      variable_);
}

Option& Option::needs(std::string other) {
  needs_ = std::move(other);
  return *this;
}

Option& Option::excludes(std::vector<std::string> others) {
  excludes_ = std::move(others);
  return *this;
}

void Option::check_given(const std::function<bool(std::string_view)>& is_given) const {
  if (given_ && !needs_.empty() && !is_given(needs_))
    throw UsageError(fmt::format("{} does nothing without {}", name_, needs_));
  for (const std::string& other : excludes_)
    if (given_ && is_given(other)) throw UsageError(fmt::format("{} does nothing with {}", name_, other));
  if (!required_ || given_) return;
  std::string what = help_;
  if (what[0] >= 'A' && what[0] <= 'Z') what[0] = static_cast<char>(what[0] - 'A' + 'a');
  throw UsageError(fmt::format("{} is missing: {}", name_, what));
}

std::string Option::heading() const {
  if (positional()) return repeats() ? name_ + " ..." : name_;
  return takes_.empty() ? name_ : name_ + " " + takes_;
}

std::string Option::description() const {
  std::string more;
  const auto add = [&](const std::string& text) { more += (more.empty() ? "" : "; ") + text; };
  if (has_range_ && most_ < kMany) add(bound_text(least_) + " to " + bound_text(most_));
  if (!allowed_.empty()) add(allowed_);
  if (required_ && !positional()) add("required");
  if (!default_.empty()) add("default: " + default_);
  if (more.empty()) return help_;
  // A full stop follows the bracket: "Steps of it (0 or more)."
  return help_.ends_with('.') ? help_.substr(0, help_.size() - 1) + " (" + more + ")." : help_ + " (" + more + ")";
}

}  // namespace heed::cli
