#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "heed/error.h"
#include "heed/inspect.h"
#include "inspect/payloads.h"
#include "inspect/sample_record.h"

namespace heed::inspect {
namespace {

Tensor numbered(const Shape& shape) {
  Tensor tensor = Tensor::zeros(shape);
  for (int64_t i = 0; i < tensor.numel(); ++i) tensor.data<float>()[i] = static_cast<float>(i) / 64;
  return tensor;
}

TEST(Recorder, KeepsRowZeroAndSortsLayers) {
  Recorder recorder;
  recorder.on_attention("decoder.layers.10.self_attention", numbered({2, 1, 2, 2}));
  recorder.on_attention("decoder.layers.9.self_attention", numbered({2, 3, 2, 2}));
  recorder.on_attention("decoder.layers.0.cross_attention", numbered({2, 1, 2, 4}));
  recorder.on_attention("encoder.layers.0.self_attention", numbered({2, 1, 4, 4}));
  Record record{.title = "",
                .source = "",
                .output = "",
                .source_tokens = {},
                .target_tokens = {"a", "b"},
                .output_tokens = {},
                .encoder = {},
                .decoder = {},
                .cross = {},
                .arrays = {}};
  recorder.move_into(record);
  ASSERT_EQ(record.decoder.size(), 2u);
  EXPECT_EQ(record.decoder[0].path, "decoder.layers.9.self_attention");
  EXPECT_EQ(record.decoder[0].weights.shape(), (Shape{3, 2, 2}));
  EXPECT_EQ(record.decoder[0].weights.at({2, 1, 1}), 11.0 / 64);
  EXPECT_EQ(record.decoder[1].path, "decoder.layers.10.self_attention");
  ASSERT_EQ(record.cross.size(), 1u);
  ASSERT_EQ(record.encoder.size(), 1u);
}

TEST(Recorder, CopiesWhatItHears) {
  Recorder recorder;
  const Tensor weights = numbered({1, 1, 2, 2});
  recorder.on_attention("decoder.layers.0", weights);
  weights.zero();
  Record record;
  record.target_tokens = {"a", "b"};
  recorder.move_into(record);
  EXPECT_EQ(record.decoder.at(0).weights.at({0, 1, 1}), 3.0 / 64);
}

TEST(Recorder, LastRunOfALayerCounts) {
  Recorder recorder;
  recorder.on_attention("layers.0", numbered({1, 1, 1, 1}));
  recorder.on_attention("layers.0", numbered({1, 1, 2, 2}));
  Record record;
  recorder.move_into(record);  // no target tokens: an encoder's
  ASSERT_EQ(record.encoder.size(), 1u);
  EXPECT_EQ(record.encoder[0].weights.shape(), (Shape{1, 2, 2}));
}

TEST(ToJson, SaysWhatTheRecordHolds) {
  const Record record = chinese_record();
  const auto json = nlohmann::json::parse(to_json(record));
  EXPECT_EQ(json["title"], record.title);
  EXPECT_EQ(json["output"], record.output);
  EXPECT_EQ(json["source_tokens"].get<std::vector<std::string>>(), record.source_tokens);
  EXPECT_EQ(json["target_tokens"].get<std::vector<std::string>>(), record.target_tokens);
  EXPECT_EQ(json["output_tokens"].get<std::vector<std::string>>(), record.output_tokens);
  ASSERT_EQ(json["cross"].size(), 3u);
  EXPECT_EQ(json["cross"][2]["path"], "decoder.layers.2.cross_attention");
  const auto& weights = json["cross"][2]["weights"];
  ASSERT_EQ(weights.size(), 8u);
  ASSERT_EQ(weights[0].size(), record.target_tokens.size());
  for (int64_t h = 0; h < 8; ++h) {
    for (int64_t i = 0; i < 8; ++i) {
      for (int64_t j = 0; j < 10; ++j) {
        const double exact = record.cross[2].weights.at({h, i, j});
        EXPECT_NEAR(weights[static_cast<size_t>(h)][static_cast<size_t>(i)][static_cast<size_t>(j)].get<double>(),
                    exact, std::max(5e-7, 5e-4 * exact));
      }
    }
  }
}

TEST(ToJson, RoundsToFourDigits) {
  const Tensor weights = Tensor::from({1.0f, 0.0f, 0.25f, 0.123456f, 0.0123456f, 0.000012345f, 1e-9f, 12.3456f,
                                       std::numeric_limits<float>::quiet_NaN(), -0.5f},
                                      {1, 10});
  const std::string json = to_json(weights, {}, {}, "t");
  EXPECT_NE(json.find("[[1,0,0.25,0.1235,0.01235,0.000012,0,12.35,null,-0.5]]"), std::string::npos) << json;
}

TEST(ToJson, HostileTextComesBackAsItWas) {
  Record record = sample_record(payloads(60), {"a", "b"}, {}, 1, 1);
  record.title = "</script><script>document.title='ran'</script>";
  const std::string text = to_json(record);
  EXPECT_EQ(text.find_first_of("<>&"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(text)["title"], record.title);
}

TEST(ToJson, NumbersTokensThatAreNotGiven) {
  Record record;
  record.arrays.push_back({.path = "", .weights = numbered({1, 2, 3})});
  const auto json = nlohmann::json::parse(to_json(record));
  EXPECT_EQ(json["target_tokens"], (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(json["source_tokens"], (std::vector<std::string>{"0", "1", "2"}));
}

TEST(ToJson, RefusesWhatDoesNotFit) {
  EXPECT_THROW((void)to_json(Record{}), Error);
  Record record = chinese_record();
  record.source_tokens.pop_back();
  EXPECT_THROW((void)to_html(record), Error);
  record = chinese_record();
  record.output_tokens.pop_back();
  EXPECT_THROW((void)to_html(record), Error);
  record = chinese_record();
  record.cross[0].weights = numbered({8, 10});
  EXPECT_THROW((void)to_html(record), Error);
}

}  // namespace
}  // namespace heed::inspect
