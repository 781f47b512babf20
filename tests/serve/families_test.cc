// Folders that others wrote.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace heed::serve
