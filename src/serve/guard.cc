#include "serve/guard.h"

#include <arpa/inet.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

namespace heed::serve {
namespace {

constexpr std::string_view kInterface = "/api/v1/";

bool is_ip_address(const std::string& name) {
  std::array<unsigned char, sizeof(in6_addr)> ignored;
  if (name.starts_with('[') && name.ends_with(']'))
    return inet_pton(AF_INET6, name.substr(1, name.size() - 2).c_str(), ignored.data()) == 1;
  return inet_pton(AF_INET, name.c_str(), ignored.data()) == 1;
}

// "name:port" as it stands in Host and Origin, in lower case. Port 80 may be left out.
std::string with_port(const std::string& text, int port) {
  const bool bare = text.find(':', text.find(']') == std::string::npos ? 0 : text.find(']')) == std::string::npos;
  return bare && port == 80 ? text + ":80" : text;
}

void check_host(const std::string& host, const Rules& rules) {
  const std::string ending = ":" + std::to_string(rules.port);
  if (host.ends_with(ending)) {
    const std::string name = host.substr(0, host.size() - ending.size());
    if (std::find(rules.names.begin(), rules.names.end(), name) != rules.names.end()) return;
    if (rules.any_address && is_ip_address(name)) return;
  }
  throw Refused(403, "expected this server's own address in the header Host; open the link that heed serve printed");
}

// Browsers say where a request comes from. Programs that are no browsers send none of these headers.
void check_origin(const Head& head, const std::string& host, int port, bool page) {
  const auto origin = head.find("origin");
  constexpr std::string_view kScheme = "http://";
  if (origin) {
    const std::string theirs = lower_case(*origin);
    if (!theirs.starts_with(kScheme) || with_port(theirs.substr(kScheme.size()), port) != host)
      throw Refused(403, "expected a request of this server's own page; found one of another site");
  }
  const auto site = head.find("sec-fetch-site");
  if (!site || (*site != "cross-site" && *site != "same-site")) return;
  // Following a link to the page is no harm: the page is the same for everybody, and cannot be framed.
  const auto mode = head.find("sec-fetch-mode"), destination = head.find("sec-fetch-dest");
  if (page && !origin && mode == "navigate" && destination == "document") return;
  throw Refused(403, "expected a request of this server's own page; found one of another site");
}

void check_token(const Head& head, const std::string& token) {
  if (token.empty()) return;
  constexpr std::string_view kBearer = "bearer ";
  const std::string given = head.find("authorization").value_or("");
  if (lower_case(given.substr(0, kBearer.size())) == kBearer &&
      equal_in_constant_time(std::string_view(given).substr(kBearer.size()), token))
    return;
  throw Refused(401, "expected the token of the link that heed serve printed, as Authorization: Bearer TOKEN",
                "WWW-Authenticate: Bearer");
}

// The bytes of the body. Chunks are not read: their length is known only at their end, and no browser sends them.
int64_t check_length(const Head& head) {
  if (head.find("transfer-encoding"))
    throw Refused(411, "expected a body with Content-Length; found Transfer-Encoding");
  const auto length = head.find("content-length");
  if (!length) return -1;
  int64_t bytes = 0;
  const char* const length_end = length->data() + length->size();
  const auto [end, error] = std::from_chars(length->data(), length_end, bytes);
  const bool huge = error == std::errc::result_out_of_range && (*length)[0] != '-';
  if (!huge && (error != std::errc() || end != length_end || bytes < 0))
    throw Refused(400, "expected a number of bytes in Content-Length");
  if (huge || bytes > kMostBody)
    throw Refused(413, "expected a body of at most " + std::to_string(kMostBody) + " bytes");
  return bytes;
}

void check_body(const Head& head, Asked& asked) {
  asked.body_bytes = std::max<int64_t>(check_length(head), 0);
  if (head.method != "POST") {
    if (asked.body_bytes > 0) throw Refused(400, "expected GET without a body");
    return;
  }
  std::string type = lower_case(head.find("content-type").value_or(""));
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ')) type.pop_back();
  // A page of another site can send forms and text without asking first, but not this type.
  if (type != "application/json") throw Refused(415, "expected Content-Type: application/json");
  if (!head.find("content-length")) throw Refused(411, "expected Content-Length");
}

}  // namespace

Rules rules_for(const std::string& host, bool any, int port, std::string token) {
  Rules rules{
      .names = {"127.0.0.1", "localhost", "[::1]"}, .any_address = any, .port = port, .token = std::move(token)};
  const std::string name = lower_case(host);
  rules.names.push_back(name.find(':') == std::string::npos ? name : "[" + name + "]");
  if (!any) return rules;
  char machine[256] = {};
  if (gethostname(machine, sizeof machine - 1) != 0 || machine[0] == '\0') return rules;
  const std::string full = lower_case(machine), first = full.substr(0, full.find('.'));
  for (const std::string& own : {full, first, first + ".local"}) rules.names.push_back(own);
  return rules;
}

Asked check(const Head& head, const Rules& rules, const std::function<Kind(std::string_view)>& kind_of) {
  Asked asked;
  asked.page = head.path == "/";
  const auto host = head.find("host");
  if (!host) throw Refused(400, "expected the header Host");
  const std::string own = with_port(lower_case(*host), rules.port);
  check_host(own, rules);
  check_origin(head, own, rules.port, asked.page);
  if (asked.page) {
    if (head.method != "GET" && head.method != "HEAD")
      throw Refused(405, "expected GET; found " + head.method, "Allow: GET, HEAD");
    check_body(head, asked);
    return asked;
  }
  check_token(head, rules.token);
  if (head.path.starts_with(kInterface)) asked.name = head.path.substr(kInterface.size());
  asked.kind = asked.name.empty() ? Kind::unknown : kind_of(asked.name);
  if (asked.kind == Kind::unknown)
    throw Refused(404, "there is nothing at this address; docs/serve.md names all there is");
  const char* const method = asked.kind == Kind::get ? "GET" : "POST";
  if (head.method != method)
    throw Refused(405, std::string("expected ") + method + "; found " + head.method, std::string("Allow: ") + method);
  check_body(head, asked);
  return asked;
}

std::string random_token() {
  std::array<unsigned char, 16> bytes;
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    if (got < 0 && errno == EINTR) continue;
    require(got > 0, "serve::random_token", "random bytes from the system; found none");
    filled += static_cast<size_t>(got);
  }
  std::string token;
  for (const unsigned char byte : bytes) {
    token += "0123456789abcdef"[byte >> 4];
    token += "0123456789abcdef"[byte & 15];
  }
  return token;
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  volatile unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    difference =
        difference | static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
  return difference == 0;
}

