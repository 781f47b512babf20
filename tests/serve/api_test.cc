// What the requests answer, against the operator, the search and the models themselves.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>

#include "heed/attention.h"
#include "heed/nn.h"
#include "heed/pipelines.h"
#include "heed/probe.h"
#include "serve/api_fixture.h"
#include "serve/writer.h"

namespace heed::serve {
namespace {

// Ids beside a text would be dropped.
TEST_F(ApiTest, ATextBesideIdsIsRefused) {
  for (const char* const name : {"next", "attention", "explain", "layers", "experiment", "map", "row", "page"}) {
    EXPECT_EQ(error_of(name, {{"model", 0}, {"text", "abc"}, {"source", {5}}}),
              "text: expected without source; found both");
    EXPECT_EQ(error_of(name, {{"model", 1}, {"text", "abc"}, {"target", {5}}}),
              "text: expected without target; found both");
  }
  EXPECT_EQ(error_of("beam", {{"model", 0}, {"text", "abc"}, {"source", {5}}}),
            "text: expected without source; found both");
  for (const char* const text : {"abc", ""})
    EXPECT_THROW((void)api_->stream("run", {{"model", 1}, {"text", text}, {"target", {5}}}), Error) << text;
}

TEST_F(ApiTest, ListsTheModelsWithoutPathsOfTheMachine) {
  const std::string text = call("models", json::object()).dump();
  EXPECT_EQ(text.find(folder_.path().parent_path().string() + "/"), std::string::npos) << text;
  const json models = call("models", json::object())["models"];
  ASSERT_EQ(models.size(), 3u);
  EXPECT_EQ(models[0]["task"], "translate");
  EXPECT_EQ(models[1]["task"], "continue");
  EXPECT_EQ(models[2]["task"], "fill");
  EXPECT_EQ(models[1]["parts"], json({"decoder"}));
}

TEST_F(ApiTest, ARunWritesWhatThePipelineWrites) {
  const Translator translator = Translator::load(folder_.path() / "translates");
  for (const int64_t beam : {1, 4}) {
    const json done = run({{"model", 0}, {"text", "abc hgfe"}, {"beam", beam}});
    const Translation expected = translator.translate("abc hgfe", {.search = {.beam = beam}}).front();
    EXPECT_EQ(done["text"], expected.text) << beam;
    EXPECT_EQ(done["finished"], expected.finished);
    ASSERT_GE(done["log_probs"].size(), expected.log_probs.size());
    for (size_t i = 0; i < expected.log_probs.size(); ++i)
      EXPECT_NEAR(done["log_probs"][i].get<double>(), static_cast<double>(expected.log_probs[i]), 1e-5);
  }
  for (const int64_t beam : {1, 4}) {
    const json done = run({{"model", 0}, {"text", "abc hgfe"}, {"beam", beam}, {"max_tokens", 0}});
    EXPECT_EQ(done["text"], "") << beam;
  }
  const Generator generator = Generator::load(folder_.path() / "continues");
  const json done =
      run({{"model", 1}, {"text", "abc"}, {"temperature", 0.9}, {"top_p", 0.8}, {"seed", 7}, {"max_tokens", 20}});
  const Generation expected =
      generator.generate("abc", {.sampling = {.temperature = 0.9, .top_p = 0.8, .seed = 7, .max_tokens = 20}});
  EXPECT_EQ(done["text"], expected.text);
}

TEST_F(ApiTest, EachTokenIsSentWithItsProbability) {
  std::vector<json> tokens;
  const json done = run({{"model", 1}, {"text", "abc"}, {"max_tokens", 6}}, &tokens);
  ASSERT_EQ(tokens.size(), 6u);
  for (const json& token : tokens) {
    const auto row = token["position"].get<size_t>();
    EXPECT_EQ(done["output"][row], token["id"]);
    EXPECT_EQ(done["log_probs"][row], token["log_prob"]);  // the cache has the bits of the whole pass
    EXPECT_EQ(done["entropies"][row], token["entropy"]);
    const json next = call("next", with(reading(1, done), {{"position", row}, {"count", 1}}));
    EXPECT_EQ(next["tokens"][0]["id"], token["id"]);
    EXPECT_EQ(next["tokens"][0]["log_prob"], token["log_prob"]);
  }
}

TEST_F(ApiTest, ForcedTokensAreWrittenFirst) {
  const json done = run({{"model", 0}, {"text", "abc"}, {"prefix", {9, 5}}, {"max_tokens", 4}});
  EXPECT_EQ(done["output"][0], 9);
  EXPECT_EQ(done["output"][1], 5);
  const json given = run({{"model", 0}, {"text", "abc"}, {"target_text", "hg"}});
  EXPECT_EQ(given["text"], "hg");
  EXPECT_EQ(given["target"].size(), 3u);
  EXPECT_TRUE(given["finished"]);
}

TEST_F(ApiTest, ATranslationNeverHasTheBeginOrThePaddingInside) {
  Models models({folder_.path() / "translates", folder_.path() / "continues"});
  std::vector<float> logits(static_cast<size_t>(models.at(0)->config().target_vocabulary), 0.0f);
  logits[0] = 8;  // the padding
  logits[1] = 9;  // the begin
  logits[7] = 5;
  const Reading translation{.model = models.at(0), .source = {5, 2}, .target = {1}};
  const Reading text{.model = models.at(1), .target = {5}};
  EXPECT_EQ(choose(translation, logits, {}, {}), 7);
  EXPECT_EQ(choose(text, logits, {}, {}), 1);  // in a text it is a token as others are
  logits[2] = 10;
  EXPECT_EQ(choose(translation, logits, {}, {}), 2);  // the end
  EXPECT_EQ(choose(text, logits, {.ignore_end = true}, {}), 1);
}

TEST_F(ApiTest, WeightsAreThoseThatTheModelComputes) {
  const json done = run({{"model", 0}, {"text", "abc hgfe"}, {"max_tokens", 5}});
  const inspect::Record record =
      Translator::load(folder_.path() / "translates").record("abc hgfe", {.target = done["text"].get<std::string>()});
  const Weights all = weights(with(reading(0, done), {{"dtype", "f32"}}));
  ASSERT_EQ(all.header["maps"].size(), 6u);
  EXPECT_EQ(all.header["telling"]["cross"].size(), 2u);
  EXPECT_EQ(all.header["names"]["cross"][0].size(), 4u);
  for (const json& map : all.header["maps"]) {
    const auto& maps = map["part"] == "encoder"   ? record.encoder
                       : map["part"] == "decoder" ? record.decoder
                                                  : record.cross;
    const Tensor expected = maps[map["layer"].get<size_t>()].weights;
    const auto offset = map["offset"].get<size_t>();
    ASSERT_EQ(map["rows"], expected.size(1));
    for (int64_t i = 0; i < expected.numel(); ++i)
      ASSERT_EQ(all.numbers[offset + static_cast<size_t>(i)], expected.data<float>()[i]) << map["path"];
  }
  const Weights some =
      weights(with(reading(0, done), {{"dtype", "f32"}, {"parts", {"cross"}}, {"layers", {1}}, {"heads", {2, 0}}}));
  ASSERT_EQ(some.header["maps"].size(), 1u);
  const Tensor cross = record.cross[1].weights;
  ASSERT_EQ(some.numbers.size(), static_cast<size_t>(2 * cross.size(1) * cross.size(2)));
  EXPECT_EQ(some.numbers[1], cross.at({2, 0, 1}));
  for (const char* const name : {"parts", "layers"}) {
    const Weights none = weights(with(reading(0, done), {{name, json::array()}}));
    EXPECT_TRUE(none.header["maps"].empty()) << name;
  }
}

// Every number of one weight, computed anew by the operator from the queries, keys and values of the layer.
TEST_F(ApiTest, OneWeightHasTheBitsOfTheOperator) {
  struct Seen : nn::Probe {
    std::string path;
    AttentionResult result;
    Tensor query, key;
    void on_attention(std::string_view layer, const Tensor& q, const Tensor& k, const Tensor& v,
                      AttentionOptions& options) override {
      if (layer != path) return;
      AttentionOptions watched = options;
      watched.want = {.logsumexp = true, .weights = true, .scores = true};
      result = heed::attention(q, k, v, watched);
      query = q.contiguous();
      key = k.contiguous();
    }
  };
  for (const int64_t model : {0, 1, 2}) {
    const json done = run({{"model", model}, {"text", "abc hgfe"}});
    const char* const part = model == 0 ? "cross" : model == 1 ? "decoder" : "encoder";
    Seen seen;
    seen.path = model == 0 ? "decoder.layers.1.cross_attention" : std::string(part) + ".layers.1.self_attention";
    const auto loaded = models::load(folder_.path() / (model == 0 ? "translates" : model == 1 ? "continues" : "fills"));
    const auto ids = [](const json& list) {
      const auto values = list.get<std::vector<int32_t>>();
      return Tensor::from(std::span<const int32_t>(values), {1, static_cast<int64_t>(values.size())});
    };
    const auto length = [](const json& list) {
      const auto n = static_cast<int32_t>(list.size());
      return Tensor::from(std::span<const int32_t>(&n, 1), {1});
    };
    {
      const NoGradScope no_grad;
      const nn::ProbeScope scope(seen);
      if (model == 0)
        (void)dynamic_cast<models::Transformer&>(*loaded).forward(ids(done["source"]), length(done["source"]),
                                                                  ids(done["target"]));
      else if (model == 1)
        (void)dynamic_cast<models::Gpt&>(*loaded).forward(ids(done["target"]));
      else
        (void)dynamic_cast<models::Bert&>(*loaded).encode(ids(done["source"]), length(done["source"]));
    }
    for (const int64_t row : {0, 2, 4}) {
      for (const int64_t column : {0, 1, 3}) {
        const json one = call(
            "explain",
            with(reading(model, done), {{"part", part}, {"layer", 1}, {"head", 2}, {"row", row}, {"column", column}}));
        const float weight = static_cast<float>(seen.result.weights.at({0, 2, row, column}));
        EXPECT_EQ(std::bit_cast<uint32_t>(one["weight"].get<float>()), std::bit_cast<uint32_t>(weight));
        EXPECT_EQ(one["logsumexp"].get<float>(), static_cast<float>(seen.result.logsumexp.at({0, 2, row})));
        const bool masked = model == 1 && column > row;
        EXPECT_EQ(one["masked"], masked);
        double dot = 0;
        for (int64_t d = 0; d < 4; ++d) dot += seen.query.at({0, 2, row, d}) * seen.key.at({0, 2, column, d});
        EXPECT_NEAR(one["dot"].get<double>(), dot, 1e-12);
        if (masked) continue;
        const float score = static_cast<float>(seen.result.scores.at({0, 2, row, column}));
        EXPECT_EQ(one["score"].get<float>(), score);
        EXPECT_NEAR(one["scaled"].get<double>() + one["bias"].get<double>(), static_cast<double>(score), 1e-5);
        EXPECT_NEAR(std::exp(one["score"].get<double>() - one["logsumexp"].get<double>()), static_cast<double>(weight),
                    1e-6);
        double total = 0, last = 2;
        for (const json& rival : one["rivals"]) {
          total += rival["weight"].get<double>();
          EXPECT_LE(rival["weight"].get<double>(), last);
          last = rival["weight"].get<double>();
        }
        EXPECT_NEAR(total, 1, 1e-5);
      }
    }
  }
}

// What all keys of a row add, over all heads, is what the layer adds, less the projection's bias.
TEST_F(ApiTest, WhatTheKeysAddIsWhatTheLayerAdds) {
  const json done = run({{"model", 1}, {"text", "abc"}, {"max_tokens", 1}});
  std::vector<double> sum(16, 0.0);
  double row_norm = 0;
  for (int64_t head = 0; head < 4; ++head)
    for (int64_t column = 0; column <= 2; ++column) {
      const json one = call(
          "explain",
          with(reading(1, done), {{"part", "decoder"}, {"layer", 0}, {"head", head}, {"row", 2}, {"column", column}}));
      for (size_t e = 0; e < 16; ++e) sum[e] += one["added"][e].get<double>();
      row_norm = one["row_norm"].get<double>();
    }
  const auto model = models::load(folder_.path() / "continues");
  for (const auto& [path, value] : model->named_parameters())
    if (path == "decoder.layers.0.self_attention.output.bias")
      for (size_t e = 0; e < 16; ++e) sum[e] += static_cast<double>(value.data().data<float>()[e]);
  double square = 0;
  for (const double x : sum) square += x * x;
  EXPECT_NEAR(std::sqrt(square), row_norm, 1e-4 * row_norm);
}

// A head that is off is a head without values: a model whose value projection is zero there says the same.
TEST_F(ApiTest, LayersEndWithWhatTheModelSays) {
  for (const int64_t model : {0, 1}) {
    const json done = run({{"model", model}, {"text", "abcd"}, {"max_tokens", 3}});
    const json layers = call("layers", with(reading(model, done), {{"position", 2}, {"count", 3}}))["layers"];
    ASSERT_EQ(layers.size(), 3u);
    EXPECT_EQ(layers[0]["name"], "embedding");
    EXPECT_EQ(layers[2]["added"].size(), model == 0 ? 3u : 2u);
    const json next = call("next", with(reading(model, done), {{"position", 2}, {"count", 3}}))["tokens"];
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_EQ(layers[2]["tokens"][k]["id"], next[k]["id"]);
      EXPECT_EQ(layers[2]["tokens"][k]["log_prob"], next[k]["log_prob"]);
    }
  }
}

TEST_F(ApiTest, CutOffsLeaveWhatSamplingLeaves) {
  const json done = run({{"model", 1}, {"text", "abcd"}, {"max_tokens", 1}});
  const json next =
      call("next", with(reading(1, done), {{"position", 3}, {"count", 17}, {"temperature", 0.7}, {"top_k", 3}}));
  double kept = 0;
  int64_t alive = 0;
  for (const json& token : next["tokens"]) {
    kept += token["kept"].get<double>();
    alive += token["kept"].get<double>() > 0 ? 1 : 0;
  }
  EXPECT_NEAR(kept, 1, 1e-12);
  EXPECT_EQ(alive, 3);
  EXPECT_GT(next["entropy"].get<double>(), 0);
}

TEST_F(ApiTest, TheTreeOfABeamHasTheHypothesesOfTheSearch) {
  const Translator translator = Translator::load(folder_.path() / "translates");
  const auto expected = translator.translate("abc hg", {.search = {.beam = 4, .n_best = 4}});
  const json tree = call("beam", {{"model", 0}, {"text", "abc hg"}, {"beam", 4}});
  ASSERT_EQ(tree["hypotheses"].size(), expected.size());
  for (size_t h = 0; h < expected.size(); ++h) {
    const json& hypothesis = tree["hypotheses"][h];
    EXPECT_EQ(hypothesis["text"], expected[h].text);
    EXPECT_EQ(hypothesis["score"], expected[h].score);
    // Its way through the tree has its tokens and its sum.
    double sum = 0;
    int64_t length = 0;
    for (int64_t n = hypothesis["node"]; n >= 0; n = tree["nodes"][static_cast<size_t>(n)]["parent"], ++length)
      sum += tree["nodes"][static_cast<size_t>(n)]["log_prob"].get<double>();
    EXPECT_NEAR(sum, hypothesis["sum"].get<double>(), 1e-5);
    EXPECT_EQ(length, hypothesis["length"]);
  }
  int64_t dropped = 0;
  for (const json& node : tree["nodes"]) {
    const int64_t parent = node["parent"];
    EXPECT_LT(parent, static_cast<int64_t>(tree["nodes"].size()));
    if (node["fate"] != "dropped") continue;
    ++dropped;
    EXPECT_LE(node["best"].get<double>(), node["behind"].get<double>());
  }
  EXPECT_GT(dropped, 0);
}

// The pooled map of a long text against the full weights; zoomed, against the weights themselves.
TEST_F(ApiTest, MapsOfLongTextsAreThePooledWeights) {
  std::string text;
  for (int i = 0; i < 600; ++i) text += "abcdefgh ABC."[(i * i + i / 7) % 13];
  const json tokens = call("tokenize", {{"model", 1}, {"text", text}});
  const json request = {{"model", 1}, {"target", tokens["ids"]}};
  const Weights full = weights(with(request, {{"dtype", "f32"}, {"layers", {1}}, {"heads", {3}}}));
  const json place = {{"part", "decoder"}, {"layer", 1}, {"head", 3}};
  const Weights pooled = weights(with(with(request, place), {{"size", {60, 60}}}), "map");
  ASSERT_EQ(pooled.numbers.size(), 3600u + 120u);
  for (size_t r = 0; r < 60; ++r) {
    double entropy = 0;
    for (size_t c = 0; c < 60; ++c) {
      double mean = 0;
      for (size_t i = 0; i < 10; ++i)
        for (size_t j = 0; j < 10; ++j)
          mean += static_cast<double>(full.numbers[(10 * r + i) * 600 + 10 * c + j]) / 100;
      ASSERT_NEAR(static_cast<double>(pooled.numbers[r * 60 + c]), mean, 1e-6) << r << " " << c;
    }
    for (size_t i = 0; i < 10; ++i)
      for (size_t j = 0; j < 600; ++j) {
        const auto w = static_cast<double>(full.numbers[(10 * r + i) * 600 + j]);
        if (w > 0) entropy -= w * std::log2(w) / 10;
      }
    ASSERT_NEAR(static_cast<double>(pooled.numbers[3600 + r]), entropy, 1e-3);
  }
  const Weights zoomed =
      weights(with(with(request, place), {{"size", {40, 40}}, {"rows", {500, 540}}, {"columns", {480, 520}}}), "map");
  for (size_t r = 0; r < 40; ++r)
    for (size_t c = 0; c < 40; ++c)
      ASSERT_NEAR(zoomed.numbers[r * 40 + c], full.numbers[(500 + r) * 600 + 480 + c], 1e-7f) << r << " " << c;
  const json row = call("row", with(with(request, place), {{"row", 555}, {"count", 5}}));
  ASSERT_EQ(row["keys"].size(), 5u);
  for (const json& key : row["keys"])
    EXPECT_NEAR(key["weight"].get<float>(), full.numbers[555 * 600 + key["column"].get<size_t>()], 1e-7f);
  EXPECT_EQ(row["around"][555 - row["first"].get<int64_t>()], tokens["tokens"][555]);
}

TEST_F(ApiTest, AnswersDoNotDependOnWhatWasAskedBefore) {
  const json place = {{"part", "decoder"}, {"layer", 0}, {"head", 0}};
  const json one = with({{"model", 1}, {"text", "abcdef"}}, place),
             other = with({{"model", 1}, {"text", "hgf ABC"}}, place);
  const std::string first = api_->call("map", one, {}).body;
  Api fresh(std::vector<std::filesystem::path>{folder_.path() / "translates", folder_.path() / "continues"});
  const std::string alone = fresh.call("map", other, {}).body;
  EXPECT_NE(first, alone);
  EXPECT_EQ(api_->call("map", other, {}).body, alone);
  (void)run({{"model", 0}, {"text", "abc"}});
  EXPECT_EQ(api_->call("map", one, {}).body, first);
}

TEST_F(ApiTest, RefusesWhatIsNotThere) {
  EXPECT_NE(error_of("next", {{"model", 3}, {"text", "abc"}, {"position", 0}}).find("from 0 to 2; found 3"),
            std::string::npos);
  EXPECT_NE(error_of("next", {{"text", "abc"}, {"position", 0}}).find("model: expected in the request"),
            std::string::npos);
  EXPECT_NE(error_of("next", {{"model", 1}, {"text", ""}, {"position", 0}}).find("found an empty text"),
            std::string::npos);
  EXPECT_NE(error_of("next", {{"model", 1}, {"text", "abc"}, {"position", 3}}).find("from 0 to 2; found 3"),
            std::string::npos);
  EXPECT_NE(error_of("next", {{"model", 1}, {"text", 7}, {"position", 0}}).find("text: expected a text; found 7"),
            std::string::npos);
  EXPECT_NE(error_of("next", {{"model", 1}, {"target", {5, 99}}, {"position", 0}}).find("target[1]"),
            std::string::npos);
  EXPECT_NE(error_of("next", {{"model", 1}, {"text", "a"}, {"position", 0}, {"x", 1}}).find("found \"x\""),
            std::string::npos);
  EXPECT_NE(error_of("beam", {{"model", 1}, {"text", "abc"}}).find("a model that translates"), std::string::npos);
  EXPECT_NE(error_of("next", {{"model", 0}, {"text", std::string(701, 'a')}, {"position", 0}}).find("699 tokens"),
            std::string::npos);
  EXPECT_EQ(error_of("models", {{"x", 1}}), "expected no members; found \"x\"");
  EXPECT_NE(error_of("training", {{"model", 0}}).find("the folder of a training"), std::string::npos);
  EXPECT_NE(
      error_of("explain",
               {{"model", 1}, {"text", "abc"}, {"part", "cross"}, {"layer", 0}, {"head", 0}, {"row", 0}, {"column", 0}})
          .find("part: expected decoder"),
      std::string::npos);
}

TEST_F(ApiTest, AModelThatIsWrittenAnewIsReadAnew) {
  const json before = call("models", json::object())["models"][1];
  const json done = run({{"model", 1}, {"text", "abc"}, {"max_tokens", 1}});
  std::filesystem::remove(folder_.path() / "continues" / "model.safetensors");
  EXPECT_EQ(run({{"model", 1}, {"text", "abc"}, {"max_tokens", 1}})["log_probs"], done["log_probs"]);  // being written
  write_model(folder_.path() / "continues", Architecture::decoder_only, 77);
  EXPECT_NE(run({{"model", 1}, {"text", "abc"}, {"max_tokens", 1}})["log_probs"], done["log_probs"]);
  EXPECT_NE(call("models", json::object())["models"][1]["version"], before["version"]);
}

TEST_F(ApiTest, ATrainingHasItsLogAndItsCheckpoints) {
  const auto run_folder = folder_.path() / "continues";
  std::filesystem::create_directories(run_folder / "checkpoints");
  write_model(run_folder / "checkpoints" / "step-00000050", Architecture::decoder_only, 5);
  std::ofstream(run_folder / "log.jsonl")
      << "{\"type\":\"start\",\"update\":0}\n{\"type\":\"train\",\"update\":50}\n{\"ty";
  const json training = call("training", {{"model", 1}});
  EXPECT_EQ(training["rows"].size(), 2u);
  EXPECT_TRUE(training["running"]);
  ASSERT_EQ(training["checkpoints"].size(), 1u);
  EXPECT_EQ(training["checkpoints"][0]["update"], 50);
  EXPECT_EQ(call("training", {{"model", 1}, {"after", 1}})["rows"][0]["type"], "train");
  std::ofstream(run_folder / "log.jsonl")
      << "{\"type\":\"start\"}\n{\"ty\n[1]\n{\"type\":7}\n{\"type\":\"end\"}\n";  // a line cut off by a kill
  EXPECT_EQ(call("training", {{"model", 1}})["rows"].size(), 5u);
  EXPECT_EQ(call("training", {{"model", 1}})["rows"][1], json::object());
  EXPECT_FALSE(call("training", {{"model", 1}})["running"]);
  EXPECT_FALSE(call("training", {{"model", 1}, {"after", 1000}})["running"]);
  const int64_t checkpoint = training["checkpoints"][0]["model"];
  EXPECT_NE(run({{"model", checkpoint}, {"text", "abc"}, {"max_tokens", 1}})["log_probs"],
            run({{"model", 1}, {"text", "abc"}, {"max_tokens", 1}})["log_probs"]);
}

TEST_F(ApiTest, RefusesWhatWouldTakeTooMuch) {
  const json done = run({{"model", 0}, {"text", "abc"}, {"max_tokens", 2}});
  const json twice = with(reading(0, done), {{"layers", {0, 0}}});
  EXPECT_NE(error_of("attention", twice).find("layers: expected each number once"), std::string::npos);
  EXPECT_NE(
      error_of(
          "map",
          {{"model", 1}, {"text", "abc"}, {"part", "decoder"}, {"layer", 0}, {"head", 0}, {"changes", json::array()}})
          .find("found \"changes\""),
      std::string::npos);
  const std::vector<int32_t> long_prefix(2000, 5);
  EXPECT_THROW((void)run({{"model", 0}, {"text", "abc"}, {"prefix", long_prefix}}), Refused);
}

TEST_F(ApiTest, StopsBetweenLayersWhenNobodyWaits) {
  int asked = 0;
  const auto stop = [&asked] { return ++asked > 2; };
  try {
    (void)api_->call("attention", {{"model", 0}, {"text", "abc"}}, stop);
    ADD_FAILURE() << "it went on";
  } catch (const Refused& refused) {
    EXPECT_EQ(refused.status(), 408);
  }
  EXPECT_EQ(asked, 3);
  // What was begun and not ended is not kept.
  const json map = {{"model", 1}, {"text", "abcdef"}, {"part", "decoder"}, {"layer", 1}, {"head", 0}};
  asked = 2;
  EXPECT_THROW((void)api_->call("map", map, stop), Refused);
  EXPECT_NO_THROW((void)api_->call("map", map, {}));
}

}  // namespace
}  // namespace heed::serve
