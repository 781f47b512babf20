// JSON as commands write it, read back by another library.
#include "cli/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace heed::cli {
namespace {

TEST(Json, IsReadBackAsItWas) {
  const std::string text = "a \"b\" \\ / \t\n\r\x01\x7f 车站 \U0001F600";
  const std::vector<std::string> tokens = {"", text};
  const std::vector<float> numbers = {0.1f, -1e-30f, 3.0f};
  JsonObject inner, object;
  inner.add("yes", true).add("no", false);
  object.add("text", text).add("tokens", tokens).add("numbers", numbers).add("inner", inner);
  object.add("long", int64_t{1} << 62).add("double", 0.1).add("list", std::vector<JsonObject>{inner, JsonObject()});
  object.add_json("raw", "[1, null]").add(text, 1);
  const auto json = nlohmann::json::parse(object.text());
  EXPECT_EQ(json["text"], text);
  EXPECT_EQ(json["tokens"], tokens);
  for (size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(json["numbers"][i].get<float>(), numbers[i]);
  EXPECT_EQ(json["inner"]["yes"], true);
  EXPECT_EQ(json["long"], int64_t{1} << 62);
  EXPECT_EQ(json["double"].get<double>(), 0.1);
  EXPECT_EQ(json["list"].size(), 2u);
  EXPECT_TRUE(json["raw"][1].is_null());
  EXPECT_EQ(json[text], 1);
  EXPECT_EQ(object.text().find('\n'), std::string::npos) << "one line";
  EXPECT_EQ(JsonObject().text(), "{}");
}

TEST(Json, WhatItHasNoWordForIsReplaced) {
  EXPECT_EQ(json_of(NAN), "null");
  EXPECT_EQ(json_of(-INFINITY), "null");
  EXPECT_EQ(nlohmann::json::parse(json_of("a\xFFz\xE8\xBD")), "a\uFFFDz\uFFFD\uFFFD");
}

}  // namespace
}  // namespace heed::cli
