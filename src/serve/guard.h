// What is let in. A page of another site that is open in the same browser must not get at the models, neither by asking
// from there nor by giving its own name the address of this machine; and a server that others can reach asks for a
// token.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/request.h"
#include "serve/service.h"

namespace heed::serve {

struct Rules {
  std::vector<std::string> names;  // that the header Host may have, in lower case, without the port
  bool any_address = false;        // Host may be any IP address: the server listens on all of them
  int port = 0;
  std::string token;  // that requests have to carry; empty: none
};
// For a server that listens on `host`. `any`: on all addresses of this machine.
[[nodiscard]] Rules rules_for(const std::string& host, bool any, int port, std::string token);

struct Asked {
  bool page = false;  // `/`; otherwise `name` of the interface
  Kind kind = Kind::unknown;
  std::string name;
  int64_t body_bytes = 0;
};
// Throws Refused unless the request may be answered. Nothing of its body is needed.
[[nodiscard]] Asked check(const Head& head, const Rules& rules, const std::function<Kind(std::string_view)>& kind_of);

// 128 random bits in hexadecimal.
[[nodiscard]] std::string random_token();
// Takes as long wherever the first difference is.
[[nodiscard]] bool equal_in_constant_time(std::string_view a, std::string_view b);

// An error as clients read it: without the function's name, without `folders` and without the folders in which files
// of this machine are.
[[nodiscard]] std::string public_message(std::string_view text, const std::vector<std::string>& folders);

}  // namespace heed::serve
