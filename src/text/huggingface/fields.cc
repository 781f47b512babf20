#include "text/huggingface/fields.h"

#include "base/files.h"
#include "text/huggingface/characters.h"

namespace heed::text::huggingface {

using Kind = io::JsonValue::Kind;

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::null: return "null";
    case Kind::boolean: return "true or false";
    case Kind::integer: return "a whole number";
    case Kind::number: return "a number";
    case Kind::text: return "a text";
    case Kind::array: return "an array";
    case Kind::object: break;
  }
  return "an object";
}

Fields::Fields(const io::JsonValue& value, std::string file, std::string place)
    : value_(value), file_(std::move(file)), place_(std::move(place)) {
  require(value.is(Kind::object), "load_tokenizer", name(), ": an object; found ", name_of(value.kind));
}

std::string Fields::name(std::string_view key) const {
  std::string made = file_;
  if (!place_.empty() || !key.empty()) made += ", ";
  made += place_;
  if (!place_.empty() && !key.empty()) made += ".";
  return made.append(key);
}

const io::JsonValue* Fields::find(std::string_view key) const {
  const io::JsonValue* const found = value_.find(key);
  return found == nullptr || found->is(Kind::null) ? nullptr : found;
}

const io::JsonValue& Fields::get(std::string_view key, Kind kind) const {
  const io::JsonValue* const found = value_.find(key);
  if (found == nullptr) refuse(key, name_of(kind), "; found nothing");
  if (!found->is(kind)) refuse(key, name_of(kind), "; found ", name_of(found->kind));
  return *found;
}

std::string Fields::text_or(std::string_view key, const std::string& otherwise) const {
  return find(key) == nullptr ? otherwise : text(key);
}

bool Fields::flag_or(std::string_view key, bool otherwise) const {
  return find(key) == nullptr ? otherwise : flag(key);
}

int64_t Fields::whole(std::string_view key, int64_t least, int64_t most) const {
  const int64_t value = get(key, Kind::integer).integer;
  if (value < least || value > most) refuse(key, "a whole number from ", least, " to ", most, "; found ", value);
  return value;
}

int64_t Fields::whole_or(std::string_view key, int64_t least, int64_t most, int64_t otherwise) const {
  return find(key) == nullptr ? otherwise : whole(key, least, most);
}

std::string Fields::character(std::string_view key) const {
  const std::string& value = text(key);
  if (count_characters(value) != 1) refuse(key, "one character; found ", files::quoted(value));
  return value;
}

Fields Fields::object(std::string_view key) const {
  return {get(key, Kind::object), file_, place_.empty() ? std::string(key) : place_ + "." + std::string(key)};
}

std::optional<Fields> Fields::object_if_any(std::string_view key) const {
  if (find(key) == nullptr) return std::nullopt;
  return object(key);
}

std::vector<Fields> Fields::objects(std::string_view key) const {
  std::vector<Fields> made;
  const auto& items = get(key, Kind::array).items;
  const std::string prefix = place_.empty() ? std::string(key) : place_ + "." + std::string(key);
  for (size_t i = 0; i < items.size(); ++i) made.emplace_back(items[i], file_, prefix + "[" + std::to_string(i) + "]");
  return made;
}

size_t Fields::one_of(std::string_view key, const std::vector<std::string_view>& words) const {
  const std::string& value = text(key);
  std::string all;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == value) return i;
    ((all += i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") += words[i]);
  }
  refuse(key, all, "; found ", files::quoted(value));
}

}  // namespace heed::text::huggingface
