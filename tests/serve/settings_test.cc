// The search that a folder asks for: the page writes what `heed translate` writes.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>

#include "heed/pipelines.h"
#include "pipelines/hugging_face.h"
#include "serve/api_fixture.h"
#include "serve/writer.h"

namespace heed::serve {
namespace {

const std::vector<std::string> kTexts = {"abc hgfe", "hgf", "a b c d e f g h", "cab cab cab"};

class SettingsTest : public ApiTest {
 protected:
  // The translations of kTexts by the page, once settings are put in the folder, and what Translator makes of them.
  void expect_as_translator(const std::string& settings, const std::vector<std::string>& texts = kTexts) {
    std::ofstream(folder_.path() / "translates" / "generation_config.json") << settings;
    api_ = std::make_unique<Api>(std::vector<std::filesystem::path>{folder_.path() / "translates"});
    const Translator translator = Translator::load(folder_.path() / "translates");
    for (const int64_t beam : {1, 3}) {
      for (const std::string& text : texts) {
        for (const int64_t most : {6, 256}) {
          const Translation expected =
              translator.translate(text, {.search = {.beam = beam, .max_length = most}}).front();
          const json done = run({{"model", 0}, {"text", text}, {"beam", beam}, {"max_tokens", most}});
          EXPECT_EQ(done["text"], expected.text) << settings << ", beam " << beam << ", at most " << most;
          EXPECT_EQ(done["finished"], expected.finished) << settings << ", beam " << beam << ", at most " << most;
          written_ += expected.text + (expected.finished ? ".\n" : "\n");
        }
      }
    }
  }
  std::string written_;
};

TEST_F(SettingsTest, AreThoseOfTheFolder) {
  const Translator translator = Translator::load(folder_.path() / "translates");
  const std::string h = std::to_string(translator.target_tokenizer().encode("h").back());  // what it likes to write
  const std::string once = R"("no_repeat_ngram_size": 1)";
  std::set<std::string> all;
  std::string unseen;
  for (const std::string& settings :
       {std::string(), R"("suppress_tokens": [)" + h + "]", std::string(R"("no_repeat_ngram_size": 2)"), once,
        once + R"(, "bad_words_ids": [[)" + h + "]]", R"("bad_words_ids": [[)" + h + ", " + h + "]]",
        std::string(R"("repetition_penalty": 5.5)"), std::string(R"("forced_bos_token_id": 7)"),
        std::string(R"("forced_eos_token_id": 2)"), once + R"(, "min_new_tokens": 13)",
        once + R"(, "length_penalty": 4.0, "suppress_tokens": [)" + h + "]",
        R"("forced_bos_token_id": 8, "forced_eos_token_id": 2, "min_new_tokens": 5, )" + once}) {
    written_.clear();
    expect_as_translator("{" + settings + "}");
    if (!all.insert(written_).second) unseen += settings + "; ";
  }
  EXPECT_EQ(unseen, "") << "each must show in what is written";
}

TEST_F(SettingsTest, TheLengthPenaltyIsTheFoldersUnlessTheRequestNamesOne) {
  expect_as_translator(R"({"length_penalty": 4.0})");
  const auto tree = [&](const json& more) {
    return call("beam", with({{"model", 0}, {"text", kTexts[0]}, {"beam", 3}, {"max_tokens", 6}}, more));
  };
  const json own = tree(json::object()), plain = tree({{"length_penalty", 1}});
  EXPECT_EQ(own["length_penalty"], 4);
  EXPECT_EQ(plain["length_penalty"], 1);
  for (const json& tried : {own, plain}) {
    const json& best = tried["hypotheses"][0];
    const double length = best["length"];
    EXPECT_NEAR(best["score"], best["sum"].get<double>() / std::pow(length, tried["length_penalty"].get<double>()),
                1e-6);
  }
}

TEST_F(SettingsTest, HoldForExperimentsAndForTheTree) {
  expect_as_translator(R"({"forced_bos_token_id": 7, "no_repeat_ngram_size": 1, "forced_eos_token_id": 2})");
  const json done = run({{"model", 0}, {"text", kTexts[0]}, {"max_tokens", 6}});
  // An experiment without changes writes what the run wrote.
  const json same =
      call("experiment", with(reading(0, done), {{"changes", json::array()}, {"search", {{"max_tokens", 6}}}}));
  EXPECT_EQ(same["output"]["text"], done["text"]);
  EXPECT_EQ(same["output"]["output"], done["output"]);
  const Translator translator = Translator::load(folder_.path() / "translates");
  const json tree = call("beam", {{"model", 0}, {"text", kTexts[0]}, {"beam", 3}, {"max_tokens", 6}});
  const auto expected = translator.translate(kTexts[0], {.search = {.beam = 3, .n_best = 3, .max_length = 6}});
  ASSERT_EQ(tree["hypotheses"].size(), expected.size());
  for (size_t k = 0; k < expected.size(); ++k) EXPECT_EQ(tree["hypotheses"][k]["text"], expected[k].text);
  EXPECT_EQ(tree["nodes"][0]["id"], 7);
  EXPECT_EQ(tree["length_penalty"], 1);
  const json given = run({{"model", 0}, {"text", "abc"}, {"target_text", "hg"}});
  EXPECT_EQ(given["output"][0], 7);
}

// Marian as transformers saves it: its padding begins an output and may not occur in one.
TEST_F(SettingsTest, OfAModelOfOthers) {
  const heed::test::Scratch scratch;
  const auto folder = heed::test::with_words(scratch, "marian");
  std::string vocabulary;
  for (const char* const word : heed::test::kWords) vocabulary += std::string(word) + "\n";
  for (int i = 0; i < 45; ++i) vocabulary += "token" + std::to_string(i) + "\n";
  scratch.file("marian/vocab.txt", vocabulary);
  std::filesystem::remove_all(folder_.path() / "translates");
  std::filesystem::copy(folder, folder_.path() / "translates", std::filesystem::copy_options::recursive);
  const std::vector<std::string> texts = {"paris is the capital", "the city of france", "query : a city"};
  std::ifstream file(folder / "generation_config.json");
  expect_as_translator(std::string(std::istreambuf_iterator<char>(file), {}), texts);
  EXPECT_GT(written_.size(), 60u);
  const Translator translator = Translator::load(folder);
  const json tokens = call("tokenize", {{"model", 0}, {"text", texts[0]}, {"side", "source"}});
  EXPECT_EQ(tokens["ids"], json(translator.encode(texts[0])));

  // Only the folder says that the padding may not occur.
  const auto chosen = [&] {
    Models models({folder_.path() / "translates"});
    const Reading reading{.model = models.at(0), .source = {5, 0}, .target = {60}};
    std::vector<float> logits(static_cast<size_t>(reading.model->config().target_vocabulary), 0.0f);
    logits[60] = 9;
    logits[7] = 8;
    return choose(reading, logits, {}, {});
  };
  EXPECT_EQ(chosen(), 7);
  std::ofstream(folder_.path() / "translates" / "generation_config.json") << "{}";
  EXPECT_EQ(chosen(), 60);
}

}  // namespace
}  // namespace heed::serve
