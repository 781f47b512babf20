// heed tokenize as a person meets it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace heed::cli::test {
namespace {

const std::string kTokenizer = (fs::path(HEED_SOURCE_DIR) / "tests/data/tokenizers/bert.json").string();

TEST(Tokenize, ATextInTheCommand) {
  const Result r = run({"tokenize", kTokenizer, "The house", "--pieces"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.out.substr(0, 10), "[CLS] the ");
  EXPECT_EQ(r.out.substr(r.out.size() - 6), "[SEP]\n");
  EXPECT_EQ(run({"tokenize", kTokenizer, "The"}).out.substr(0, 2), "2 ");
  const auto json = nlohmann::json::parse(run({"tokenize", kTokenizer, "  The", "--json"}).out);
  EXPECT_EQ(json["tokens"], nlohmann::json({"[CLS]", "the", "[SEP]"}));
  EXPECT_EQ(json["spans"], nlohmann::json({{0, 0}, {2, 5}, {0, 0}}));
  EXPECT_EQ(json["special"], nlohmann::json({1, 0, 1}));
}

TEST(Tokenize, LinesOfTheInput) {
  const Result r = run({"tokenize", kTokenizer, "--pieces", "--plain"}, {.input = "the\n\nthe the\n"});
  EXPECT_EQ(r.out, "the\n\nthe the\n");
  EXPECT_EQ(run({"tokenize", kTokenizer, "--pieces", "--plain", "--json-input"}, {.input = "\"the\\nthe\"\n"}).out,
            "the the\n");
  EXPECT_EQ(run({"tokenize", kTokenizer, "--pieces", "--pair-by-tab"}, {.input = "the\tthe\n"}).out,
            "[CLS] the [SEP] the [SEP]\n");
  EXPECT_EQ(run({"tokenize", kTokenizer, "--pieces", "--limit", "3"}, {.input = "the the the\n"}).out,
            "[CLS] the [SEP]\n");
}

TEST(Tokenize, AnswersEachLineBeforeTheNext) {
  Conversation heed({"tokenize", kTokenizer, "--pieces", "--plain"});
  for (const char* const line : {"the", "the the"}) {
    heed.say(std::string(line) + "\n");
    EXPECT_EQ(heed.hear(), line);
  }
}

// Threads share the lines; what is written has their order, up to the first mistake.
TEST(Tokenize, ManyLines) {
  std::string lines, pieces;
  for (int i = 0; i < 2500; ++i) {
    std::string line = "the";
    for (int n = 0; n < i % 7; ++n) line += " the";
    lines += "\"" + line + "\"\n";
    pieces += line + "\n";
  }
  const std::vector<std::string> command = {"tokenize", kTokenizer, "--pieces", "--plain", "--json-input"};
  for (const char* const threads : {"1", "3"}) {
    std::vector<std::string> one = command;
    one.insert(one.end(), {"--threads", threads});
    EXPECT_EQ(run(one, {.input = lines}).out, pieces) << threads;
    const Result wrong = run(one, {.input = lines + "the\n" + lines + "the\n"});
    EXPECT_EQ(wrong.status, 1);
    EXPECT_EQ(wrong.out, pieces) << threads;
    EXPECT_NE(wrong.err.find("standard input, line 2501: "), std::string::npos) << wrong.err;
  }
}

TEST(Tokenize, SaysWhereATextIsNotUtf8) {
  const Folder folder;
  const std::string file = folder.write("text", "the\nthe\nthe \xff\n");
  const Result wrong = run({"tokenize", kTokenizer, "--input", file, "--pieces", "--plain"});
  EXPECT_EQ(wrong.out, "the\nthe\n");
  EXPECT_EQ(wrong.err, "heed tokenize: " + file + ", line 3: expected valid UTF-8; found byte 0xff at position 5\n");
}

TEST(Tokenize, AModelOfTheCache) {
  const Folder cache;
  const fs::path model = cache / "models--org--name";
  const std::string commit(40, 'a');
  fs::create_directories(model / "refs");
  fs::create_directories(model / "snapshots" / commit);
  std::ofstream(model / "refs/main") << commit;
  fs::copy(kTokenizer, model / "snapshots" / commit / "tokenizer.json");
  const std::string variable = "HF_HUB_CACHE=" + (model.parent_path()).string();
  const Result r = run({"tokenize", "org/name", "the", "--pieces"}, {.environment = {variable}});
  EXPECT_EQ(r.out, "[CLS] the [SEP]\n") << r.err;
  const Result none = run({"tokenize", "org/other", "the"}, {.environment = {variable}});
  EXPECT_EQ(none.status, 1);
  EXPECT_NE(none.err.find("Download it with: hf download org/other"), std::string::npos) << none.err;
  EXPECT_EQ(run({"tokenize", "none/tokenizer.json", "the"}).err.find("hf download"), std::string::npos);
}

TEST(Tokenize, TheOnlyTokenizerOfAFolder) {
  const std::string writer = HEED_SOURCE_DIR "/demo/shakespeare";  // continues a text: a target alone
  const Result r = run({"tokenize", writer, "To be", "--pieces"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.out, run({"tokenize", writer, "To be", "--pieces", "--side", "target"}).out);
  EXPECT_EQ(run({"tokenize", writer, "To be", "--side", "source"}).status, 1);
}

TEST(Tokenize, SaysWhatIsWrong) {
  EXPECT_EQ(run({"tokenize", kTokenizer, "--json-input"}, {.input = "the\n"}).status, 1);
  EXPECT_EQ(run({"tokenize", kTokenizer, "a", "--input", "b"}).status, 2);
  const Folder folder;
  const Result r = run({"tokenize", folder.write("tokenizer.json", "{}"), "a"});
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("model: expected an object; found nothing"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace heed::cli::test
