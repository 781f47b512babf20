// An Api with a small model of each kind, and how tests ask it.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/scratch.h"
#include "heed/error.h"
#include "serve/api.h"
#include "serve/small_models.h"

namespace heed::serve {

using models::Architecture;
using nlohmann::json;

class ApiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_model(folder_.path() / "translates", Architecture::encoder_decoder);
    write_model(folder_.path() / "continues", Architecture::decoder_only, 2);
    write_model(folder_.path() / "fills", Architecture::encoder_only, 3);
    api_ = std::make_unique<Api>(std::vector<std::filesystem::path>{
        folder_.path() / "translates", folder_.path() / "continues", folder_.path() / "fills"});
  }

  json call(const std::string& name, const json& request) {
    return json::parse(api_->call(name, request, [] { return false; }).body);
  }
  // All events of a run, and the last one.
  json run(const json& request, std::vector<json>* tokens = nullptr) {
    const auto stream = api_->stream("run", request);
    json last;
    std::string name;
    const Send send = [&](std::string_view event, const json& data) {
      if (event == "token" && tokens != nullptr) tokens->push_back(data);
      name = event;
      last = data;
      return true;
    };
    while (stream->step(send)) {
    }
    EXPECT_EQ(name, "done");
    return last;
  }
  std::string error_of(const std::string& name, const json& request) {
    try {
      (void)call(name, request);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  struct Weights {
    json header;
    std::vector<float> numbers;
  };
  Weights weights(const json& request, const std::string& name = "attention") {
    const std::string body = api_->call(name, request, [] { return false; }).body;
    uint32_t length = 0;
    std::memcpy(&length, body.data(), 4);
    Weights out{.header = json::parse(body.substr(4, length)), .numbers = {}};
    out.numbers.resize((body.size() - 4 - length) / 4);
    if (!out.numbers.empty()) std::memcpy(out.numbers.data(), body.data() + 4 + length, out.numbers.size() * 4);
    return out;
  }

  static json reading(int64_t model, const json& done) {
    json out = {{"model", model}};
    if (!done["source"].empty()) out["source"] = done["source"];
    if (!done["target"].empty()) out["target"] = done["target"];
    return out;
  }
  static json with(json request, const json& more) {
    request.update(more);
    return request;
  }

  heed::test::Scratch folder_;
  std::unique_ptr<Api> api_;
};

}  // namespace heed::serve
