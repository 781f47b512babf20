// Small tokenizers of Hugging Face with parts that few models have. Each expected value is what PyPI's `tokenizers`
// 0.23.3 gives, unless a line says otherwise.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/data.h"
#include "base/scratch.h"
#include "formats/json_document.h"
#include "heed/text.h"
#include "text/huggingface/score.h"

namespace heed::text {
namespace {

using nlohmann::json;
using test::contents_of;

std::shared_ptr<const Tokenizer> tokenizer_of(const json& document) {
  const test::Scratch folder;
  (void)folder.file("tokenizer.json", document.dump());
  return load_tokenizer_json(folder / "tokenizer.json");
}

// Words are unknown, so that spans and added tokens are all there is to see.
json unknown_words() {
  return {{"version", "1.0"}, {"model", {{"type", "WordLevel"}, {"vocab", {{"?", 0}}}, {"unk_token", "?"}}}};
}

json added_token(int id, const std::string& content, const json& flags) {
  json token = {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", false}};
  token.update(flags);
  return token;
}

json byte_fallback_bpe() {
  json vocabulary;
  for (int b = 0; b < 256; ++b) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    const auto byte = static_cast<size_t>(b);
    vocabulary[std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">"] = b;
  }
  return {{"version", "1.0"},
          {"normalizer", {{"type", "Lowercase"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}, {"byte_fallback", true}}}};
}

// The ids are those of `tokenizers`, whose offsets lie outside of the text.
TEST(TokenizerEdges, BytesOfAnAffixStandForTheWordTheyAreAddedTo) {
  json document = byte_fallback_bpe();
  document["model"]["end_of_word_suffix"] = "</w>";
  const Tokens tokens = tokenizer_of(document)->tokens("A");
  EXPECT_EQ(tokens.ids, (Ids{0x61, 0x3c, 0x2f, 0x77, 0x3e}));
  EXPECT_EQ(tokens.spans, std::vector<Span>(5, {0, 1}));
  document["model"].erase("end_of_word_suffix");
  document["model"]["continuing_subword_prefix"] = "##";
  const Tokens prefixed = tokenizer_of(document)->tokens("AB");
  EXPECT_EQ(prefixed.ids, (Ids{0x61, 0x23, 0x23, 0x62}));
  EXPECT_EQ(prefixed.spans, (std::vector<Span>{{0, 1}, {1, 2}, {1, 2}, {1, 2}}));
  document["model"]["end_of_word_suffix"] = std::string(200'000, 'x');
  EXPECT_EQ(tokenizer_of(document)->tokens("a").spans.back(), (Span{0, 1}));
}

TEST(TokenizerEdges, ATokenThatIsAnothersWhiteSpaceHasItsPlace) {
  struct Expected {
    json flags;
    std::string second, text;
    Ids ids;
    std::vector<Span> spans;
  };
  const std::vector<Expected> cases = {
      {json::object(), "  ", "x  ", {1, 2}, {{0, 3}, {1, 3}}},
      {json::object(), "  ", "x   ", {1, 2, 0}, {{0, 4}, {1, 3}, {3, 4}}},
      {json::object(), "  ", "x   a", {1, 2, 0}, {{0, 4}, {1, 3}, {3, 5}}},
      {json::object(), " ", "x  a", {1, 2, 2, 0}, {{0, 3}, {1, 2}, {2, 3}, {3, 4}}},
      {{{"rstrip", true}}, "  ", "x    x", {1, 2, 2, 1}, {{0, 5}, {1, 5}, {3, 5}, {5, 6}}},
      {{{"lstrip", true}}, "  ", "x  ", {1}, {{0, 3}}},
      {{{"lstrip", true}}, " ", "x   a", {1, 0}, {{0, 4}, {4, 5}}},  // `tokenizers` ends its process here
      {{{"lstrip", true}, {"rstrip", true}}, " ", "x   a", {1, 0}, {{0, 4}, {4, 5}}},
  };
  for (const bool normalized : {false, true}) {
    for (const Expected& expected : cases) {
      json document = unknown_words(), flags = expected.flags;
      flags["normalized"] = normalized;
      document["added_tokens"] = {added_token(1, "x", {{"rstrip", true}, {"normalized", normalized}}),
                                  added_token(2, expected.second, flags)};
      if (normalized) document["normalizer"] = {{"type", "Lowercase"}};
      std::string text = expected.text;
      if (normalized) text[0] = 'X';
      const Tokens tokens = tokenizer_of(document)->tokens(text, {.parse_special = true});
      EXPECT_EQ(tokens.ids, expected.ids) << text << expected.flags;
      EXPECT_EQ(tokens.spans, expected.spans) << text << expected.flags;
    }
  }
}

// The two sums are equal but for their last bit, which `tokenizers` reads otherwise than the nearest number has it.
TEST(TokenizerEdges, ScoresAreReadToTheLastBitAsTheyAreThere) {
  const json document = json::parse(
      R"({"version":"1.0","model":{"type":"Unigram","unk_id":0,"byte_fallback":false,"vocab":[["<unk>",0.0],)"
      R"([".",-3.8457587798272197],["...",-7.336492037945167]]}})");
  EXPECT_EQ(tokenizer_of(document)->encode("........."), (Ids{2, 2, 2}));
  EXPECT_EQ(tokenizer_of(document)->encode(".........."), (Ids{1, 2, 2, 2}));
}

// What `tokenizers` writes again for scores that it has read.
TEST(TokenizerEdges, ScoresAreRoundedTwice) {
  const std::vector<std::pair<std::string, double>> cases = {
      {"-3.8457587798272197", -3.84575877982722},
      {"-12.888685778053027", -12.888685778053029},
      {"-15.083785267828315", -15.083785267828317},
      {"-15.406374679449529", -15.406374679449527},
      {"-12.230892075695035", -12.230892075695037},
      {"-12.906317526469275", -12.906317526469277},
      {"-0.1234567890123456789012345", -0.12345678901234568},
      {"-12345678901234567890.5", -1.2345678901234567e+19},
      {"-123456789012345678901234567890.123", -1.2345678901234568e+29},
      {"-18446744073709551616.5", -1.8446744073709552e+19},
      {"-18446744073709551615.5", -1.8446744073709552e+19},
      {"-1844674407370955161.69", -1.8446744073709553e+18},
      {"-184467440737095516199.12", -1.844674407370955e+20},
      {"-1.7976931348623157e308", -1.7976931348623157e+308},
      {"-2.2250738585072014e-308", -2.2250738585072014e-308},
      {"-4.9406564584124654e-324", -5e-324},
      {"-123456789e-320", -1.23456789e-312},
      {"-1.5E+2", -150.0},
      {"-1e2", -100.0},
      {"-9007199254740993.0", -9007199254740994.0},
      {"-0.0", -0.0},
      {"-1e-400", -0.0},
      {"-0e999", -0.0},
      {"-9223372036854775809", -9.223372036854776e+18},
      {"-1111111111111111111111111111111111111111e-30", -1111111111.1111112},
      {"-3.14159265358979323846e-5", -3.1415926535897935e-05},
      {"-0." + std::string(330, '0') + "1e320", -1e-11},
      {"-7", -7},
  };
  for (const auto& [written, expected] : cases) {
    const double score = huggingface::score_of(io::parse_json_document(written, "x", "test"));
    EXPECT_EQ(score, expected) << written;
    EXPECT_EQ(std::signbit(score), std::signbit(expected)) << written;
  }
}

TEST(TokenizerEdges, ATextBeginsWhereItsFirstCharactersAreDropped) {
  json document = json::parse(contents_of(test::test_data("tokenizers/xlmr.json")));
  document["pre_tokenizer"]["prepend_scheme"] = "first";
  const auto tokenizer = tokenizer_of(document);
  const auto pieces = [&](const std::string& text) {
    std::vector<std::string> made;
    for (const int32_t id : tokenizer->encode(text)) made.push_back(tokenizer->piece(id));
    return made;
  };
  const auto plain = pieces("house of");
  EXPECT_TRUE(plain.front().starts_with("\u2581"));
  EXPECT_EQ(pieces("\u0001house of"), plain);
  EXPECT_EQ(pieces("\u0001\u007fhouse of"), plain);
  const Tokens tokens = tokenizer->tokens("\u0001house of", {.add_special = false});
  EXPECT_EQ(tokens.spans.front().begin, 0);
  EXPECT_EQ(tokens.spans.back().end, 9);
}

json with_pattern(const std::string& expression) {
  json document = unknown_words();
  document["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Removed"}, {"invert", true}};
  return document;
}

// The matches of an expression.
std::vector<std::string> matches(const std::string& expression, const std::string& text) {
  std::vector<std::string> made;
  for (const Span& span : tokenizer_of(with_pattern(expression))->tokens(text).spans)
    made.push_back(text.substr(static_cast<size_t>(span.begin), static_cast<size_t>(span.end - span.begin)));
  return made;
}

TEST(TokenizerEdges, ExpressionsMatchWhatOnigurumaMatches) {
  struct Expected {
    const char* expression;
    const char* text;
    std::vector<std::string> matches;
  };
  const std::vector<Expected> cases = {
      {R"(\p{N}{1,3}+)", "1234567a89", {"1234567", "89"}},
      {R"(\p{N}{2}+)", "12345", {"1234"}},
      {"a{0,2}+b", "aaab", {"aaab"}},
      {"(?:a|bc){1,2}+", "abcabc", {"abcabc"}},
      {"a{1,2}++a|b", "aaab", {"b"}},
      {"a{,2}b", "aaab", {"aab"}},
      {"a{2}?b", "aab b", {"aab", "b"}},
      {"a{2,3}?", "aaaa", {"aa", "aa"}},
      {"[a]+{1,2}+b", "aab", {"aab"}},
      {R"(\x61{1,2}+b)", "aaab", {"aaab"}},
      {"\u00e9{1,2}+", "\u00e9\u00e9\u00e9a", {"\u00e9\u00e9\u00e9"}},
      {"(a(b){1,2}+){1,2}+", "abbbabb", {"abbbabb"}},
      {R"(\p{Han})", "\u3001\u4e2d\u3002", {"\u4e2d"}},
      {R"(\p{Hiragana}+)", "\u304b\u30fc\u3099", {"\u304b"}},
      {R"([^\p{Han}]+)", "\u3001\u4e2d\u3002", {"\u3001", "\u3002"}},
      {R"(\p{Hani})", "\u3001\u4e2d\U0002ebf0", {"\u4e2d", "\U0002ebf0"}},
      {R"(\p{Punct}+)", "!$,", {"!", ","}},
      {R"(\p{Letter}+)", "ab1", {"ab"}},
      {R"(\p{^uppercase_letter}+)", "Ab1", {"b1"}},
      {R"(\p{lu})", "\uff21b", {"\uff21"}},
      {R"(\p{Word}+)", "a\u00b2-b", {"a\u00b2", "b"}},
      {R"([\w-]+)", "a\u00b2b-c\u2460\u24d0", {"a", "b-c", "\u24d0"}},
      {R"([^\w\s])", "a\u00b2 !", {"\u00b2", "!"}},
      {R"(\w+)", "a\u00b2b", {"a\u00b2b"}},
      {R"([^\W\d_]+)", "a\u0301b2c_d\u00b2", {"a\u0301b", "c", "d"}},
      {R"([\W_])", "a_-b\u0301", {"_", "-"}},
      {R"([\W\s]+)", "a- b", {"- "}},
      {R"([^\S\n]+)", " \t\n\u180e", {" \t"}},
      {R"([\S]+)", "a\u180e b", {"a\u180e", "b"}},
      {R"([\D]+)", "a1\u0661b", {"a", "b"}},
      {R"([\P{L}a]+)", "ab1", {"a", "1"}},
      {R"([^\P{L}\P{Lu}])", "aB1", {"B"}},
      {R"([\W^]+)", "a^-b", {"^-"}},
      {R"(\b[a-z])", "e\u0301a bc", {"e", "b"}},
      {R"(a\B.)", "a\u0301 ab", {"a\u0301", "ab"}},
      {"(?m:a.)", "a\nab", {"a\n", "ab"}},
      {"(?-m:a.)", "a\nab", {"ab"}},
      {"(?mi)a.", "A\nab", {"A\n", "ab"}},
      {"a(?i)b|c", "aB C aC", {"aB", "aC"}},
      {"(?:a(?i)b|c)B", "aBB aCB acB", {"aBB", "aCB", "acB"}},
      {R"(\h+)", "0fgF", {"0f", "F"}},
      {R"(\H+)", "0fgF", {"g"}},
      {R"([\hx]+)", "0fxg", {"0fx"}},
      {R"(\v)", "\013\n", {"\013"}},
      {"[[:punct:]]", "!$a", {"!", "$"}},
      {"[[:^punct:]]+", "!$a", {"a"}},
      {"[[:space:]]+", " \u180e\u00a0a", {" ", "\u00a0"}},
      {R"(\p{LC}+)", "aB\u01c5\u4e2d\u1c8a", {"aB\u01c5", "\u1c8a"}},
      {R"(\p{space}+)", "a \u00a0b", {" \u00a0"}},
      {R"(\p{Cf})", "\u200d\U00013439", {"\u200d", "\U00013439"}},
      {R"(\p{Extended_Pictographic})", "\u00a9a", {"\u00a9"}},
      {"[[:blank:]]+", "\t \u00a0\u180e\n", {"\t \u00a0"}},
      {"[[:digit:]x]+", "1\u0661x\u00b2", {"1\u0661x"}},
      {"[[:xdigit:]]+", "0fg", {"0f"}},
      {R"(\u4e00)", "\u4e00\u4e8c", {"\u4e00"}},
      {R"([\u4e00-\u4e02]+)", "\u4e00\u4e01\u4e02\u4e03", {"\u4e00\u4e01\u4e02"}},
      {"(?#[)a", "ba", {"a"}},
      {"[]a]+", "]ab", {"]a"}},
      {"[^]a]+", "]ab", {"b"}},
      {R"([a[b\W]]+)", "a-bc", {"a-b"}},
      {R"([a\x5d]+)", "a]b", {"a]"}},
      {R"((\h)\1)", "aab", {"aa"}},
      {R"((?<n>.)\k<n>)", "abb", {"bb"}},
  };
  for (const Expected& expected : cases)
    EXPECT_EQ(matches(expected.expression, expected.text), expected.matches) << expected.expression;
}

TEST(TokenizerEdges, ExpressionsThatReadOtherwiseAreRefused) {
  for (const char* const name : {"word", "alpha", "alnum", "upper", "lower", "graph", "print"}) {
    for (const std::string sign : {"", "^"}) {
      const std::string expression = "[[:" + sign + name + ":]]";
      test::expect_error([&] { (void)tokenizer_of(with_pattern(expression)); },
                         "without [:" + std::string(name) + ":], which PCRE2 reads otherwise");
    }
  }
  for (const char* const escape : {"\\V", "\\Q", "\\E", "[\\V]"})
    test::expect_error([&] { (void)tokenizer_of(with_pattern(escape)); }, "which is the letter for Oniguruma");
  test::expect_error([] { (void)tokenizer_of(with_pattern("\\p{Alpha}")); }, "without \\p{Alpha}, which PCRE2");
  for (const char* const name : {"Lower", "Emoji", "Ideographic", "ID_Start", "Common", "Zyyy", "Zzzz", "Balinese",
                                 "Egyptian_Hieroglyphs", "alphabetic", "Foo"})
    test::expect_error([&] { (void)tokenizer_of(with_pattern("\\p{" + std::string(name) + "}")); },
                       "without \\p{" + std::string(name) + "}, which PCRE2 does not know, or knows of another");
  test::expect_error([] { (void)tokenizer_of(with_pattern("\\xe9")); }, "without \\xe9, which is a byte for Oniguruma");
  test::expect_error([] { (void)tokenizer_of(with_pattern("\\X")); }, "without \\X, which PCRE2 and Oniguruma read");
  test::expect_error([] { (void)tokenizer_of(with_pattern("[a")); }, "a class without its end");
  std::string borders;
  for (int i = 0; i < 32'000; ++i) borders += "\\b";
  test::expect_error([&] { (void)tokenizer_of(with_pattern(borders)); }, "a shorter regular expression");
}

// (A look ahead in the place of a class would need memory for each character.)
TEST(TokenizerEdges, ClassesOfWhatOthersLackTakeLongTexts) {
  std::string text;
  while (text.size() < 1 << 20) text += "word";
  EXPECT_EQ(matches("[^\\W\\d_]+|[\\W_]", text).size(), 1u);
  EXPECT_EQ(matches("[^\\S\\n]|[\\S\\n]+", text).size(), 1u);
  EXPECT_EQ(matches("\\p{N}{1,3}+", std::string(1 << 20, '7')).size(), 1u);
  EXPECT_EQ(matches("\\b", text).size(), 0u);
}

TEST(TokenizerEdges, AddedTokensAreNumberedBehindTheVocabulary) {
  const auto ids = [](const std::vector<int>& of_tokens) {
    json document = unknown_words();
    document["model"]["vocab"] = {{"?", 0}, {"c", 1}, {"d", 2}};
    for (size_t i = 0; i < of_tokens.size(); ++i)
      document["added_tokens"].push_back(
          added_token(of_tokens[i], std::string(1, static_cast<char>('a' + i)), json::object()));
    return tokenizer_of(document)->tokens("ab", {.parse_special = true}).ids;
  };
  EXPECT_EQ(ids({3, 4}), (Ids{3, 4}));
  const auto refused = [&](const std::vector<int>& of_tokens, const std::string& message) {
    test::expect_error([&] { (void)ids(of_tokens); }, message);
  };
  refused({4}, "added_tokens[0].id: 3, because new tokens are numbered in their order");
  refused({3, 5}, "added_tokens[1].id: 4, because");
  refused({3, 3}, "added_tokens[1].id: 4, because");
  refused({4, 3}, "added_tokens[0].id: 3, because");
}

TEST(TokenizerEdges, EmptyPatternsAreRefused) {
  const auto refused = [](const char* part, const json& value, const std::string& message) {
    json document = unknown_words();
    document[part] = value;
    test::expect_error([&] { (void)tokenizer_of(document); }, message);
  };
  const json nothing = {{"String", ""}};
  refused("normalizer", {{"type", "Replace"}, {"pattern", nothing}, {"content", "x"}},
          "normalizer.pattern.String: a text; found an empty one");
  refused("pre_tokenizer", {{"type", "Split"}, {"pattern", nothing}, {"behavior", "Isolated"}, {"invert", false}},
          "pre_tokenizer.pattern.String: a text; found an empty one");
  refused("decoder", {{"type", "Replace"}, {"pattern", nothing}, {"content", "x"}},
          "decoder.pattern.String: a text; found an empty one");
  refused("decoder", {{"type", "BPEDecoder"}, {"suffix", ""}}, "decoder.suffix: the end of words; found an empty text");
}

TEST(TokenizerEdges, DecodersThatFindNothing) {
  json document = unknown_words();
  document["model"]["vocab"] = {{"?", 0}, {"h", 1}, {"e", 2}, {" ", 3}};
  document["decoder"] = {{"type", "Sequence"}, {"decoders", json::array()}};
  EXPECT_EQ(tokenizer_of(document)->decode(Ids{1, 2}), "he");
  const json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}},
             replace = {{"type", "Replace"}, {"pattern", {{"Regex", "x*$"}}}, {"content", "!"}};
  document["decoder"] = {{"type", "Sequence"}, {"decoders", {strip, replace}}};
  EXPECT_EQ(tokenizer_of(document)->decode(Ids{1, 3, 2}), "h!e!");
}

// Without its two flags RobertaProcessing is BertProcessing.
TEST(TokenizerEdges, RobertaWithoutFlagsIsBert) {
  json document = unknown_words();
  document["model"]["vocab"] = {{"?", 0}, {"s", 1}, {"c", 2}};
  json& processor = document["post_processor"];
  processor = {{"type", "RobertaProcessing"}, {"sep", {"s", 1}}, {"cls", {"c", 2}}, {"trim_offsets", true}};
  const Tokens pair = tokenizer_of(document)->tokens("a", {.pair = "b"});
  EXPECT_EQ(pair.ids, (Ids{2, 0, 1, 0, 1}));
  EXPECT_EQ(pair.segments, (Ids{0, 0, 0, 1, 1}));
  processor["add_prefix_space"] = false;
  EXPECT_EQ(tokenizer_of(document)->tokens("a", {.pair = "b"}).ids, (Ids{2, 0, 1, 1, 0, 1}));
}

TEST(TokenizerEdges, SpansThatAreTrimmedTwiceKeepTheirText) {
  json document = unknown_words();
  document["model"]["vocab"] = {{"?", 0}, {"s", 1}, {"c", 2}};
  document["added_tokens"] = {added_token(3, "x ", {{"rstrip", true}})};
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  json roberta = {{"type", "RobertaProcessing"}, {"sep", {"s", 1}}, {"cls", {"c", 2}}};
  roberta.update({{"trim_offsets", true}, {"add_prefix_space", true}});
  document["post_processor"] = {{"type", "Sequence"}, {"processors", {bytes, roberta}}};
  const Tokens tokens = tokenizer_of(document)->tokens("x  ", {.parse_special = true});
  EXPECT_EQ(tokens.ids, (Ids{2, 3, 1}));
  EXPECT_EQ(tokens.spans[1], (Span{0, 1}));
}

TEST(TokenizerEdges, TokensSayWhichTextTheyAreOf) {
  json document = unknown_words();
  document["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
  const auto text = [](const char* id, int type) { return json{{"Sequence", {{"id", id}, {"type_id", type}}}}; };
  document["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single", {text("A", 0)}},
                                {"pair", {text("B", 1), text("A", 0), text("A", 0)}},
                                {"special_tokens", json::object()}};
  const Tokens tokens = tokenizer_of(document)->tokens("a b", {.pair = "cd"});
  EXPECT_EQ(tokens.of_pair, (std::vector<uint8_t>{1, 0, 0, 0, 0}));
  EXPECT_EQ(tokens.spans, (std::vector<Span>{{0, 2}, {0, 1}, {2, 3}, {0, 1}, {2, 3}}));
  EXPECT_TRUE(tokenizer_of(document)->tokens("a b").of_pair.empty());
}

}  // namespace
}  // namespace heed::text
