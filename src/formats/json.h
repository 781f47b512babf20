// JSON: documents that heed and people write. Parsing and writing are templates that take seconds to compile in each
// file that calls them, so json.cc compiles them once.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace heed::io {

using Json = nlohmann::ordered_json;  // an object keeps the order of its keys

template <class Value>
struct Parsed {
  Value value;          // null where there is a problem
  std::string problem;  // empty, or what was expected and what was found
};
using ParsedJson = Parsed<Json>;

// What nlohmann's exception says, in plain words: "[json.exception.parse_error.101] parse error at line 14, column 19:
// syntax error while parsing object - unexpected end of input; expected ':'" is "the end of the text at line 14, column
// 19, where ':' should be", to stand behind "found ".
[[nodiscard]] std::string plain_json_problem(std::string_view what);

// At most `most_levels` deep, each key of an object once. Of Json, or of nlohmann::json, which loses the order of keys
// and reads objects of any size in time that is nearly linear.
template <class Value = Json>
[[nodiscard]] Parsed<Value> parse_json(std::string_view text, int most_levels = 8);
extern template Parsed<Json> parse_json(std::string_view text, int most_levels);
extern template Parsed<nlohmann::json> parse_json(std::string_view text, int most_levels);

// On one line, or with `indent` spaces a level. Throws Error for text that is not UTF-8.
[[nodiscard]] std::string json_text(const Json& value, int indent = -1);
// On one line, everything but ASCII escaped: for messages, which may be cut anywhere.
[[nodiscard]] std::string json_ascii(const Json& value);

}  // namespace heed::io
