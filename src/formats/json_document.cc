#include "formats/json_document.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "formats/json.h"
#include "heed/error.h"

namespace heed::io {

JsonValue::JsonValue() = default;
JsonValue::~JsonValue() = default;
JsonValue::JsonValue(const JsonValue& other) = default;
JsonValue::JsonValue(JsonValue&& other) noexcept = default;
JsonValue& JsonValue::operator=(const JsonValue& other) = default;
JsonValue& JsonValue::operator=(JsonValue&& other) noexcept = default;

const JsonValue* JsonValue::find(std::string_view key) const {
  for (const Member& member : members) {
    if (member.first == key) return &member.second;
  }
  return nullptr;
}

namespace {

constexpr size_t kDeepest = 32;

// nlohmann's parser calls these functions in the order of the text. It keeps its own stack, so depth costs no
// recursion.
class DocumentBuilder {
 public:
  explicit DocumentBuilder(JsonValue& root) : root_(root) {}

  std::string problem;

  bool null() { return add({}); }
  bool boolean(bool value) {
    JsonValue made;
    made.kind = JsonValue::Kind::boolean;
    made.boolean = value;
    return add(std::move(made));
  }
  bool number_integer(int64_t value) {
    JsonValue made;
    made.kind = JsonValue::Kind::integer;
    made.integer = value;
    made.number = static_cast<double>(value);
    return add(std::move(made));
  }
  bool number_unsigned(uint64_t value) {
    if (value <= INT64_MAX) return number_integer(static_cast<int64_t>(value));
    return number_float(static_cast<double>(value), {});
  }
  bool number_float(double value, const std::string& written) {
    JsonValue made;
    made.kind = JsonValue::Kind::number;
    made.number = value;
    made.text = written;
    return add(std::move(made));
  }
  bool string(std::string& value) {
    JsonValue made;
    made.kind = JsonValue::Kind::text;
    made.text = std::move(value);
    return add(std::move(made));
  }
  bool binary(nlohmann::json::binary_t& /*value*/) { return false; }  // JSON has none
  bool start_object(size_t /*size*/) { return open(JsonValue::Kind::object); }
  bool start_array(size_t /*size*/) { return open(JsonValue::Kind::array); }
  bool key(std::string& name) {
    open_.back()->members.emplace_back(std::move(name), JsonValue{});
    return true;
  }
  bool end_object() {
    const auto& members = open_.back()->members;
    std::vector<std::string_view> names;
    names.reserve(members.size());
    for (const auto& member : members) names.emplace_back(member.first);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) {
      problem = "each key once; found \"" + std::string(*twice) + "\" twice";
      return false;
    }
    open_.pop_back();
    return true;
  }
  bool end_array() {
    open_.pop_back();
    return true;
  }
  bool parse_error(size_t /*position*/, const std::string& /*token*/, const nlohmann::detail::exception& error) {
    problem = "JSON; found " + plain_json_problem(error.what());
    return false;
  }

 private:
  bool open(JsonValue::Kind kind) {
    if (open_.size() >= kDeepest) {
      problem = "JSON at most 32 levels deep; found more";
      return false;
    }
    JsonValue made;
    made.kind = kind;
    JsonValue& place = place_of(std::move(made));
    open_.push_back(&place);
    return true;
  }
  bool add(JsonValue value) {
    (void)place_of(std::move(value));
    return true;
  }
  // Pointers to open values stay valid: their parents get no further member before they are closed.
  JsonValue& place_of(JsonValue value) {
    if (open_.empty()) return root_ = std::move(value);
    JsonValue& parent = *open_.back();
    if (parent.is(JsonValue::Kind::array)) return parent.items.emplace_back(std::move(value));
    return parent.members.back().second = std::move(value);
  }

  JsonValue& root_;
  std::vector<JsonValue*> open_;
};

}  // namespace

JsonValue parse_json_document(std::string_view text, const std::string& name, std::string_view function) {
  JsonValue root;
  DocumentBuilder builder(root);
  const bool parsed = nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  require(parsed, function, name, ": ", builder.problem);
  return root;
}

}  // namespace heed::io
