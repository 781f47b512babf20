// JSON documents of others, which may be large: a tokenizer has hundreds of thousands of members in one object.
//
// Reading is linear in the text, does not recurse, and refuses documents that are nested deeper than 32 levels or that
// have a key twice.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heed::io {

class JsonValue {
 public:
  enum class Kind { null, boolean, integer, number, text, array, object };
  using Member = std::pair<std::string, JsonValue>;

  // Defined in json_document.cc: here the members are not complete yet, as clang sees it.
  JsonValue();
  ~JsonValue();
  JsonValue(const JsonValue& other);
  JsonValue(JsonValue&& other) noexcept;
  JsonValue& operator=(const JsonValue& other);
  JsonValue& operator=(JsonValue&& other) noexcept;

  Kind kind = Kind::null;
  bool boolean = false;
  int64_t integer = 0;
  double number = 0;             // of an integer too
  std::string text;              // of a number that is not whole, how it is written
  std::vector<JsonValue> items;  // of an array
  std::vector<Member> members;   // of an object, in their order

  // The member of this name, or nullptr. Takes time linear in the number of members.
  [[nodiscard]] const JsonValue* find(std::string_view key) const;
  [[nodiscard]] bool is(Kind other) const { return kind == other; }
};

// Throws Error("[function] name: JSON...") for anything else than one document in UTF-8.
[[nodiscard]] JsonValue parse_json_document(std::string_view text, const std::string& name, std::string_view function);

}  // namespace heed::io
