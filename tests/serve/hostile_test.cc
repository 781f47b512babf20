// Clients that send what no client should, and clients that are slow.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "base/clock.h"
#include "serve/client.h"
#include "serve/stand_in.h"

namespace heed::serve::test {
namespace {

using Random = std::mt19937_64;

size_t below(Random& random, size_t end) { return static_cast<size_t>(random() % end); }

std::string any_bytes(Random& random, size_t most) {
  std::string bytes(below(random, most + 1), ' ');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

template <size_t N>
std::string one_of(Random& random, const char* const (&words)[N]) {
  return words[below(random, N)];
}

std::string broken_first_line(Random& random, int port) {
  const char* const lines[] = {"",
                               "GET",
                               "GET /",
                               "GET / HTTP/9.9",
                               "GET  / HTTP/1.1",
                               "/ GET HTTP/1.1",
                               "get / x",
                               "GET / HTTP/1",
                               "\tGET / HTTP/1.1",
                               "GET /a b c HTTP/1.1",
                               "GET \\ HTTP/1.1",
                               "PRI * HTTP/2.0"};
  return (below(random, 3) == 0 ? any_bytes(random, 200) : one_of(random, lines)) + "\r\n" + host_line(port) + "\r\n";
}

std::string broken_header(Random& random, int port) {
  const char* const lines[] = {"no colon",
                               ": empty",
                               " folded: line",
                               "a\tb: c",
                               "Host : x",
                               "Content-Length: -5",
                               "Content-Length: 0x5",
                               "Content-Length: 99999999999999999999999999",
                               "Transfer-Encoding: chunked",
                               "Expect"};
  std::string line = one_of(random, lines);
  if (below(random, 3) == 0) line = "X" + any_bytes(random, 100) + std::string(1, '\0');
  return "POST /api/v1/echo HTTP/1.1\r\n" + host_line(port) + "Content-Type: application/json\r\n" + line +
         "\r\n\r\n{}";
}

std::string broken_chunks(Random& random, int port) {
  const char* const sizes[] = {"ffffffffffffffff",       "-1", "zz", "0", "7fffffffffffffff", "2;a=b", "", " 2",
                               "00000000000000000000002"};
  std::string text =
      "POST /api/v1/echo HTTP/1.1\r\n" + host_line(port) +
      "Content-Type: application/json\r\nTransfer-Encoding: " + (below(random, 2) == 0 ? "chunked" : "gzip, chunked") +
      "\r\n\r\n";
  for (size_t i = below(random, 5); i > 0; --i) text += one_of(random, sizes) + "\r\n" + any_bytes(random, 20) + "\r\n";
  return text;
}

// JSON that is cut off, has something changed, or is no object.
std::string broken_json(Random& random, int port) {
  std::string json =
      R"({"model": 0, "text": "Where is the \"station\"?", "list": [1, -2.5e3, true, null, {"a": "\u00e4"}]})";
  switch (below(random, 5)) {
    case 0: json.resize(below(random, json.size())); break;
    case 1: json.insert(below(random, json.size() - 1) + 1, 1, '\0'); break;
    case 2: json.insert(json.find("Where") + below(random, 5), 1, static_cast<char>(0xC0 + below(random, 64))); break;
    case 3: json = "[" + json + "]"; break;
    default: json = any_bytes(random, 60);
  }
  return post_text(port, "echo", json);
}

std::string cut_off(Random& random, int port) {
  std::string text = post_text(port, "echo", R"({"text": "cut off"})");
  text.resize(below(random, text.size()));
  return text;
}

std::string changed_byte(Random& random, int port) {
  std::string text = "GET /api/v1/models?model=0 HTTP/1.1\r\n" + host_line(port) + "Accept: */*\r\n";
  const char* const control[] = {"\x01", "\x7f", "\n", "\r", "\x1b"};
  text.insert(below(random, text.size() - 4), below(random, 3) == 0 ? std::string(1, '\0') : one_of(random, control));
  return text + "\r\n";
}

std::string malformed(Random& random, int port) {
  switch (below(random, 7)) {
    case 0: return broken_first_line(random, port);
    case 1: return broken_header(random, port);
    case 2: return broken_chunks(random, port);
    case 3: return broken_json(random, port);
    case 4: return cut_off(random, port);
    case 5: return changed_byte(random, port);
    default: return any_bytes(random, 300);
  }
}

TEST(Hostile, TenThousandMalformedRequestsAreRefused) {
  Served served;
  constexpr int kThreads = 4, kEach = 2500;
  std::atomic<int> refused{0}, closed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Random random(static_cast<uint64_t>(2026 + t));
      for (int i = 0; i < kEach; ++i) {
        const std::string text = malformed(random, served.port());
        Client client(served.port());
        client.send(text);
        client.end_sending();
        const std::string got = client.receive();
        const int status = parse_answer(got).status;
        EXPECT_TRUE(client.ended()) << text;
        EXPECT_TRUE(got.empty() || (status >= 400 && status < 500)) << text << "\n" << got;
        ++(got.empty() ? closed : refused);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(refused, 3000);
  EXPECT_GT(closed, 500) << "those that end before they are complete";
  EXPECT_EQ(served.seen.calls, 0) << "none of them is computed";
  EXPECT_EQ(post(served.port(), "echo", R"({"a": 1})").body, R"({"a":1})");
}

TEST(Hostile, AHeadOrABodyWithoutAnEndIsRefused) {
  Served served;
  for (const std::string start : {"", "GET /", "GET / HTTP/1.1\r\n"}) {
    Client client(served.port());
    client.send(start);
    for (int i = 0; i < 200 && client.send(std::string(10000, 'a')); ++i) {
    }
    const int status = parse_answer(client.receive()).status;
    EXPECT_TRUE(status == 400 || status == 431 || status == 0) << status;
    EXPECT_TRUE(client.ended());
  }
  EXPECT_EQ(post(served.port(), "echo", "{}").status, 200);
}

TEST(Hostile, SlowClientsKeepNobodyWaiting) {
  Served served;
  const std::string text = post_text(served.port(), "echo", "{}");
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 64; ++i) slow.push_back(std::make_unique<Client>(served.port()));
  for (size_t second = 0; second < 3; ++second) {
    for (const auto& client : slow) client->send(text.substr(second, 1));
    const auto start = Clock::now();
    for (int i = 0; i < 5; ++i) EXPECT_EQ(post(served.port(), "echo", "{}").status, 200);
    EXPECT_LT(seconds_since(start), 1);
    sleep_ms(1000);
  }
}

// More clients than there are places: the slowest ones lose theirs.
TEST(Hostile, TooManySlowClientsKeepNobodyWaiting) {
  Served served;
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 350; ++i) {
    slow.push_back(std::make_unique<Client>(served.port()));
    slow.back()->send("P");
  }
  const auto start = Clock::now();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(post(served.port(), "echo", "{}").status, 200);
  EXPECT_LT(seconds_since(start), 2);
}

}  // namespace
}  // namespace heed::serve::test
