// JSON for standard output: objects written key by key.
//
//   JsonObject object;
//   object.add("text", text).add("score", score).add("tokens", tokens);
//   print_line(object.text());
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heed::cli {

class JsonObject;

// Text that is not UTF-8 has U+FFFD where it is not; numbers that are not finite are null.
[[nodiscard]] std::string json_of(std::string_view text);
[[nodiscard]] std::string json_of(double number);
[[nodiscard]] std::string json_of(float number);
[[nodiscard]] std::string json_of(const JsonObject& object);
[[nodiscard]] inline std::string json_of(std::same_as<bool> auto value) { return value ? "true" : "false"; }
[[nodiscard]] std::string json_of(std::integral auto number) requires(!std::same_as<decltype(number), bool>) {
  return std::to_string(number);
}

template <class T>
[[nodiscard]] std::string json_of(const std::vector<T>& items) {
  std::string out = "[";
  for (const T& item : items) {
    if (out.size() > 1) out += ',';
    out += json_of(item);
  }
  return out + "]";
}

class JsonObject {
 public:
  template <class T>
  JsonObject& add(std::string_view key, const T& value) {
    return add_json(key, json_of(value));
  }
  JsonObject& add_json(std::string_view key, std::string_view value);  // a value that is JSON already
  [[nodiscard]] std::string text() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

}  // namespace heed::cli
