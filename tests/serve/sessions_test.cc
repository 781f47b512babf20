// Real models behind a real server: many sessions at once, hostile texts.
#include <gtest/gtest.h>

#include <thread>

#include "base/scratch.h"
#include "inspect/payloads.h"
#include "serve/api.h"
#include "serve/client.h"
#include "serve/server.h"
#include "serve/small_models.h"
#include "serve/worker.h"

namespace heed::serve {
namespace {

using nlohmann::json;

class SessionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_model(folder_.path() / "translates", models::Architecture::encoder_decoder);
    write_model(folder_.path() / "continues", models::Architecture::decoder_only, 2);
    const std::vector<std::filesystem::path> folders = {folder_.path() / "translates", folder_.path() / "continues"};
    worker_ = std::make_unique<Worker>([folders] { return std::make_unique<Api>(folders); }, Limits());
    ServerOptions options;
    options.port = 0;
    options.page = {.html = "<!doctype html><title>page</title>", .policy = "default-src 'none'"};
    server_ = std::make_unique<Server>(*worker_, options);
  }
  void TearDown() override {
    server_.reset();
    worker_.reset();
  }
  [[nodiscard]] test::Answered post(const std::string& name, const json& request) const {
    return test::post(server_->port(), name, request.dump());
  }

  heed::test::Scratch folder_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<Server> server_;
};

TEST_F(SessionsTest, AHundredAtOnceGetWhatEachGetsAlone) {
  constexpr int kSessions = 100;
  const auto text_of = [](int session) {
    std::string text;
    for (int i = 0; i < 3 + session % 9; ++i) text += "abcdefgh"[(i * session + i) % 8];
    return text;
  };
  // Each session: a run with a seed of its own, then the weights of what came of it.
  const auto session_of = [&](int session) {
    const test::Answered run = post("run", {{"model", session % 2},
                                            {"text", text_of(session)},
                                            {"temperature", 0.8},
                                            {"seed", session},
                                            {"max_tokens", 8}});
    const size_t done = run.body.rfind("data: ");
    if (run.status != 200 || done == std::string::npos) return "status " + std::to_string(run.status) + run.body;
    const json event = json::parse(run.body.substr(done + 6));
    json request = {{"model", session % 2}, {"target", event["target"]}};
    if (session % 2 == 0) request["source"] = event["source"];
    const test::Answered weights = post("attention", request);
    return run.body + std::to_string(weights.status) + weights.body;
  };
  std::vector<std::string> alone, together(kSessions);
  for (int session = 0; session < kSessions; ++session) {
    alone.push_back(session_of(session));
    ASSERT_TRUE(alone.back().starts_with("event: start")) << alone.back();
  }
  std::vector<std::thread> threads;
  for (int session = 0; session < kSessions; ++session)
    threads.emplace_back([&, session] { together[static_cast<size_t>(session)] = session_of(session); });
  for (std::thread& thread : threads) thread.join();
  for (int session = 0; session < kSessions; ++session)
    ASSERT_EQ(together[static_cast<size_t>(session)], alone[static_cast<size_t>(session)]) << session;
}

// What a text says comes back as data: JSON or bytes of a type that no browser runs.
TEST_F(SessionsTest, AThousandHostileTextsStayData) {
  int answered = 0;
  for (const std::string& text : inspect::payloads(1000)) {
    // The text's bytes as they are, in a JSON string.
    std::string quoted;
    for (const char c : text) {
      if (c == '"' || c == '\\') quoted += '\\';
      if (static_cast<unsigned char>(c) < 0x20) {
        char escape[8];
        std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
        quoted += escape;
      } else {
        quoted += c;
      }
    }
    const std::string name = answered % 3 == 0 ? "tokenize" : answered % 3 == 1 ? "attention" : "next";
    const std::string more = name == "next" ? ",\"position\":0" : "";
    const test::Answered answer =
        test::post(server_->port(), name, "{\"model\":1,\"text\":\"" + quoted + "\"" + more + "}");
    ++answered;
    ASSERT_TRUE(answer.status == 200 || answer.status == 400 || answer.status == 413) << text << answer.body;
    const std::string type = answer.headers.at("Content-Type");
    EXPECT_EQ(answer.headers.at("X-Content-Type-Options"), "nosniff");
    if (answer.status == 200 && name == "attention") {
      EXPECT_EQ(type, "application/octet-stream");
    } else {
      EXPECT_TRUE(type.starts_with("application/json")) << type;
      EXPECT_TRUE(json::accept(answer.body)) << answer.body;
    }
  }
  EXPECT_EQ(post("tokenize", {{"model", 1}, {"text", "abc"}}).status, 200);
}

}  // namespace
}  // namespace heed::serve
