// The interface of the live page (docs/serve.md): JSON in, JSON or bytes out. It knows nothing of HTTP.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace heed::serve {

struct Reply {
  std::string type = "application/json";
  std::string body;
};

// Sends one event of a stream. False: nobody listens any more.
using Send = std::function<bool(std::string_view event, const nlohmann::json& data)>;

class Models;

// Wrong requests are heed::Error. One thread at a time calls an Api (Worker sees to it): what it computes uses all
// threads that heed may use.
class Api {
 public:
  // Opens the models. Throws Error where one of the folders cannot be served.
  explicit Api(const std::vector<std::filesystem::path>& folders);
  ~Api();

  // What can be asked for: "models" and "training" by GET, with the query as an object; the others by POST.
  [[nodiscard]] static bool is_known(std::string_view name);
  [[nodiscard]] static bool is_get(std::string_view name);
  [[nodiscard]] static bool is_stream(std::string_view name);

  [[nodiscard]] Reply call(std::string_view name, const nlohmann::json& request, const std::function<bool()>& stop);

  // A stream in steps, so that several can take turns: each step() computes until the next event is sent. False once
  // the stream has ended.
  class Stream {
   public:
    virtual ~Stream() = default;
    [[nodiscard]] virtual bool step(const Send& send) = 0;
  };
  [[nodiscard]] std::unique_ptr<Stream> stream(std::string_view name, const nlohmann::json& request);

  // The models in one line each, for the terminal.
  [[nodiscard]] std::vector<std::string> lines() const;

 private:
  std::unique_ptr<Models> models_;
};

}  // namespace heed::serve
