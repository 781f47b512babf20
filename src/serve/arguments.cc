#include "serve/arguments.h"

#include <algorithm>
#include <cmath>

#include "heed/error.h"

namespace heed::serve {
namespace {

// A value as an error shows it: short, and valid UTF-8 whatever was sent.
std::string shown(const nlohmann::json& value) {
  constexpr size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);  // (ASCII alone)
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

std::string range_of(int64_t least, int64_t most) {
  return "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
}

int64_t checked_integer(const std::string& name, const nlohmann::json& value, int64_t least, int64_t most) {
  if (!value.is_number_integer()) refuse(name, range_of(least, most), value);
  const bool large = value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(most);
  if (large || value.get<int64_t>() < least || value.get<int64_t>() > most) refuse(name, range_of(least, most), value);
  return value.get<int64_t>();
}

}  // namespace

void refuse(std::string_view name, std::string_view expected, const nlohmann::json& found) {
  throw Error(std::string(name) + ": expected " + std::string(expected) + "; found " + shown(found));
}

Arguments::Arguments(const nlohmann::json& object, const std::vector<std::string_view>& known, std::string name)
    : object_(object), name_(std::move(name)) {
  if (!object.is_object()) refuse(name_.empty() ? "the request" : name_, "a JSON object", object);
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    std::string all;
    for (const std::string_view one : known) all += (all.empty() ? "" : ", ") + std::string(one);
    throw Error((name_.empty() ? "" : name_ + ": ") +
                (all.empty() ? "expected no members" : "expected the members " + all) + "; found " + shown(key));
  }
}

std::string Arguments::full_name(std::string_view name) const {
  return (name_.empty() ? "" : name_ + ".") + std::string(name);
}

const nlohmann::json& Arguments::at(std::string_view name) const {
  const auto found = object_.find(name);
  if (found == object_.end()) throw Error(full_name(name) + ": expected in the request; it is missing");
  return *found;
}

int64_t Arguments::integer(std::string_view name, int64_t least, int64_t most) const {
  return checked_integer(full_name(name), at(name), least, most);
}

int64_t Arguments::integer(std::string_view name, int64_t least, int64_t most, int64_t otherwise) const {
  return has(name) ? integer(name, least, most) : otherwise;
}

std::optional<double> Arguments::number(std::string_view name, double least, double most) const {
  if (!has(name)) return {};
  const nlohmann::json& value = at(name);
  const std::string expected = "a number from " + nlohmann::json(least).dump() + " to " + nlohmann::json(most).dump();
  if (!value.is_number()) refuse(full_name(name), expected, value);
  const double found = value.get<double>();
  if (!std::isfinite(found) || found < least || found > most) refuse(full_name(name), expected, value);
  return found;
}

double Arguments::number(std::string_view name, double least, double most, double otherwise) const {
  return number(name, least, most).value_or(otherwise);
}

bool Arguments::flag(std::string_view name, bool otherwise) const {
  if (!has(name)) return otherwise;
  if (!at(name).is_boolean()) refuse(full_name(name), "true or false", at(name));
  return at(name).get<bool>();
}

std::string Arguments::text(std::string_view name) const {
  if (!at(name).is_string()) refuse(full_name(name), "a text", at(name));
  return at(name).get<std::string>();
}

std::vector<int64_t> Arguments::integers(std::string_view name, int64_t least, int64_t most) const {
  const nlohmann::json& list = at(name);
  if (!list.is_array()) refuse(full_name(name), "a list of whole numbers", list);
  std::vector<int64_t> out;
  out.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i)
    out.push_back(checked_integer(full_name(name) + "[" + std::to_string(i) + "]", list[i], least, most));
  return out;
}

}  // namespace heed::serve
