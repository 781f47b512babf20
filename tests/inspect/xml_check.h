// A small judge of well-formed XML: tags nest, attributes are quoted, no stray '<' or '&', no control characters.
#pragma once

#include <cctype>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace heed::inspect {

struct XmlCheck {
  std::string error;  // empty: well-formed
  std::map<std::string, int> elements;
  std::map<std::string, int> attributes;
};

inline bool starts_entity(std::string_view text, size_t at) {
  const size_t end = text.find(';', at);
  if (end == std::string_view::npos || end - at > 8) return false;
  const std::string_view name = text.substr(at + 1, end - at - 1);
  if (name == "amp" || name == "lt" || name == "gt" || name == "quot" || name == "apos") return true;
  if (name.size() < 2 || name[0] != '#') return false;
  for (char c : name.substr(1))
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) return false;
  return true;
}

inline XmlCheck check_xml(std::string_view text) {
  XmlCheck out;
  std::vector<std::string> open;
  const auto fail = [&](size_t at, const std::string& what) {
    out.error = what + " at " + std::to_string(at) + ": " + std::string(text.substr(at, 60));
    return out;
  };
  const auto is_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == ':';
  };
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') return fail(at, "control character");
    if (c == '&' && !starts_entity(text, at)) return fail(at, "stray &");
    if (c != '<') {
      if (open.empty() && c != '\n') return fail(at, "text outside the root");
      ++at;
      continue;
    }
    ++at;
    const bool closing = at < text.size() && text[at] == '/';
    if (closing) ++at;
    std::string name;
    while (at < text.size() && is_name(text[at])) name += text[at++];
    if (name.empty()) return fail(at, "stray <");
    if (closing) {
      if (open.empty() || open.back() != name || text[at] != '>') return fail(at, "wrong closing tag");
      open.pop_back();
      ++at;
      continue;
    }
    ++out.elements[name];
    while (at < text.size() && text[at] == ' ') {
      ++at;
      std::string attribute;
      while (at < text.size() && is_name(text[at])) attribute += text[at++];
      if (attribute.empty() || text.substr(at, 2) != "=\"") return fail(at, "attribute");
      ++out.attributes[attribute];
      for (at += 2; at < text.size() && text[at] != '"'; ++at)
        if (text[at] == '<' || (text[at] == '&' && !starts_entity(text, at))) return fail(at, "attribute value");
      ++at;
    }
    if (text.substr(at, 2) == "/>") {
      at += 2;
    } else if (at < text.size() && text[at] == '>') {
      open.push_back(name);
      ++at;
    } else {
      return fail(at, "tag");
    }
  }
  if (!open.empty()) out.error = "not closed: " + open.back();
  return out;
}

}  // namespace heed::inspect
