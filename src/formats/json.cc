// The one file that compiles nlohmann's parser of documents and its writer.
#include "formats/json.h"

#include <set>
#include <vector>

#include "heed/error.h"

namespace heed::io {

namespace {

struct Refused {
  std::string problem;
};

}  // namespace

std::string plain_json_problem(std::string_view what) {
  const auto between = [&](std::string_view begin, std::string_view end) {
    const size_t from = what.find(begin);
    if (from == std::string_view::npos) return std::string();
    const std::string_view rest = what.substr(from + begin.size());
    return std::string(rest.substr(0, rest.find(end)));
  };
  const std::string place = between("parse error at ", ": ");
  if (place.empty()) return std::string(what.substr(what.find("] ") + 2));
  if (what.find("ill-formed UTF-8") != std::string_view::npos) return "bytes that are no UTF-8 at " + place;
  const auto named = [](const std::string& token) { return token == "end of input" ? "the end of the text" : token; };
  const std::string found = between("unexpected ", "; "), expected = named(between("; expected ", "\n"));
  const std::string where = expected.empty() ? "" : ", where " + expected + " should be";
  return (found.empty() ? "something else" : named(found)) + " at " + place + where;
}

template <class Value>
Parsed<Value> parse_json(std::string_view text, int most_levels) {
  // [level]: those of the object that is open there
  std::vector<std::set<std::string>> keys(static_cast<size_t>(most_levels) + 1);
  const auto check = [&](int level, typename Value::parse_event_t event, Value& value) {
    const auto at = static_cast<size_t>(level);
    if (event == Value::parse_event_t::object_start || event == Value::parse_event_t::array_start) {
      if (level >= most_levels)
        throw Refused{"JSON at most " + std::to_string(most_levels) + " levels deep; found more"};
      keys[at + 1].clear();
    } else if (event == Value::parse_event_t::key) {
      const auto& key = value.template get_ref<const std::string&>();
      if (!keys[at].insert(key).second) throw Refused{"each key once; found \"" + key + "\" twice"};
    }
    return true;
  };
  try {
    Value value = Value::parse(text, check);
    if (const size_t nul = text.find('\0'); nul != std::string_view::npos)  // nlohmann's reader ends there
      throw Refused{"JSON; found a NUL at byte " + std::to_string(nul)};
    return {.value = std::move(value), .problem = {}};
  } catch (const typename Value::exception& error) {
    return {.value = nullptr, .problem = "JSON; found " + plain_json_problem(error.what())};
  } catch (Refused& refused) {
    return {.value = nullptr, .problem = std::move(refused.problem)};
  }
}

template Parsed<Json> parse_json(std::string_view text, int most_levels);
template Parsed<nlohmann::json> parse_json(std::string_view text, int most_levels);

std::string json_text(const Json& value, int indent) {
  try {
    return value.dump(indent);
  } catch (const Json::exception&) {
    fail("json_text", "text in UTF-8; found other bytes");
  }
}

std::string json_ascii(const Json& value) { return value.dump(-1, ' ', true, Json::error_handler_t::replace); }

}  // namespace heed::io
