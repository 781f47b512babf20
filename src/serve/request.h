// A request as it came over the wire, read strictly: what is not plainly HTTP/1.1 is refused.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heed::serve {

inline constexpr int64_t kMostHead = 16 << 10;  // bytes of the request line and the headers
inline constexpr int64_t kMostBody = 1 << 20;
inline constexpr int kMostDepth = 32;  // of JSON

struct Head {
  std::string method, path, query;                           // the query without its "?"
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  bool is_old = false;                                       // HTTP/1.0

  // The value of a header; none where it is missing. Throws Refused where it is given twice.
  [[nodiscard]] std::optional<std::string> find(std::string_view name) const;
};

// `bytes` end with the empty line. Throws Refused.
[[nodiscard]] Head parse_head(std::string_view bytes);
// Whether these first bytes can become a request. A client that speaks TLS is not kept waiting.
[[nodiscard]] bool can_begin_request(std::string_view bytes);

// "model=0&after=1200" as {"model": 0, "after": 1200}; what is not a whole number is a string. Throws Refused.
[[nodiscard]] nlohmann::json parse_query(std::string_view query);
// A JSON object of limited depth in UTF-8. Throws Refused.
[[nodiscard]] nlohmann::json parse_body(std::string_view body);

[[nodiscard]] std::string lower_case(std::string text);

}  // namespace heed::serve
