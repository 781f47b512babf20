// Messages of the library as the command line shows them, and hints that name options the command has.
#include "cli/errors.h"

#include <gtest/gtest.h>

#include "cli/program.h"

namespace heed::cli {
namespace {

TEST(Errors, NamesOfFunctionsGoAndTheSentenceGetsItsVerb) {
  EXPECT_EQ(plain_message("[read_npz] \"x.npz\": a file that can be read; No such file or directory"),
            "'x.npz' cannot be read: No such file or directory");
  EXPECT_EQ(plain_message("[write_npz] \"x\": a file that can be renamed to its final name; Read-only file system"),
            "'x' cannot be renamed to its final name: Read-only file system");
  EXPECT_EQ(plain_message("[attention] a multiple of 2 query heads; found 3"),
            "expected a multiple of 2 query heads; found 3");
  EXPECT_EQ(plain_message("[read_recipe] r.toml: [recipe] context: more than 0; found 0"),
            "r.toml: context: expected more than 0; found 0");
  EXPECT_EQ(
      plain_message("[load_tokenizer] \"v\": a vocabulary; [vocabulary_tokenizer] every token once; \"a\" comes twice"),
      "'v': expected a vocabulary; every token once; 'a' comes twice");
  EXPECT_EQ(plain_message("[read_npy] \"a: b; c\": an .npy array; found another"),
            "'a: b; c': expected an .npy array; found another");
  EXPECT_EQ(plain_message("[read_npy] \"f\": one JSON object"), "'f': expected one JSON object");
  EXPECT_EQ(plain_message("no name here; found [1, 2] and [x]"), "no name here; found [1, 2] and [x]");
  EXPECT_EQ(plain_message("[x] found [a] b"), "expected found [a] b");
  EXPECT_EQ(plain_message("[x] a: a number; found {\"a\":\"b\"}"), "a: expected a number; found {\"a\":\"b\"}")
      << "JSON";
  EXPECT_EQ(plain_message("[x] a: a number; found \"it's\""), "a: expected a number; found \"it's\"");
  EXPECT_EQ(plain_message("[x] a: a number; found \"b"), "a: expected a number; found \"b") << "no end";
  EXPECT_EQ(plain_message("[]"), "[]");
  EXPECT_EQ(plain_message(""), "");
}

// A hint must not name an option that the command lacks.
TEST(Errors, HintsNameOptionsThatTheCommandHas) {
  const std::string messages[] = {"[write] \"x\": a file that can be written; No space left on device",
                                  "[translate] TEXT: at most the 23 tokens that the model reads; found 40",
                                  "[Translator::load] m: an encoder-decoder; found a decoder-only model",
                                  "[Generator::load] m: a decoder-only model; found an encoder-decoder",
                                  "[train] \"x\": a folder that can be made; Not a directory"};
  int hints = 0;
  for (const std::string command : {"train", "translate", "generate", "evaluate", "attend", "inspect", "serve",
                                    "average", "tokenize", "convert", "info", "bench", "plot"}) {
    const std::string help = test::run({"help", command}).out;
    std::vector<std::string> found = {std::string(hint_for_memory("heed " + command))};
    for (const std::string& message : messages) found.emplace_back(hint_for("heed " + command, message));
    for (const std::string& hint : found) {
      hints += hint.empty() ? 0 : 1;
      for (size_t at = hint.find("--"); at != std::string::npos; at = hint.find("--", at + 2)) {
        const std::string option = hint.substr(at, hint.find(' ', at) - at);
        EXPECT_NE(help.find("  " + option + " "), std::string::npos) << command << " lacks " << option;
      }
    }
  }
  EXPECT_GT(hints, 10);
  EXPECT_EQ(hint_for("heed inspect", messages[0]), "free some space");
  EXPECT_NE(hint_for("heed train", messages[0]).find("--resume"), std::string_view::npos);
}

}  // namespace
}  // namespace heed::cli
