#include "serve/request.h"

#include <algorithm>
#include <charconv>

#include "formats/json.h"
#include "serve/service.h"

namespace heed::serve {
namespace {

constexpr size_t kMostHeaders = 100, kLongestMethod = 16;

[[noreturn]] void malformed(const std::string& what) { throw Refused(400, "expected a request of HTTP/1.1; " + what); }

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// RFC 9110, "token": what names of headers are made of.
bool is_name_character(char c) {
  return is_digit(c) || is_letter(c) || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_value_character(char c) {
  const auto code = static_cast<unsigned char>(c);
  return c == '\t' || (code >= 0x20 && code != 0x7f);
}

std::string_view without_spaces(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

void parse_request_line(std::string_view line, Head& head) {
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) malformed("found a first line without three words");
  const std::string_view method = line.substr(0, first), target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (method.empty() || method.size() > kLongestMethod ||
      !std::all_of(method.begin(), method.end(), [](char c) { return c >= 'A' && c <= 'Z'; }))
    malformed("found no method");
  if (version != "HTTP/1.1" && version != "HTTP/1.0") malformed("found another version");
  const auto in_address = [](char c) { return c > 0x20 && c < 0x7f && c != '#'; };
  if (!target.starts_with('/') || !std::all_of(target.begin(), target.end(), in_address))
    malformed("found an address that is no path");
  const size_t question = std::min(target.find('?'), target.size());
  head.is_old = version == "HTTP/1.0";
  head.method = method;
  head.path = target.substr(0, question);
  head.query = target.substr(std::min(question + 1, target.size()));
}

void parse_header(std::string_view line, Head& head) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) malformed("found a header without a name");
  const std::string_view name = line.substr(0, colon), value = without_spaces(line.substr(colon + 1));
  if (!std::all_of(name.begin(), name.end(), is_name_character)) malformed("found a header whose name is no word");
  if (!std::all_of(value.begin(), value.end(), is_value_character)) malformed("found a control character");
  if (head.headers.size() == kMostHeaders) throw Refused(431, "expected fewer headers");
  head.headers.emplace_back(lower_case(std::string(name)), value);
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    if (text[i] == '+') {
      out += ' ';
    } else if (text[i] != '%') {
      out += text[i];
    } else {
      const std::string_view digits = text.substr(std::min(i + 1, text.size()), 2);
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
      if (error != std::errc() || digits.size() != 2 || end != digits.data() + 2)
        throw Refused(400, "expected % and two hexadecimal digits in the query");
      out += static_cast<char>(code);
      i += 2;
    }
  }
  return out;
}

bool is_utf8(const std::string& text) {
  try {
    return !nlohmann::json(text).dump().empty();
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

nlohmann::json number_or_text(std::string text) {
  int64_t number = 0;
  const char* const text_end = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), text_end, number);
  if (error == std::errc() && end == text_end && !text.empty()) return number;
  return text;
}

}  // namespace

std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

std::optional<std::string> Head::find(std::string_view name) const {
  std::optional<std::string> found;
  for (const auto& [other, value] : headers) {
    if (other != name) continue;
    if (found) throw Refused(400, "expected the header " + std::string(name) + " once; found it twice");
    found = value;
  }
  return found;
}

Head parse_head(std::string_view bytes) {
  Head head;
  for (bool first = true;; first = false) {
    const size_t end = bytes.find("\r\n");
    if (end == std::string_view::npos) malformed("found no empty line after the headers");
    const std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(end + 2);
    if (first) {
      parse_request_line(line, head);
    } else if (line.empty()) {
      return head;
    } else {
      parse_header(line, head);
    }
  }
}

bool can_begin_request(std::string_view bytes) {
  const size_t method = std::min(bytes.find(' '), bytes.size());
  if (method > kLongestMethod) return false;
  return std::all_of(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(method),
                     [](char c) { return c >= 'A' && c <= 'Z'; });
}

nlohmann::json parse_query(std::string_view query) {
  nlohmann::json object = nlohmann::json::object();
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view part = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (part.empty()) continue;
    const size_t equals = std::min(part.find('='), part.size());
    const std::string name = percent_decoded(part.substr(0, equals));
    std::string value = percent_decoded(part.substr(std::min(equals + 1, part.size())));
    if (!is_utf8(name) || !is_utf8(value)) throw Refused(400, "expected a query in UTF-8");
    if (object.contains(name)) throw Refused(400, "expected each name once in the query");
    object[name] = number_or_text(std::move(value));
  }
  return object;
}

nlohmann::json parse_body(std::string_view body) {
  io::Parsed<nlohmann::json> parsed = io::parse_json<nlohmann::json>(body, kMostDepth);
  if (!parsed.problem.empty()) throw Refused(400, "expected " + parsed.problem);
  if (!parsed.value.is_object()) throw Refused(400, "expected a JSON object");
  return std::move(parsed.value);
}

}  // namespace heed::serve
