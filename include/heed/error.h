// The one exception type of heed, and the two functions that throw it.
//
// Every message reads `[function] what was expected; what was found`. The library never prints, aborts or exits:
// whatever goes wrong, in a call or in a file, arrives as a heed::Error. A message is one line of UTF-8.
//
//   require(heads % kv_heads == 0, "attention", "a multiple of ", kv_heads, " query heads; found ", heads);
#pragma once

#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "heed/export.h"

HEED_EXPORT_BEGIN
namespace heed {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {

// clang-format off
inline void append(std::string& out, std::string_view text) { out += text; }

template <class T>
  requires std::is_arithmetic_v<T>
void append(std::string& out, T value) {
  if constexpr (std::is_same_v<T, bool>) {
    out += value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, char>) {
    out += value;
  } else {
    char digits[64];  // to_chars, not printf: the locale must not decide what an error says
    out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  }
}

// Anything with a to_string found by argument-dependent lookup (Shape, DType, Isa, ...).
template <class T>
  requires(!std::is_arithmetic_v<T> && !std::is_convertible_v<const T&, std::string_view>)
void append(std::string& out, const T& value) {
  out += to_string(value);
}
// clang-format on

// Replaces control characters (a line break among them) and what is not UTF-8 by "?". Names and texts of files get into
// messages, and messages into terminals, logs and Python.
void make_plain(std::string& text);

}  // namespace detail

// Throws Error("[function] parts...").
template <class... Parts>
[[noreturn]] void fail(std::string_view function, const Parts&... parts) {
  std::string message = "[";
  message += function;
  message += "] ";
  (detail::append(message, parts), ...);
  detail::make_plain(message);
  throw Error(message);
}

// Throws like fail() unless `ok`. The message is only put together when it is needed.
template <class... Parts>
void require(bool ok, std::string_view function, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail(function, parts...);
}

}  // namespace heed
HEED_EXPORT_END
