// JSON documents: what is read, what is refused and in which words, and what is written.
#include "formats/json.h"

#include <gtest/gtest.h>

#include "heed/error.h"

namespace heed::io {
namespace {

std::string problem(std::string_view text) { return parse_json(text).problem; }

TEST(Json, KeepsTheOrderOfKeys) {
  const ParsedJson parsed = parse_json(R"({"z": 1, "a": {"y": [1.5, true, null], "b": "火车"}})");
  EXPECT_EQ(parsed.problem, "");
  EXPECT_EQ(json_text(parsed.value), R"({"z":1,"a":{"y":[1.5,true,null],"b":"火车"}})");
  EXPECT_EQ(json_text(parsed.value["a"]["y"], 1), "[\n 1.5,\n true,\n null\n]");
  EXPECT_EQ(json_ascii(parsed.value["a"]["b"]), R"("\u706b\u8f66")");
}

TEST(Json, RefusesWhatIsNone) {
  for (const char* text : {"", "{", "{\"a\": }", "nul", "1 2", "\"\xff\"", "{\"a\": 1,}"}) {
    EXPECT_TRUE(problem(text).starts_with("JSON; found ")) << text << ": " << problem(text);
    EXPECT_NE(problem(text).find(" at line 1, column "), std::string::npos) << text << ": " << problem(text);
    EXPECT_TRUE(parse_json(text).value.is_null()) << text;
  }
  EXPECT_EQ(problem("{\n\"a\""), "JSON; found the end of the text at line 2, column 4, where ':' should be");
  EXPECT_EQ(problem("{\"a\": 1,}"), "JSON; found '}' at line 1, column 9, where string literal should be");
  EXPECT_EQ(problem("1 2"), "JSON; found number literal at line 1, column 3, where the end of the text should be");
  EXPECT_EQ(problem("nul"), "JSON; found something else at line 1, column 4");
  EXPECT_EQ(problem("\"\xff\""), "JSON; found bytes that are no UTF-8 at line 1, column 2");
  EXPECT_EQ(problem(std::string("{}\0", 3)), "JSON; found a NUL at byte 2");
}

TEST(Json, HasEachKeyOfAnObjectOnce) {
  EXPECT_EQ(problem(R"({"a": 1, "b": 2, "a": 1})"), "each key once; found \"a\" twice");
  EXPECT_EQ(problem(R"({"m": {"a": 1, "a": 2}})"), "each key once; found \"a\" twice");
  // Equal keys of different objects, beside each other, within each other and in a list.
  EXPECT_EQ(problem(R"({"a": {"a": 1, "b": {"a": 2}}, "b": {"a": 3}, "c": [{"a": 1}, {"a": 2}]})"), "");
}

TEST(Json, IsAtMostEightLevelsDeep) {
  const auto nested = [](int levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  EXPECT_EQ(problem(nested(8)), "");
  EXPECT_EQ(problem(nested(9)), "JSON at most 8 levels deep; found more");
  EXPECT_EQ(problem(std::string(1 << 20, '[')), "JSON at most 8 levels deep; found more");
}

TEST(Json, IsWrittenAsUtf8Only) {
  EXPECT_THROW((void)json_text(Json("caf\xe9")), Error);
  EXPECT_EQ(json_ascii(Json("caf\xe9")), R"("caf\ufffd")");
}

}  // namespace
}  // namespace heed::io
