// What a request says, checked: every value has a name, a type and a range.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heed::serve {

// Throws Error: "<name>: expected <expected>; found <value>".
[[noreturn]] void refuse(std::string_view name, std::string_view expected, const nlohmann::json& found);

// The members of one JSON object.
class Arguments {
 public:
  // Throws Error where there is a member that is not in `known`.
  Arguments(const nlohmann::json& object, const std::vector<std::string_view>& known, std::string name = {});

  [[nodiscard]] bool has(std::string_view name) const { return object_.contains(name); }
  [[nodiscard]] const nlohmann::json& at(std::string_view name) const;  // throws Error where it is missing
  // From `least` to `most`, both included.
  [[nodiscard]] int64_t integer(std::string_view name, int64_t least, int64_t most) const;
  [[nodiscard]] int64_t integer(std::string_view name, int64_t least, int64_t most, int64_t otherwise) const;
  [[nodiscard]] std::optional<double> number(std::string_view name, double least, double most) const;
  [[nodiscard]] double number(std::string_view name, double least, double most, double otherwise) const;
  [[nodiscard]] bool flag(std::string_view name, bool otherwise) const;
  [[nodiscard]] std::string text(std::string_view name) const;
  [[nodiscard]] std::vector<int64_t> integers(std::string_view name, int64_t least, int64_t most) const;
  // "changes[3].row"
  [[nodiscard]] std::string full_name(std::string_view name) const;

 private:
  const nlohmann::json& object_;
  std::string name_;
};

}  // namespace heed::serve
