// Folders that others wrote.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

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
};

// 61 rows and 16 tokens.
TEST_F(FamiliesTest, RowsWithoutATokenAreShownAndNeverGuessed) {
  open(folder("bert-masked"));
  const json ids = {{"model", 0}, {"source", {2, 40, 7, 60, 3}}};
  const json done = run(ids);
  EXPECT_EQ(done["source_tokens"], (json{"[CLS]", "#40", "the", "#60", "[SEP]"}));
  for (const json& id : done["output"]) EXPECT_LT(id.get<int>(), 16);
  EXPECT_EQ(call("next", with(ids, {{"position", 1}, {"count", 1000}}))["tokens"].size(), 16u);
  for (const json& layer : call("layers", with(ids, {{"position", 1}, {"count", 1000}}))["layers"])
    EXPECT_EQ(layer["tokens"].size(), 16u);
  const json change = {{"changes", {{{"kind", "head"}, {"part", "encoder"}, {"layer", 0}, {"head", 1}}}}};
  for (const json& id : call("experiment", with(ids, change))["after"]["likeliest"]) EXPECT_LT(id.get<int>(), 16);
  EXPECT_EQ(weights(with(ids, {{"dtype", "f32"}})).header["maps"].size(), 2u);
  EXPECT_NE(api_->call("page", ids, [] { return false; }).body.find("#40"), std::string::npos);
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
