// heed serve as a user starts it. What it answers is tested in tests/serve/.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "base/clock.h"
#include "cli/program.h"
#include "serve/client.h"

namespace heed::cli::test {
namespace {

TEST(Serve, AbsentCommandSaysHowToGetIt) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"serve"}, {"serve", "demo/en-zh", "--port", "0", "--open"}}) {
    const Result r = run(arguments, {.program = HEED_BARE});
    EXPECT_EQ(r.status, 1);
    EXPECT_TRUE(r.err.starts_with("heed serve: this program was built without the live page; ")) << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1);
  }
  EXPECT_EQ(run({"help", "serve"}, {.program = HEED_BARE}).status, 0);
}

#ifdef HEED_SERVE

const std::string kModel = HEED_SOURCE_DIR "/demo/en-zh";

// The command while it runs.
struct Serving {
  explicit Serving(std::vector<std::string> arguments) : program(std::move(arguments)), link(program.hear()) {
    const size_t colon = link.rfind(':');
    if (colon != std::string::npos) port = std::atoi(link.c_str() + colon + 1);
  }
  Conversation program;
  std::string link;
  int port = 0;
};

TEST(Serve, HelpHasExamples) {
  const std::string help = run({"serve", "--help"}).out;
  for (const char* const part : {"MODEL", "--port N", "--host ADDRESS", "--open", "Examples:", "Ctrl-C", "8017"})
    EXPECT_NE(help.find(part), std::string::npos) << part << "\n" << help;
}

TEST(Serve, RefusesWhatItCannotServe) {
  const auto expect = [](const std::vector<std::string>& arguments, int status, const std::string& part) {
    const Result r = run(arguments);
    EXPECT_EQ(r.status, status) << r.err;
    EXPECT_EQ(r.out, "");
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  };
  expect({"serve"}, 2, "MODEL");
  expect({"serve", "no/such/model"}, 1, "no/such/model");
  expect({"serve", kModel, "--port", "65536"}, 2, "--port");
  expect({"serve", kModel, "--port", "x"}, 2, "--port");
  expect({"serve", kModel, "--port", "0", "--host", "no.such.name.invalid"}, 1, "no.such.name.invalid");
  expect({"serve", kModel, "--json"}, 2, "--json");
}

TEST(Serve, ServesUntilCtrlC) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Serving serving({"serve", kModel, "--port", "0", "--threads", "1"});
    EXPECT_TRUE(serving.link.starts_with("http://127.0.0.1:")) << serving.link;
    ASSERT_NE(serving.port, 0);
    const auto page = serve::test::get(serving.port, "/");
    EXPECT_EQ(page.status, 200);
    EXPECT_NE(page.body.find("<title>"), std::string::npos);
    const auto models = serve::test::get(serving.port, "/api/v1/models");
    EXPECT_EQ(models.status, 200);
    EXPECT_NE(models.body.find("en-zh"), std::string::npos) << models.body;
    EXPECT_EQ(models.body.find(HEED_SOURCE_DIR), std::string::npos) << models.body;
    // A client that sends nothing, and one whose stream is not read, do not hold it up.
    const serve::test::Client silent(serving.port);
    serve::test::Client stream(serving.port);
    stream.send(serve::test::post_text(serving.port, "run", R"({"model": 0, "text": "Where is the station?"})"));
    const auto start = Clock::now();
    serving.program.signal(signal);
    const Result end = serving.program.end();
    EXPECT_LT(seconds_since(start), 2);
    EXPECT_EQ(end.status, 128 + signal);
    EXPECT_NE(end.err.find("en-zh"), std::string::npos) << end.err;
  }
}

TEST(Serve, SaysThatThePortIsInUse) {
  Serving first({"serve", kModel, "--port", "0", "--threads", "1"});
  ASSERT_NE(first.port, 0);
  const std::string port = std::to_string(first.port);
  const Result second = run({"serve", kModel, "--port", port});
  EXPECT_EQ(second.status, 1);
  EXPECT_EQ(second.err, "heed serve: --port " + port + " is in use; --port 0 takes a free one\n");
  first.program.signal(SIGINT);
  EXPECT_EQ(first.program.end().status, 130);
}

TEST(Serve, AnotherAddressHasAToken) {
  Serving serving({"serve", kModel, "--port", "0", "--host", "0.0.0.0", "--threads", "1"});
  ASSERT_NE(serving.port, 0) << serving.link;
  const size_t mark = serving.link.find("/#token=");
  ASSERT_NE(mark, std::string::npos) << serving.link;
  const std::string token = serving.link.substr(mark + 8);
  EXPECT_EQ(token.size(), 32U);
  EXPECT_EQ(serve::test::get(serving.port, "/api/v1/models").status, 401);
  EXPECT_EQ(serve::test::get(serving.port, "/api/v1/models", "Authorization: Bearer " + token + "\r\n").status, 200);
  serving.program.signal(SIGINT);
  EXPECT_NE(serving.program.end().err.find("not encrypted"), std::string::npos);
}

#endif

}  // namespace
}  // namespace heed::cli::test
