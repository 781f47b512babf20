// Large JSON documents of others.
#include "formats/json_document.h"

#include <gtest/gtest.h>

#include "base/scratch.h"

namespace heed::io {
namespace {

JsonValue parsed(std::string_view text) { return parse_json_document(text, "\"x.json\"", "test"); }

TEST(JsonDocument, KeepsEverythingInItsOrder) {
  const JsonValue root = parsed(R"({"b": [1, -2, 0.5, true, null, "\u00fc"], "a": {}, "big": 18446744073709551615})");
  ASSERT_TRUE(root.is(JsonValue::Kind::object));
  EXPECT_EQ(root.members[0].first, "b");
  EXPECT_EQ(root.members[1].first, "a");
  const auto& items = root.find("b")->items;
  ASSERT_EQ(items.size(), 6u);
  EXPECT_EQ(items[0].integer, 1);
  EXPECT_EQ(items[1].integer, -2);
  EXPECT_EQ(items[1].number, -2);
  EXPECT_EQ(items[2].number, 0.5);
  EXPECT_TRUE(items[2].is(JsonValue::Kind::number));
  EXPECT_TRUE(items[3].boolean);
  EXPECT_TRUE(items[4].is(JsonValue::Kind::null));
  EXPECT_EQ(items[5].text, "\u00fc");
  EXPECT_TRUE(root.find("a")->is(JsonValue::Kind::object));
  EXPECT_TRUE(root.find("big")->is(JsonValue::Kind::number));
  EXPECT_EQ(root.find("c"), nullptr);
}

TEST(JsonDocument, RefusesWhatIsNoDocument) {
  const auto refuses = [](const std::string& text, const std::string& message) {
    test::expect_error([&] { (void)parsed(text); }, message);
    test::expect_error([&] { (void)parsed(text); }, "x.json");
  };
  refuses("", " at line 1, column ");
  refuses("{} {}", " at line 1, column ");
  refuses("{\"a\": 1, \"b\": 2, \"a\": 3}", "found \"a\" twice");
  refuses("{\"a\xff\": 1}", " at line 1, column ");
  refuses("[\"\\ud800\"]", " at line 1, column ");
  refuses("[1e999]", "JSON; found");
  refuses(std::string(33, '[') + std::string(33, ']'), "32 levels");
  refuses(std::string(1 << 20, '['), "32 levels");
  EXPECT_NO_THROW((void)parsed(std::string(32, '[') + std::string(32, ']')));
}

}  // namespace
}  // namespace heed::io
