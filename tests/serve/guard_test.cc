// What is let in, without sockets.
#include "serve/guard.h"

#include <gtest/gtest.h>

#include <set>

#include "serve/request.h"

namespace heed::serve::test {
namespace {

int status_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Refused& refused) {
    return refused.status();
  }
  return 200;
}

int parse_status(const std::string& bytes) {
  return status_of([&] { (void)parse_head(bytes); });
}

Kind kind_of(std::string_view name) {
  return name == "models" ? Kind::get : name == "run" ? Kind::stream : Kind::unknown;
}

int check_status(const std::string& request, const Rules& rules) {
  return status_of([&] { (void)check(parse_head(request), rules, kind_of); });
}

TEST(Guard, ReadsARequest) {
  const Head head =
      parse_head("GET /api/v1/models?model=0 HTTP/1.1\r\nHost:  a:1 \t\r\nX-Empty:\r\nx-two: a: b\r\n\r\n");
  EXPECT_EQ(head.method, "GET");
  EXPECT_EQ(head.path, "/api/v1/models");
  EXPECT_EQ(head.query, "model=0");
  EXPECT_EQ(head.find("host"), "a:1");
  EXPECT_EQ(head.find("x-empty"), "");
  EXPECT_EQ(head.find("x-two"), "a: b");
  EXPECT_EQ(head.find("origin"), std::nullopt);
  EXPECT_EQ(parse_head("GET /? HTTP/1.0\r\n\r\n").query, "");
}

TEST(Guard, RefusesWhatIsNotPlainlyARequest) {
  const std::string ending = "\r\n\r\n";
  for (const std::string& line :
       {std::string(""), std::string("GET"), std::string("GET /"), std::string("GET  HTTP/1.1"),
        std::string("get / HTTP/1.1"), std::string("GET / HTTP/2.0"), std::string("GET / HTTP/1.1 "),
        std::string("GET http://a/ HTTP/1.1"), std::string("GET * HTTP/1.1"), std::string("GET /a b HTTP/1.1"),
        std::string("GET /#a HTTP/1.1"), std::string("GET /\x80 HTTP/1.1"), std::string("GET /\0 HTTP/1.1", 15),
        std::string(" GET / HTTP/1.1"), std::string("GET /\n HTTP/1.1"), std::string(17, 'A') + " / HTTP/1.1"})
    EXPECT_EQ(parse_status(line + ending), 400) << line;
  for (const std::string& header :
       {std::string("no colon"), std::string(": value"), std::string("name : value"), std::string(" folded: value"),
        std::string("a: b\rc"), std::string("a: b\nc: d"), std::string("a: \0", 4), std::string("a: \x7f"),
        std::string("a(b): c"), std::string("n\xc3\xa4me: c")})
    EXPECT_EQ(parse_status("GET / HTTP/1.1\r\n" + header + ending), 400) << header;
  EXPECT_EQ(parse_status("GET / HTTP/1.1\r\na: b\r\n"), 400) << "no empty line";
  EXPECT_EQ(parse_status("GET / HTTP/1.1\n\n"), 400);
  std::string many = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 101; ++i) many += "a: b\r\n";
  EXPECT_EQ(parse_status(many + "\r\n"), 431);
  EXPECT_TRUE(can_begin_request(""));
  EXPECT_TRUE(can_begin_request("PO"));
  EXPECT_TRUE(can_begin_request("POST /"));
  EXPECT_FALSE(can_begin_request("\x16\x03\x01"));
  EXPECT_FALSE(can_begin_request(std::string(100, 'A')));
}

TEST(Guard, KnowsItsOwnNames) {
  const auto models = [](const std::string& host) {
    return "GET /api/v1/models HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
  };
  const Rules here = rules_for("127.0.0.1", false, 8017, "");
  EXPECT_EQ(check_status(models("127.0.0.1:8017"), here), 200);
  EXPECT_EQ(check_status(models("[::1]:8017"), here), 200);
  EXPECT_EQ(check_status(models("127.0.0.1:80170"), here), 403);
  EXPECT_EQ(check_status(models("127.0.0.1"), here), 403);
  EXPECT_EQ(check_status(models("127.0.0.2:8017"), here), 403);
  EXPECT_EQ(check_status(models("a.localhost:8017"), here), 403);
  EXPECT_EQ(check_status(models("user@localhost:8017"), here), 403);
  const Rules plain = rules_for("localhost", false, 80, "");
  EXPECT_EQ(check_status(models("localhost"), plain), 200) << "browsers leave port 80 out";
  EXPECT_EQ(check_status(models("[::1]"), plain), 200);
  EXPECT_EQ(check_status(models("[::1]:80"), plain), 200);
  const Rules named = rules_for("Lab.Example", false, 8017, "");
  EXPECT_EQ(check_status(models("lab.example:8017"), named), 200);
  EXPECT_EQ(check_status(models("10.0.0.1:8017"), named), 403);
  const Rules six = rules_for("fe80::1", false, 8017, "");
  EXPECT_EQ(check_status(models("[fe80::1]:8017"), six), 200);
  const Rules any = rules_for("0.0.0.0", true, 8017, "");
  EXPECT_EQ(check_status(models("10.0.0.1:8017"), any), 200);
  EXPECT_EQ(check_status(models("[fe80::2]:8017"), any), 200);
  EXPECT_EQ(check_status(models("10.0.0.1.evil.example:8017"), any), 403);
  EXPECT_EQ(check_status(models("[evil]:8017"), any), 403);
}

