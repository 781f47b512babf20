// A service without models, and a server of it.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "serve/server.h"
#include "serve/service.h"
#include "serve/worker.h"

namespace heed::serve::test {

inline void sleep_ms(int64_t count) { std::this_thread::sleep_for(std::chrono::milliseconds(count)); }

// What the test sees of a service that belongs to another thread.
struct Seen {
  std::atomic<int> calls{0}, steps{0}, streams{0}, most_streams{0};  // streams: alive now
  std::atomic<int> threads_that_compute{0};
  std::atomic<bool> computing{false}, released{false};
  std::string order;  // of the streams' steps, by their names
};

class StandIn : public Service {
 public:
  explicit StandIn(Seen& seen) : seen_(seen), thread_(std::this_thread::get_id()) {}

  [[nodiscard]] Kind kind(std::string_view name) const override {
    if (name == "models") return Kind::get;
    if (name == "run") return Kind::stream;
    return name == "echo" || name == "wait" || name == "fail" ? Kind::post : Kind::unknown;
  }

  // echo: gives back the request. wait: computes for "ms", or until it is told to stop unless "deaf". fail: throws
  // "how".
  [[nodiscard]] Reply call(std::string_view name, const nlohmann::json& request,
                           const std::function<bool()>& stop) override {
    check_thread();
    ++seen_.calls;
    if (name == "models") return {.body = nlohmann::json{{"models", {"stand-in"}}, {"query", request}}.dump()};
    if (name == "fail") throw_as(request.value("how", ""));
    if (name == "wait") {
      seen_.computing = true;
      while (request.value("until_released", false) && !seen_.released) sleep_ms(1);
      const bool deaf = request.value("deaf", false);
      for (int i = 0; i < request.value("ms", 60000); ++i) {
        if (!deaf && stop()) throw Error("[wait] an end; found that it was told to stop");
        sleep_ms(1);
      }
    }
    return {.body = request.dump()};
  }

  // `count` events, one each `ms`; after them it fails where there is "fails".
  [[nodiscard]] std::unique_ptr<Stream> stream(std::string_view, const nlohmann::json& request) override {
    check_thread();
    require(!request.value("refused", false), "stream", "a request that can be streamed; found /home/x/secret/this");
    return std::make_unique<Steps>(seen_, request);
  }

  [[nodiscard]] std::vector<std::string> lines() const override { return {"stand-in: no model"}; }

 private:
  class Steps : public Stream {
   public:
    Steps(Seen& seen, nlohmann::json request) : seen_(seen), request_(std::move(request)) {
      const int alive = ++seen_.streams;
      if (alive > seen_.most_streams) seen_.most_streams = alive;
    }
    ~Steps() override { --seen_.streams; }
    bool step(const Send& send) override {
      ++seen_.steps;
      seen_.order += request_.value("name", "?");
      sleep_ms(request_.value("ms", 0));
      if (next_ < request_.value("count", 3)) return send("token", {{"position", next_++}, {"of", request_}});
      require(!request_.value("fails", false), "step", "no failure; found one");
      (void)send("done", {{"count", next_}});
      return false;
    }

   private:
    Seen& seen_;
    nlohmann::json request_;
    int next_ = 0;
  };

  static void throw_as(const std::string& how) {
    if (how == "404") throw Refused(404, "model: a model that is served; found 7");
    if (how == "memory") throw std::bad_alloc();
    if (how == "inside") throw std::runtime_error("/secret/of/the/machine");
    throw Error("[Api::call] \"/home/someone/models/en-zh/model.safetensors\": a file that can be read; found none");
  }
  void check_thread() {
    if (std::this_thread::get_id() != thread_) ++seen_.threads_that_compute;
  }

  Seen& seen_;
  std::thread::id thread_;
};

// A server on a free port of this machine.
struct Served {
  explicit Served(ServerOptions options = {}, const Limits& limits = {})
      : worker([this] { return std::make_unique<StandIn>(seen); }, limits) {
    options.port = 0;
    options.page = {.html = "<!doctype html><title>page</title>", .policy = "default-src 'none'; connect-src 'self'"};
    server = std::make_unique<Server>(worker, options);
  }
  [[nodiscard]] int port() const { return server->port(); }

  Seen seen;
  Worker worker;
  std::unique_ptr<Server> server;
};

}  // namespace heed::serve::test