std::string public_message(std::string_view text, const std::vector<std::string>& folders) {
  std::string with_verb;
  if (text.starts_with('[')) {  // "[function] a: what was expected; what was found"
    const size_t close = text.find("] ");
    if (close != std::string_view::npos && text.substr(0, close).find_first_of(" \"'") == std::string_view::npos) {
      with_verb = text.substr(close + 2);
      const size_t colon = with_verb.rfind(": ", with_verb.find("; "));
      text = with_verb.insert(colon == std::string::npos ? 0 : colon + 2, "expected ");
    }
  }
  constexpr size_t kLongest = 500;
  if (text.size() > kLongest) {  // at a character's begin
    size_t end = kLongest;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    text = text.substr(0, end);
  }
  std::string out(text);
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  for (const std::string& folder : folders) {
    if (folder.find_first_not_of("./") == std::string::npos) continue;
    const std::string start = folder.ends_with('/') ? folder : folder + "/";
    for (size_t at; (at = out.find(start)) != std::string::npos;) out.erase(at, start.size());
  }
  // Any other absolute path keeps its last name: it begins with "/" where a word begins.
  const auto begins_word = [&out](size_t at) {
    return at == 0 || std::string_view(" \"'(=,<").find(out[at - 1]) != std::string_view::npos;
  };
  for (size_t at = 0; (at = out.find('/', at)) != std::string::npos; ++at) {
    if (!begins_word(at)) continue;
    const char quote = at == 0 ? ' ' : out[at - 1];
    const std::string_view ends = quote == '"' ? "\"" : quote == '\'' ? "'" : " ;,:)\"'";
    const size_t end = std::min(out.find_first_of(ends, at), out.size());
    const size_t last = out.substr(0, end).find_last_not_of('/');
    const size_t slash = last == std::string::npos || last < at ? at : out.rfind('/', last);
    if (last == std::string::npos || last < at) continue;  // "/" alone
    out.erase(at, slash + 1 - at);
  }
  return out;
}

}  // namespace heed::serve
