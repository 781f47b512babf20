// What the server asks of what computes: Api, and stand-ins in tests.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/error.h"

namespace heed::serve {

struct Reply {
  std::string type = "application/json";
  std::string body;
};

// Sends one event of a stream. False: nobody listens any more.
using Send = std::function<bool(std::string_view event, const nlohmann::json& data)>;

// A request that is answered with this status; any other Error is a 400. `header` goes with the answer: "Allow: GET".
class Refused : public Error {
 public:
  Refused(int status, const std::string& message, std::string header = {})
      : Error(message), status_(status), header_(std::move(header)) {}
  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] const std::string& header() const { return header_; }

 private:
  int status_;
  std::string header_;
};

// How a name is asked for: GET with a query, POST with JSON, or POST that is answered by a stream of events.
enum class Kind { unknown, get, post, stream };

// One thread at a time computes (Worker sees to it); any thread may ask for a kind.
class Service {
 public:
  virtual ~Service() = default;

  [[nodiscard]] virtual Kind kind(std::string_view name) const = 0;
  [[nodiscard]] virtual Reply call(std::string_view name, const nlohmann::json& request,
                                   const std::function<bool()>& stop) = 0;

  // A stream in steps, so that several can take turns: each step() computes until the next event is sent. False once
  // the stream has ended.
  class Stream {
   public:
    virtual ~Stream() = default;
    [[nodiscard]] virtual bool step(const Send& send) = 0;
  };
  [[nodiscard]] virtual std::unique_ptr<Stream> stream(std::string_view name, const nlohmann::json& request) = 0;

  // What is served in one line each, for the terminal.
  [[nodiscard]] virtual std::vector<std::string> lines() const = 0;
};

}  // namespace heed::serve
