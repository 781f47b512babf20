// A real server, asked over a socket.
#include "serve/server.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "serve/client.h"
#include "serve/request.h"
#include "serve/stand_in.h"

namespace heed::serve::test {
namespace {

std::string error_of(const Answered& answer) {
  const auto json = nlohmann::json::parse(answer.body, nullptr, false);
  return json.is_object() ? json.value("error", "") : "";
}

void expect_error(const Answered& answer, int status, const std::string& part) {
  EXPECT_EQ(answer.status, status) << answer.body;
  EXPECT_NE(error_of(answer).find(part), std::string::npos) << answer.body;
  EXPECT_EQ(answer.body.find('\n'), std::string::npos);
}

template <class Condition>
bool becomes_true(const Condition& condition, int milliseconds = 5000) {
  for (int i = 0; i < milliseconds / 5 && !condition(); ++i) sleep_ms(5);
  return condition();
}

TEST(Server, GivesThePageAndAnswers) {
  const Served served;
  const Answered page = get(served.port(), "/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.body, "<!doctype html><title>page</title>");
  EXPECT_EQ(page.headers.at("Content-Type"), "text/html; charset=utf-8");
  EXPECT_EQ(page.headers.at("Content-Security-Policy"), "default-src 'none'; connect-src 'self'");

  const Answered echo = post(served.port(), "echo", R"({"text": "Wo ist der Bahnhof? 车站 \u0000"})");
  EXPECT_EQ(echo.status, 200);
  EXPECT_EQ(echo.headers.at("Content-Type"), "application/json");
  EXPECT_EQ(nlohmann::json::parse(echo.body)["text"], std::string("Wo ist der Bahnhof? 车站 \0", 28));

  const Answered models = get(served.port(), "/api/v1/models?model=0&after=-12&name=a%20b+c&wide=99999999999999999999");
  EXPECT_EQ(nlohmann::json::parse(models.body)["query"],
            (nlohmann::json{{"model", 0}, {"after", -12}, {"name", "a b c"}, {"wide", "99999999999999999999"}}));

  Client patient(served.port());  // asks before it sends its body
  patient.send("POST /api/v1/echo HTTP/1.1\r\n" + host_line(served.port()) +
               "Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(patient.receive("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  patient.send("{}");
  EXPECT_EQ(parse_answer(patient.receive()).body, "{}");

  const std::string head = "HEAD / HTTP/1.1\r\n" + host_line(served.port()) + "\r\n";
  EXPECT_EQ(ask(served.port(), head).status, 200);
  EXPECT_EQ(ask(served.port(), head).body, "");
  for (const std::string path : {"/api/v1/models", "/api/v1/echo", "/nothing"}) {
    const Answered without = ask(served.port(), "HEAD " + path + " HTTP/1.1\r\n" + host_line(served.port()) + "\r\n");
    EXPECT_EQ(without.status, path == "/nothing" ? 404 : 405) << path;
    EXPECT_EQ(without.body, "") << path;
  }
  EXPECT_EQ(served.seen.threads_that_compute, 0);
}

TEST(Server, AllAnswersHaveTheHeadersThatProtect) {
  const Served served;
  for (const Answered& answer :
       {get(served.port(), "/"), get(served.port(), "/api/v1/models"), get(served.port(), "/x"),
        post(served.port(), "run", "{}"), ask(served.port(), "what\r\n\r\n")}) {
    EXPECT_NE(answer.status, 0);
    EXPECT_TRUE(answer.headers.at("Content-Security-Policy").starts_with("default-src 'none'"));
    EXPECT_EQ(answer.headers.at("X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(answer.headers.at("X-Frame-Options"), "DENY");
    EXPECT_EQ(answer.headers.at("Referrer-Policy"), "no-referrer");
    EXPECT_EQ(answer.headers.at("Cross-Origin-Opener-Policy"), "same-origin");
    EXPECT_EQ(answer.headers.at("Cross-Origin-Resource-Policy"), "same-origin");
    EXPECT_EQ(answer.headers.at("Cache-Control"), "no-store");
    EXPECT_EQ(answer.headers.count("Access-Control-Allow-Origin"), 0U);
  }
}

TEST(Server, StreamsEvents) {
  const Served served;
  const Answered run = post(served.port(), "run", R"({"count": 2})");
  EXPECT_EQ(run.status, 200);
  EXPECT_EQ(run.headers.at("Content-Type"), "text/event-stream");
  EXPECT_EQ(run.body,
            "event: token\ndata: {\"of\":{\"count\":2},\"position\":0}\n\n"
            "event: token\ndata: {\"of\":{\"count\":2},\"position\":1}\n\n"
            "event: done\ndata: {\"count\":2}\n\n");
  expect_error(post(served.port(), "run", R"({"refused": true})"), 400, "found this");
  const Answered failed = post(served.port(), "run", R"({"count": 1, "fails": true})");
  EXPECT_EQ(failed.status, 200) << "it had begun";
  EXPECT_TRUE(failed.body.ends_with("event: error\ndata: {\"error\":\"expected no failure; found one\"}\n\n"))
      << failed.body;
}

TEST(Server, RefusesWhatOtherSitesSend) {
  const Served served;
  const int port = served.port();
  const std::string own = std::to_string(port), get_models = "GET /api/v1/models HTTP/1.1\r\n";
  for (const std::string& host : {"evil.example:" + own, std::string("127.0.0.1"), std::string("localhost"),
                                  "127.0.0.1:" + std::to_string(port % 60000 + 1), "127.0.0.1.evil.example:" + own,
                                  "192.168.0.7:" + own, std::string()})
    expect_error(ask(port, get_models + "Host: " + host + "\r\n\r\n"), 403, "Host");
  for (const std::string& host : {"localhost:" + own, "LOCALHOST:" + own, "[::1]:" + own, "127.0.0.1:" + own})
    EXPECT_EQ(ask(port, get_models + "Host: " + host + "\r\n\r\n").status, 200) << host;
  expect_error(ask(port, get_models + "\r\n"), 400, "Host");
  expect_error(ask(port, get_models + host_line(port) + host_line(port) + "\r\n"), 400, "once");
  // The page too: its name could be another site's that now has the address of this machine.
  expect_error(ask(port, "GET / HTTP/1.1\r\nHost: evil.example:" + own + "\r\n\r\n"), 403, "Host");

  for (const std::string origin :
       {"http://evil.example", "null", "https://127.0.0.1:", "http://127.0.0.1", "http://localhost:"}) {
    const std::string line = "Origin: " + origin + (origin.ends_with(':') ? own : "") + "\r\n";
    expect_error(post(port, "echo", "{}", line), 403, "another site");
    expect_error(get(port, "/api/v1/models", line), 403, "another site");
  }
  EXPECT_EQ(post(port, "echo", "{}", "Origin: http://127.0.0.1:" + own + "\r\nSec-Fetch-Site: same-origin\r\n").status,
            200);
  EXPECT_EQ(get(port, "/", "Sec-Fetch-Site: none\r\n").status, 200);
  for (const std::string site : {"cross-site", "same-site"}) {
    const std::string line = "Sec-Fetch-Site: " + site + "\r\n";
    expect_error(post(port, "echo", "{}", line), 403, "another site");
    expect_error(get(port, "/", line), 403, "another site");
    const std::string link = line + "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: ";
    EXPECT_EQ(get(port, "/", link + "document\r\n").status, 200) << "a link that was followed";
    expect_error(get(port, "/", link + "iframe\r\n"), 403, "another site");
    expect_error(get(port, "/api/v1/models", link + "document\r\n"), 403, "another site");
  }
  for (const std::string type : {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""})
    expect_error(ask(port, "POST /api/v1/echo HTTP/1.1\r\n" + host_line(port) + "Content-Type: " + type +
                               "\r\nContent-Length: 2\r\n\r\n{}"),
                 415, "application/json");
  EXPECT_EQ(served.seen.calls, 5);
}

TEST(Server, AsksForTheToken) {
  const Served served({.token = "0123456789abcdef0123456789abcdef"});
  const int port = served.port();
  EXPECT_EQ(served.server->link(), "http://127.0.0.1:" + std::to_string(port) + "/#token=" + served.server->token());
  EXPECT_EQ(get(port, "/").status, 200) << "the page is the same for everybody";
  for (const std::string given :
       {"", "Authorization: Bearer 0123456789abcdef0123456789abcdee\r\n", "Authorization: Bearer \r\n",
        "Authorization: Basic 0123456789abcdef0123456789abcdef\r\n",
        "Authorization: 0123456789abcdef0123456789abcdef\r\n", "Cookie: token=0123456789abcdef0123456789abcdef\r\n"}) {
    const Answered refused = get(port, "/api/v1/models", given);
    expect_error(refused, 401, "token");
    EXPECT_EQ(refused.headers.at("WWW-Authenticate"), "Bearer");
    expect_error(post(port, "echo", "{}", given), 401, "token");
    expect_error(post(port, "run", "{}", given), 401, "token");
    expect_error(get(port, "/api/v1/unknown?token=0123456789abcdef0123456789abcdef", given), 401, "token");
  }
  EXPECT_EQ(get(port, "/api/v1/models", "Authorization: Bearer " + served.server->token() + "\r\n").status, 200);
  EXPECT_EQ(served.seen.calls, 1);
}

TEST(Server, AnAddressThatOthersReachHasAToken) {
  const Served served({.host = "0.0.0.0"});
  EXPECT_EQ(served.server->token().size(), 32U);
  const std::string own = ":" + std::to_string(served.port()) + "\r\n";
  const std::string token = "Authorization: Bearer " + served.server->token() + "\r\n\r\n";
  EXPECT_EQ(ask(served.port(), "GET /api/v1/models HTTP/1.1\r\nHost: 192.168.0.7" + own + token).status, 200);
  EXPECT_EQ(ask(served.port(), "GET /api/v1/models HTTP/1.1\r\nHost: [fe80::1]" + own + token).status, 200);
  EXPECT_EQ(ask(served.port(), "GET /api/v1/models HTTP/1.1\r\nHost: evil.example" + own + token).status, 403);
  EXPECT_EQ(get(served.port(), "/api/v1/models").status, 401);
}

TEST(Server, RefusesWhatItCannotRead) {
  const Served served;
  const int port = served.port();
  expect_error(get(port, "/nothing"), 404, "nothing at this address");
  expect_error(get(port, "/api/v1/unknown"), 404, "nothing");
  expect_error(get(port, "/api/v1/"), 404, "nothing");
  expect_error(get(port, "/../../etc/passwd"), 404, "nothing");
  expect_error(get(port, "/%2e%2e/etc/passwd"), 404, "nothing");
  expect_error(get(port, "/api/v1/echo"), 405, "POST");
  expect_error(post(port, "models", "{}"), 405, "GET");
  EXPECT_EQ(post(port, "models", "{}").headers.at("Allow"), "GET");
  expect_error(ask(port, "DELETE / HTTP/1.1\r\n" + host_line(port) + "\r\n"), 405, "GET");
  expect_error(ask(port, "OPTIONS /api/v1/echo HTTP/1.1\r\n" + host_line(port) + "\r\n"), 405, "POST");

  const std::string nested(1000, '[');
  expect_error(post(port, "echo", "{\"a\":" + nested), 400, "levels");
  expect_error(post(port, "echo", "{\"text\": \"\xff\xfe\"}"), 400, "UTF-8");
  expect_error(post(port, "echo", "{\"text\": \"\\ud800\"}"), 400, "JSON");
  expect_error(post(port, "echo", "[1, 2]"), 400, "object");
  expect_error(post(port, "echo", "{\"a\": 1e999}"), 400, "JSON");
  expect_error(post(port, "echo", ""), 400, "JSON");
  expect_error(get(port, "/api/v1/models?a=%zz"), 400, "hexadecimal");
  expect_error(get(port, "/api/v1/models?a=%ff"), 400, "UTF-8");
  expect_error(get(port, "/api/v1/models?a=1&a=2"), 400, "once");

  expect_error(post(port, "echo", std::string(size_t{kMostBody} + 1, ' ')), 413, "1048576");
  const std::string start = "POST /api/v1/echo HTTP/1.1\r\n" + host_line(port) + "Content-Type: application/json\r\n";
  expect_error(ask(port, start + "Content-Length: 99999999999999999999999\r\n\r\n"), 413, "1048576");
  expect_error(ask(port, start + "Content-Length: -1\r\n\r\n"), 400, "Content-Length");
  expect_error(ask(port, start + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}"), 400, "once");
  expect_error(ask(port, start + "\r\n"), 411, "Content-Length");
  expect_error(ask(port, start + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"), 411, "Transfer-Encoding");
  expect_error(ask(port, start + "X: " + std::string(20000, 'x') + "\r\n\r\n"), 431, "headers");
  expect_error(ask(port, "\x16\x03\x01\x02\x00\x01"), 400, "TLS");
  EXPECT_EQ(post(port, "echo", std::string(size_t{kMostBody} - 2, ' ') + "{}").status, 200);
}

TEST(Server, SaysNothingOfTheMachine) {
  const Served served({.hidden_folders = {"/home/someone/models", "../models"}});
  const auto fail = [&](const std::string& how) { return post(served.port(), "fail", R"({"how": ")" + how + "\"}"); };
  expect_error(fail("error"), 400, "\"en-zh/model.safetensors\": expected a file that can be read; found none");
  EXPECT_EQ(error_of(fail("error")).find("Api::call"), std::string::npos);
  expect_error(fail("404"), 404, "a model that is served");
  expect_error(fail("memory"), 503, "memory");
  expect_error(fail("inside"), 500, "inside heed");
}

TEST(Server, AClientThatLeavesEndsItsWork) {
  Served served;
  {
    Client client(served.port());
    client.send(post_text(served.port(), "run", R"({"count": 1000000, "ms": 2})"));
    EXPECT_NE(client.receive("event: token").find("event: token"), std::string::npos);
    Client waiting(served.port());
    waiting.send(post_text(served.port(), "wait", "{}"));
    EXPECT_TRUE(becomes_true([&] { return served.seen.computing.load(); }));
  }
  EXPECT_TRUE(becomes_true([&] { return served.seen.streams == 0; }));
  EXPECT_EQ(post(served.port(), "echo", "{}").status, 200);
}

TEST(Server, AClientThatHasEndedItsSendingGetsItsAnswer) {
  const Served served;
  const auto answer_to = [&](const std::string& text) {
    Client client(served.port());
    client.send(text);
    client.end_sending();
    return client.receive();
  };
  EXPECT_EQ(parse_answer(answer_to(post_text(served.port(), "echo", "{}"))).body, "{}");
  const std::string slow = answer_to(post_text(served.port(), "wait", R"({"ms": 300})"));
  EXPECT_TRUE(slow.starts_with("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 ")) << slow;
  EXPECT_EQ(parse_answer(without_interim(slow)).body, R"({"ms":300})");
  std::string old = post_text(served.port(), "wait", R"({"ms": 300})");
  old.replace(old.find("HTTP/1.1"), 8, "HTTP/1.0");
  EXPECT_EQ(parse_answer(answer_to(old)).body, R"({"ms":300})") << "HTTP/1.0 has no interim answers";
  const Answered run =
      parse_answer(without_interim(answer_to(post_text(served.port(), "run", R"({"count": 1, "ms": 300})"))));
  EXPECT_NE(run.body.find("event: token\n"), std::string::npos) << run.body;
  EXPECT_TRUE(run.body.ends_with("event: done\ndata: {\"count\":1}\n\n")) << run.body;
}

// While nothing is sent to it: a stream whose next event takes long.
TEST(Server, AClientThatLeavesAQuietStreamEndsIt) {
  Served served;
  {
    Client client(served.port());
    client.send(post_text(served.port(), "run", R"({"count": 1000000, "ms": 700})"));
    EXPECT_NE(client.receive("event: token").find("event: token"), std::string::npos);
  }
  EXPECT_TRUE(becomes_true([&] { return served.seen.streams == 0; }));
  EXPECT_LE(served.seen.steps, 3);
}

// A client that takes nothing stops its stream from being computed further, and nothing else.
TEST(Server, AClientThatDoesNotReadKeepsNobodyWaiting) {
  Served served;
  Client deaf(served.port());
  deaf.send(post_text(served.port(), "run", R"({"count": 1000000, "text": ")" + std::string(30000, 'x') + "\"}"));
  int before = -1;
  EXPECT_TRUE(becomes_true([&] {
    const bool still = before == served.seen.steps && before > 0;
    before = served.seen.steps;
    sleep_ms(100);
    return still;
  }));
  EXPECT_LT(served.seen.steps, 2000);
  EXPECT_EQ(post(served.port(), "run", R"({"count": 200})").status, 200);
}

TEST(Server, AHundredClientsAtOnceGetWhatEachGetsAlone) {
  Served served;
  constexpr int kClients = 100;
  const auto request = [](int i) { return R"({"count": 20, "name": "n)" + std::to_string(i) + "\"}"; };
  std::vector<std::string> alone(kClients), together(kClients);
  for (int i = 0; i < kClients; ++i)
    alone[static_cast<size_t>(i)] = post(served.port(), i % 2 ? "run" : "echo", request(i)).body;
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i)
    threads.emplace_back(
        [&, i] { together[static_cast<size_t>(i)] = post(served.port(), i % 2 ? "run" : "echo", request(i)).body; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(alone, together);
  EXPECT_FALSE(alone[0].empty() || alone[1].empty());
  EXPECT_LE(served.seen.most_streams, 8);
  EXPECT_EQ(served.seen.threads_that_compute, 0);
}

TEST(Server, StopsAtOnceWithAStreamAndAJob) {
  Served served;
  Client stream(served.port()), job(served.port()), silent(served.port()), half(served.port());
  half.send("POST /api/v1/echo HT");
  stream.send(post_text(served.port(), "run", R"({"count": 1000000, "ms": 1})"));
  stream.receive("event: token");
  job.send(post_text(served.port(), "wait", "{}"));
  EXPECT_TRUE(becomes_true([&] { return served.seen.computing.load(); }));
  const auto start = Clock::now();
  served.server->stop();
  EXPECT_TRUE(served.worker.stop(1));
  EXPECT_LT(seconds_since(start), 1);
  for (Client* client : {&stream, &job, &silent, &half}) {
    client->receive();
    EXPECT_TRUE(client->ended());
  }
  EXPECT_FALSE(Client(served.port()).connected());
}

TEST(Server, SaysThatThePortIsInUse) {
  Served first;
  const int port = first.port();
  try {
    Server second(first.worker, {.port = port});
    FAIL() << "two servers at one port";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), "--port " + std::to_string(port) + " is in use; --port 0 takes a free one");
  }
  const Server beside(first.worker, {.port = port, .more_ports = 20});
  EXPECT_GT(beside.port(), port);
  EXPECT_LE(beside.port(), port + 20);
  EXPECT_THROW(Server(first.worker, {.host = "no.such.name.invalid"}), Error);
  EXPECT_THROW(Server(first.worker, {.host = "192.0.2.1", .port = 0}), Error) << "not an address of this machine";
}

}  // namespace
}  // namespace heed::serve::test
