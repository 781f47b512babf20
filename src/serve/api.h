// The interface of the live page (docs/serve.md): JSON in, JSON or bytes out. It knows nothing of HTTP.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "serve/service.h"

namespace heed::serve {

struct Computing;  // what an Api computes with

// Wrong requests are heed::Error; those with another status than 400 are Refused. One thread at a time calls an Api
// (Worker sees to it): what it computes uses all threads that heed may use.
class Api : public Service {
 public:
  // Opens the models. Throws Error where one of the folders cannot be served.
  explicit Api(const std::vector<std::filesystem::path>& folders);
  ~Api() override;

  [[nodiscard]] Kind kind(std::string_view name) const override;
  [[nodiscard]] Reply call(std::string_view name, const nlohmann::json& object,
                           const std::function<bool()>& stop) override;
  using Stream = Service::Stream;
  [[nodiscard]] std::unique_ptr<Stream> stream(std::string_view name, const nlohmann::json& object) override;
  [[nodiscard]] std::vector<std::string> lines() const override;

 private:
  std::unique_ptr<Computing> computing_;
};

}  // namespace heed::serve