TEST(Guard, BodiesHaveALength) {
  const Rules rules = rules_for("127.0.0.1", false, 8017, "");
  const auto run = [](const std::string& headers) {
    return "POST /api/v1/run HTTP/1.1\r\nHost: 127.0.0.1:8017\r\n" + headers + "\r\n";
  };
  const std::string json = "Content-Type: application/json\r\n";
  EXPECT_EQ(check_status(run(json + "Content-Length: 12\r\n"), rules), 200);
  EXPECT_EQ(check_status(run("Content-Type: Application/JSON ; charset=utf-8\r\nContent-Length: 12\r\n"), rules), 200);
  EXPECT_EQ(check_status(run("Content-Type: application/jsonp\r\nContent-Length: 12\r\n"), rules), 415);
  EXPECT_EQ(check_status(run(json), rules), 411);
  for (const std::string length : {"", "x", "-1", "+1", "1x", "0x10", "1 2", "1,1"})
    EXPECT_EQ(check_status(run(json + "Content-Length: " + length + "\r\n"), rules), 400) << length;
  EXPECT_EQ(check_status(run(json + "Content-Length: 1048576\r\n"), rules), 200);
  EXPECT_EQ(check_status(run(json + "Content-Length: 1048577\r\n"), rules), 413);
  EXPECT_EQ(check_status(run(json + "Content-Length: 18446744073709551616\r\n"), rules), 413);
  EXPECT_EQ(check_status(run(json + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n"), rules), 411);
  EXPECT_EQ(check_status("GET /api/v1/models HTTP/1.1\r\nHost: 127.0.0.1:8017\r\nContent-Length: 1\r\n\r\n", rules),
            400);
}

TEST(Guard, JsonHasALimitedDepth) {
  const auto nested = [](int depth) {
    std::string text = "{\"a\":" + std::string(static_cast<size_t>(depth - 1), '[');
    return text + std::string(static_cast<size_t>(depth - 1), ']') + "}";
  };
  EXPECT_TRUE(parse_body(nested(kMostDepth)).is_object());
  EXPECT_EQ(status_of([&] { (void)parse_body(nested(kMostDepth + 1)); }), 400);
  EXPECT_EQ(status_of([&] { (void)parse_body(nested(400000)); }), 400);
  EXPECT_EQ(status_of([] { (void)parse_body("{}{}"); }), 400);
  EXPECT_EQ(status_of([] { (void)parse_body(std::string("{}\0", 3)); }), 400);
}

TEST(Guard, AKeyTwiceIsRefusedAndManyKeysAreReadInTime) {
  EXPECT_EQ(status_of([] { (void)parse_body(R"({"text": "a", "text": "b"})"); }), 400);
  EXPECT_EQ(status_of([] { (void)parse_body(R"({"changes": [{"head": 0, "head": 1}]})"); }), 400);
  EXPECT_TRUE(parse_body(R"({"changes": [{"head": 0}, {"head": 1}]})").is_object());
  std::string many = "{\"a\": 0";  // looked for one after the other, they would take minutes
  for (int i = 0; i < 100000; ++i) many += ", \"" + std::to_string(i) + "\": 0";
  EXPECT_EQ(parse_body(many + "}").size(), 100001U);
}

TEST(Guard, TokensAreRandomAndComparedWhole) {
  std::set<std::string> tokens;
  for (int i = 0; i < 100; ++i) tokens.insert(random_token());
  EXPECT_EQ(tokens.size(), 100U);
  EXPECT_EQ(tokens.begin()->size(), 32U);
  EXPECT_EQ(tokens.begin()->find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  EXPECT_FALSE(equal_in_constant_time("abc", "abd"));
  EXPECT_FALSE(equal_in_constant_time("abc", "ab"));
  EXPECT_FALSE(equal_in_constant_time("", "ab"));
}

TEST(Guard, MessagesNameNoFoldersOfTheMachine) {
  const auto shown = [](std::string_view text) { return public_message(text, {"/home/a/models", "../shared", "."}); };
  EXPECT_EQ(shown("[Api::call] layer: a layer below 4; found 9"), "layer: expected a layer below 4; found 9");
  EXPECT_EQ(shown("[x] \"/home/a/models/en-zh/config.json\": a file"), "\"en-zh/config.json\": expected a file");
  EXPECT_EQ(shown("../shared/en-zh has no model"), "en-zh has no model");
  EXPECT_EQ(shown("\"/opt/with space/other/file\": gone"), "\"file\": gone");
  EXPECT_EQ(shown("/etc/passwd; (/root/x) and /tmp/y/"), "passwd; (x) and y/");
  EXPECT_EQ(shown("1/2 of a / b and/or /"), "1/2 of a / b and/or /");
  EXPECT_EQ(shown("[1, 2] is a list\nof two"), "[1, 2] is a list of two");
}

}  // namespace
}  // namespace heed::serve::test
