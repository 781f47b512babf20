#include "cli/json.h"

#include <charconv>
#include <cmath>

#include "heed/text.h"

namespace heed::cli {
namespace {

template <class T>
std::string number_text(T number) {
  if (!std::isfinite(number)) return "null";
  char digits[64];
  return std::string(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

}  // namespace

std::string json_of(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t valid = text::valid_utf8_prefix(text);
    for (const char c : text.substr(0, valid)) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      const auto code = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        out += '\\';
        out += c;
      } else if (c == '\n') {
        out += "\\n";
      } else if (c == '\t') {
        out += "\\t";
      } else if (code < 0x20) {
        out += "\\u00";
        out += kDigits[code >> 4];
        out += kDigits[code & 15];
      } else {
        out += c;
      }
    }
    text.remove_prefix(valid);
    if (text.empty()) break;
    out += "\uFFFD";
    text.remove_prefix(1);
  }
  return out + "\"";
}

std::string json_of(double number) { return number_text(number); }
std::string json_of(float number) { return number_text(number); }
std::string json_of(const JsonObject& object) { return object.text(); }

JsonObject& JsonObject::add_json(std::string_view key, std::string_view value) {
  if (!members_.empty()) members_ += ',';
  members_ += json_of(key);
  members_ += ':';
  members_ += value;
  return *this;
}

}  // namespace heed::cli
