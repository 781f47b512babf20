// Folders that others wrote: what serve reads, shows and guesses is what Encoder does.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "heed/pipelines.h"
#include "pipelines/hugging_face.h"
#include "serve/api_fixture.h"

namespace heed::serve {
namespace {

namespace fs = std::filesystem;

class FamiliesTest : public ApiTest {
 protected:
  void SetUp() override {}
  void open(const fs::path& folder) { api_ = std::make_unique<Api>(std::vector<fs::path>{folder}); }
  // A copy of `name` with a small vocabulary.
  fs::path folder(const char* name) { return heed::test::with_words(folder_, name); }
  // A byte-level BPE of RoBERTa's kind: the space in front of <mask> belongs to it.
  fs::path roberta() {
    fs::path at = folder_ / "roberta-masked";
    fs::copy(heed::test::test_data("families") / "roberta-masked", at, fs::copy_options::recursive);
    folder_.file("roberta-masked/vocab.json",
                 R"({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "Ġ": 4, "a": 5, "b": 6, "<mask>": 7, "c": 8})");
    folder_.file("roberta-masked/merges.txt", "#version: 0.2\n");
    return at;
  }
  // Every mask of the text gets the guesses of Encoder::fill, and the tokens are those of Encoder::record.
  void expect_as_encoder(const fs::path& at, const std::string& text) {
    const Encoder encoder = Encoder::load(at);
    open(at);
    EXPECT_EQ(call("models", json::object())["models"][0]["mask"], encoder.mask_token());
    const json done = run({{"model", 0}, {"text", text}});
    EXPECT_EQ(done["source_tokens"], encoder.record(text).source_tokens);
    EXPECT_EQ(call("tokenize", {{"model", 0}, {"text", text}})["ids"], done["source"]);
    const auto fillings = encoder.fill(text, {.count = 1000});
    size_t mask = 0;
    for (size_t i = 0; i < done["source"].size(); ++i) {
      if (done["source_tokens"][i] != encoder.mask_token()) continue;
      ASSERT_LT(mask, fillings.size());
      const auto& expected = fillings[mask++];
      EXPECT_EQ(done["output"][i], expected[0].id);
      const json next = call("next", with(reading(0, done), {{"position", i}, {"count", 1000}}))["tokens"];
      const json last = call("layers", with(reading(0, done), {{"position", i}, {"count", 1000}}))["layers"].back();
      ASSERT_EQ(next.size(), expected.size());
      ASSERT_EQ(last["tokens"].size(), expected.size());
      for (size_t k = 0; k < expected.size(); ++k) {
        EXPECT_EQ(next[k]["id"], expected[k].id);
        EXPECT_EQ(last["tokens"][k]["id"], expected[k].id);
        EXPECT_NEAR(next[k]["probability"].get<double>(), static_cast<double>(expected[k].probability), 1e-6);
      }
    }
    EXPECT_EQ(mask, fillings.size());
  }
};

TEST_F(FamiliesTest, MasksOfBertAreReadAndGuessedAsFillDoes) {
  const fs::path at = folder("bert-masked");
  expect_as_encoder(at, "the [MASK] is a city [MASK]");
  const json done = run({{"model", 0}, {"text", "the [MASK] is a city"}});
  EXPECT_EQ(done["source_tokens"], (json{"[CLS]", "the", "[MASK]", "is", "a", "city", "[SEP]"}));
  EXPECT_EQ(done["text"].get<std::string>().find("[MASK]"), std::string::npos);
  EXPECT_EQ(run({{"model", 0}, {"text", "[MASK]"}})["source"].size(), 3u);
  EXPECT_EQ(call("models", json::object())["models"][0]["tokenizer"], "wordpiece");
  const json ids = {{"model", 0}, {"source", done["source"]}, {"heading", "the [MASK] is Zyx"}};
  for (const json& page : {json{{"model", 0}, {"text", "the [MASK] is Zyx"}}, ids})  // the heading is what was typed
    EXPECT_NE(api_->call("page", page, [] { return false; }).body.find("\"the [MASK] is Zyx\""), std::string::npos);
}

// T5's relative positions set no limit.
TEST_F(FamiliesTest, ATextOfAnyModelHasALimit) {
  const fs::path at = folder_ / "t5";
  write_model(at, Architecture::encoder_only, 12, [](models::Config& c) {
    c.positions = models::Positions::none;
    c.relative_buckets = 8;
    c.relative_distance = 20;
    c.max_length = int64_t{1} << 20;
  });
  open(at);
  EXPECT_EQ(call("models", json::object())["models"][0]["max_length"], 32768);
  EXPECT_NE(error_of("tokenize", {{"model", 0}, {"text", std::string(32800, 'a')}}).find("at most the 32768 tokens"),
            std::string::npos);
  EXPECT_NE(error_of("map", {{"model", 0}, {"source", std::vector<int>(32769, 5)}}).find("at most the 32768 tokens"),
            std::string::npos);
}

TEST_F(FamiliesTest, MasksOfRobertaTakeTheSpaceInFrontOfThem) {
  const fs::path at = roberta();
  expect_as_encoder(at, "a <mask> b");
  EXPECT_EQ(run({{"model", 0}, {"text", "a <mask> b"}})["source"], (json{0, 5, 7, 4, 6, 2}));
}

// 61 rows and 16 tokens.
TEST_F(FamiliesTest, RowsWithoutATokenAreShownAndNeverGuessed) {
  open(folder("bert-masked"));
  const json ids = {{"model", 0}, {"source", {2, 40, 7, 60, 3}}};
  const json done = run(ids);
  EXPECT_EQ(done["source_tokens"], (json{"[CLS]", "#40", "the", "#60", "[SEP]"}));
  for (const json& id : done["output"]) EXPECT_LT(id.get<int>(), 16);
  EXPECT_EQ(call("next", with(ids, {{"position", 1}, {"count", 1000}}))["tokens"].size(), 16u);
  const json layers = call("layers", with(ids, {{"position", 1}, {"count", 1000}}));
  for (const json& layer : layers["layers"]) EXPECT_EQ(layer["tokens"].size(), 16u);
  const json change = {{"changes", {{{"kind", "head"}, {"part", "encoder"}, {"layer", 0}, {"head", 1}}}}};
  const json experiment = call("experiment", with(ids, change));
  for (const json& id : experiment["after"]["likeliest"]) EXPECT_LT(id.get<int>(), 16);
  EXPECT_EQ(weights(with(ids, {{"dtype", "f32"}})).header["maps"].size(), 2u);
  EXPECT_NE(api_->call("page", ids, [] { return false; }).body.find("#40"), std::string::npos);
}

TEST_F(FamiliesTest, ATextIsLowerCasedAsForItsVector) {
  const fs::path at = folder("st-mean");
  folder_.file("st-mean/tokenizer_config.json", R"({"do_lower_case": false})");
  folder_.file("st-mean/sentence_bert_config.json", R"({"max_seq_length": 6, "do_lower_case": true})");
  open(at);
  const Encoder encoder = Encoder::load(at);
  const json done = run({{"model", 0}, {"text", "PARIS is a City"}});
  EXPECT_EQ(done["source_tokens"], (json{"[CLS]", "paris", "is", "a", "city", "[SEP]"}));
  EXPECT_EQ(done["source_tokens"], encoder.encode("PARIS is a City").tokens);
  EXPECT_EQ(call("tokenize", {{"model", 0}, {"text", "PARIS"}})["tokens"], (json{"[CLS]", "paris", "[SEP]"}));
  EXPECT_NE(error_of("tokenize", {{"model", 0}, {"text", "the capital of france is"}})
                .find("text: at most the 6 tokens that the model reads; found 7"),
            std::string::npos);
}

TEST_F(FamiliesTest, AnEncoderInAFolderOfItsOwnIsFoundByNameToo) {
  const fs::path from = folder("st-mean"), inner = from / "0_Transformer";
  fs::create_directory(inner);
  for (const char* const file : {"config.json", "model.safetensors", "vocab.txt", "sentence_bert_config.json"})
    fs::rename(from / file, inner / file);
  std::string modules = heed::test::contents_of(from / "modules.json");
  const std::string path = R"("path": "")";
  modules.replace(modules.find(path), path.size(), R"("path": "0_Transformer")");
  folder_.file("st-mean/modules.json", modules);
  open(from);
  EXPECT_EQ(call("models", json::object())["models"][0]["name"], "st-mean");
  EXPECT_EQ(run({{"model", 0}, {"text", "paris"}})["source"].size(), 3u);

  const std::string commit(40, 'a');
  const fs::path cached = folder_ / "cache" / "models--org--name";
  fs::create_directories(cached / "refs");
  fs::create_directories(cached / "snapshots");
  std::ofstream(cached / "refs" / "main") << commit;
  fs::rename(from, cached / "snapshots" / commit);
  const char* const before = std::getenv("HF_HUB_CACHE");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("HF_HUB_CACHE", (folder_ / "cache").c_str(), 1);
  open("org/name");
  before == nullptr ? ::unsetenv("HF_HUB_CACHE") : ::setenv("HF_HUB_CACHE", kept.c_str(), 1);
  const json model = call("models", json::object())["models"][0];
  EXPECT_EQ(model["name"], "org/name");
  EXPECT_NE(model["version"], "");
  EXPECT_EQ(run({{"model", 0}, {"text", "paris"}})["source_tokens"], (json{"[CLS]", "paris", "[SEP]"}));
}

TEST_F(FamiliesTest, TheVersionOfAModelInShardsChangesWithEachOfThem) {
  const fs::path at = folder("bert-sharded");
  open(at);
  const auto version = [&] { return call("models", json::object())["models"][0]["version"].get<std::string>(); };
  std::string before = version();
  EXPECT_NE(before, "");
  EXPECT_EQ(version(), before);
  for (const char* const file : {"model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors",
                                 "model.safetensors.index.json", "config.json", "vocab.txt"}) {
    fs::last_write_time(at / file, fs::last_write_time(at / file) + std::chrono::seconds(3));
    EXPECT_NE(version(), before) << file;
    before = version();
  }
}

}  // namespace
}  // namespace heed::serve
