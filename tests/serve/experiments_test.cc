// Experiments: what changes, and what keeps its bits.
#include <gtest/gtest.h>

#include "heed/models.h"
#include "serve/api_fixture.h"

namespace heed::serve {
namespace {

TEST_F(ApiTest, AnExperimentThatChangesNothingChangesNoBit) {
  const json done = run({{"model", 0}, {"text", "abc hgfe"}});
  const json same = call("experiment", with(reading(0, done), {{"changes", json::array()}}));
  for (const json& place : same["reach"]) EXPECT_EQ(place["changed"], 0) << place;
  EXPECT_EQ(same["before"]["log_probs"], same["after"]["log_probs"]);
  EXPECT_EQ(same["output"]["text"], done["text"]);
  // A token that was taken by hand comes first there too.
  const json forced = run({{"model", 0}, {"text", "abc hgfe"}, {"prefix", {9, 5}}});
  const json again =
      call("experiment", with(reading(0, forced), {{"changes", json::array()}, {"search", {{"prefix", {9, 5}}}}}));
  EXPECT_EQ(again["output"]["text"], forced["text"]);
}

TEST_F(ApiTest, TheHeadThatIsNamedIsSwitchedOff) {
  const json done = run({{"model", 1}, {"text", "abcdef"}, {"max_tokens", 1}});
  const auto model = models::load(folder_.path() / "continues");
  for (const auto& [path, value] : model->named_parameters())
    if (path.starts_with("decoder.layers.1.self_attention.value")) value.data().slice(0, 8, 12).zero();
  std::filesystem::copy(folder_.path() / "continues", folder_.path() / "without");
  models::save(*model, folder_.path() / "without");
  Api without(std::vector<std::filesystem::path>{folder_.path() / "without"});
  const json head = {{"kind", "head"}, {"part", "decoder"}, {"layer", 1}, {"head", 2}};
  const json off = call("experiment", with(reading(1, done), {{"changes", json::array({head})}}));
  const json zero = json::parse(without.call("experiment", {{"model", 0}, {"target", done["target"]}}, {}).body);
  for (size_t i = 0; i + 1 < done["target"].size(); ++i)
    EXPECT_EQ(off["after"]["log_probs"][i], zero["before"]["log_probs"][i]) << i;
}

TEST_F(ApiTest, ChangesReachWhatComesAfterThemAndNothingElse) {
  const json done = run({{"model", 0}, {"text", "abc hgfe"}, {"prefix", {5, 6, 7, 8}}, {"max_tokens", 4}});
  const auto changed = [](const json& answer, const std::string& name) -> int64_t {
    for (const json& place : answer["reach"])
      if (place["name"] == name) return place["changed"];
    ADD_FAILURE() << name;
    return -1;
  };
  const auto experiment = [&](const json& changes) {
    return call("experiment", with(reading(0, done), {{"changes", changes}}));
  };
  const json head = experiment({{{"kind", "head"}, {"part", "cross"}, {"layer", 1}, {"head", 2}}});
  EXPECT_EQ(changed(head, "decoder.layers.1.self_attention"), 0);
  EXPECT_GT(changed(head, "decoder.layers.1.cross_attention"), 0);
  EXPECT_EQ(changed(head, "encoder.layers.1.feed_forward"), 0);
  EXPECT_NE(head["before"]["log_probs"], head["after"]["log_probs"]);

  const json layer = experiment({{{"kind", "layer"}, {"part", "decoder"}, {"layer", 0}}});
  EXPECT_EQ(changed(layer, "decoder.layers.0.cross_attention"),
            0);  // the layer computes, and hands on what it was given
  EXPECT_GT(changed(layer, "decoder.layers.0.feed_forward"), 0);

  // One edge, of one row: the rows before it are as they were.
  const json edge = experiment({{{"kind", "edge"}, {"part", "decoder"}, {"row", 2}, {"column", 1}}});
  EXPECT_EQ(edge["before"]["log_probs"][0], edge["after"]["log_probs"][0]);
  EXPECT_EQ(edge["before"]["log_probs"][1], edge["after"]["log_probs"][1]);
  EXPECT_NE(edge["before"]["log_probs"][2], edge["after"]["log_probs"][2]);
  EXPECT_EQ(changed(edge, "decoder.layers.0.self_attention"), 16);  // one row of E numbers

  const json token = experiment({{{"kind", "token"}, {"side", "source"}, {"position", 1}}});
  EXPECT_GT(changed(token, "encoder.layers.0.self_attention"), 0);
  EXPECT_EQ(changed(token, "encoder.embedding"), 0);
  const Weights seen =
      weights(with(reading(0, done), {{"dtype", "f32"},
                                      {"parts", {"cross"}},
                                      {"layers", {0}},
                                      {"heads", {0}},
                                      {"changes", {{{"kind", "token"}, {"side", "source"}, {"position", 1}}}}}));
  const auto columns = seen.header["maps"][0]["columns"].get<size_t>();
  for (size_t i = 1; i < seen.numbers.size(); i += columns) EXPECT_EQ(seen.numbers[i], 0);
}

TEST_F(ApiTest, AStateOfTheSameTextChangesNothingAndThatOfAnotherOnlyWhatFollows) {
  const json done = run({{"model", 1}, {"text", "abcdef"}, {"max_tokens", 1}});
  const auto replace = [&](const std::vector<int64_t>& target) {
    return call("experiment", with(reading(1, done), {{"changes",
                                                       {{{"kind", "state"},
                                                         {"part", "decoder"},
                                                         {"layer", 0},
                                                         {"position", 3},
                                                         {"from", {{"target", target}, {"position", 3}}}}}}}));
  };
  const json same = replace(done["target"].get<std::vector<int64_t>>());
  for (const json& place : same["reach"]) EXPECT_EQ(place["changed"], 0);
  const json other = replace({4, 4, 5, 6});
  EXPECT_EQ(other["before"]["log_probs"][2], other["after"]["log_probs"][2]);
  EXPECT_NE(other["before"]["log_probs"][3], other["after"]["log_probs"][3]);
  EXPECT_NE(other["before"]["log_probs"][5], other["after"]["log_probs"][5]);
}

TEST_F(ApiTest, RefusesChangesThatAreNotThereOrExcludeEachOther) {
  const json done = run({{"model", 0}, {"text", "abc"}, {"max_tokens", 2}});
  const auto refused = [&](const json& changes) {
    return error_of("experiment", with(reading(0, done), {{"changes", changes}}));
  };
  const json head = {{"kind", "head"}, {"part", "cross"}, {"layer", 1}, {"head", 2}};
  EXPECT_NE(refused(json::array({with(head, {{"head", 4}})}))
                .find("changes[0].head: expected a whole number from 0 to 3; found 4"),
            std::string::npos);
  EXPECT_NE(refused(json::array({with(head, {{"part", "x"}})})).find("encoder, decoder or cross"), std::string::npos);
  EXPECT_NE(refused(json::array({with(head, {{"kind", "x"}})})).find("head, layer, edge, token or state"),
            std::string::npos);
  EXPECT_NE(refused({head, head}).find("exclude each other"), std::string::npos);
  EXPECT_NE(refused({head, {{"kind", "layer"}, {"part", "decoder"}, {"layer", 1}}}).find("exclude each other"),
            std::string::npos);
  const json edge = {{"kind", "edge"}, {"part", "cross"}, {"layer", 1}, {"head", 2}, {"row", 0}, {"column", 0}};
  EXPECT_NE(refused({edge, head}).find("changes[0] and changes[1]"), std::string::npos);
  EXPECT_EQ(refused({edge, with(head, {{"head", 1}})}), "no error");
  EXPECT_NE(refused(json::array({with(edge, {{"column", 4}})})).find("changes[0].column"), std::string::npos);
  EXPECT_NE(refused({{{"kind", "token"}, {"side", "source"}, {"position", 9}}}).find("position"), std::string::npos);
}

TEST_F(ApiTest, ALayerThatIsOffHandsOnTheStateThatIsPutThere) {
  const json done = run({{"model", 1}, {"text", "abcdef"}, {"max_tokens", 1}});
  const json off = {{"kind", "layer"}, {"part", "decoder"}, {"layer", 0}};
  const json state = {{"kind", "state"},
                      {"part", "decoder"},
                      {"layer", 0},
                      {"position", 2},
                      {"from", {{"target", {4, 4, 4}}, {"position", 2}}}};
  const auto after = [&](const json& changes) {
    return call("experiment", with(reading(1, done), {{"changes", changes}}))["after"]["log_probs"];
  };
  EXPECT_EQ(after(json::array({off, state})), after(json::array({state, off})));
  EXPECT_NE(after(json::array({off, state})), after(json::array({off})));
}

TEST_F(ApiTest, AHeadThatIsOffAddsNothing) {
  const json done = run({{"model", 1}, {"text", "abcdef"}, {"max_tokens", 1}});
  const json place = {{"part", "decoder"}, {"layer", 0}, {"head", 1}, {"row", 3}, {"column", 1}};
  const json on = call("explain", with(reading(1, done), place));
  EXPECT_GT(on["added_norm"].get<double>(), 0);
  const json head = {{"kind", "head"}, {"part", "decoder"}, {"layer", 0}, {"head", 1}};
  const json off = call("explain", with(with(reading(1, done), place), {{"changes", json::array({head})}}));
  EXPECT_EQ(off["weight"], on["weight"]);
  EXPECT_EQ(off["added_norm"], 0.0);
}

}  // namespace
}  // namespace heed::serve
