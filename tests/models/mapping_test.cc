// Another tool's model, by its own names: an Arabic to Latin transliteration trained with OpenNMT, numbers by
// CTranslate2.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/data.h"
#include "base/message.h"
#include "heed/error.h"
#include "heed/io.h"
#include "models/helpers.h"

namespace heed::models::test {
namespace {

Config transliteration_config() {
  Config c;
  c.source_vocabulary = 51;
  c.target_vocabulary = 43;
  c.encoder_layers = c.decoder_layers = 6;
  c.width = 32;
  c.feed_forward = 128;
  c.heads = 8;
  c.norm_placement = NormPlacement::pre;
  c.final_norm = true;
  c.position_layout = nn::PositionLayout::halves;
  c.first_position = 1;
  c.tie_output = false;
  c.output_bias = true;
  c.unknown_id = 42;
  return c;
}

class Transliteration : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto folder = heed::test::test_data("models/aren-transliteration");
    file_ = folder / "model.safetensors";
    load_weights(model_, file_, ctranslate2_names());
    cases_ = nlohmann::json::parse(std::ifstream(folder / "expected.json"))["reference"]["cases"];
    ASSERT_EQ(cases_.size(), 10u);
  }

  std::filesystem::path file_;
  Transformer model_{transliteration_config()};
  nlohmann::json cases_;
};

int32_t argmax(const Tensor& row) {
  int32_t best = 0;
  for (int32_t v = 1; v < row.numel(); ++v) best = row.data<float>()[v] > row.data<float>()[best] ? v : best;
  return best;
}

TEST_F(Transliteration, DecodesGreedilyWithTheCache) {
  const NoGradScope no_grad;
  for (const auto& c : cases_) {
    const Ids source = c["source_ids"];
    const auto decoder = model_.start(batch({source}), lengths({source}));
    Ids output;
    int32_t next = 1;
    while (output.size() < 32) {
      next = argmax(decoder->step(batch({{next}})));
      if (next == 2) break;
      output.push_back(next);
    }
    EXPECT_EQ(output, c["greedy"]["ids"].get<Ids>()) << c["source"];
  }
}

TEST_F(Transliteration, GivesTheLogProbabilities) {
  const NoGradScope no_grad;
  double worst = 0;
  for (const auto& c : cases_) {
    const Ids source = c["source_ids"], output = c["greedy"]["ids"];
    Ids target = {1};
    target.insert(target.end(), output.begin(), output.end());
    const Value memory = model_.encode(batch({source}), lengths({source}));
    const Tensor log_probs = log_softmax(model_.decode(batch({target}), memory, lengths({source}))).data();
    const std::vector<double> want = c["greedy"]["log_probs_with_eos"];
    ASSERT_EQ(want.size(), target.size());
    for (size_t l = 0; l < want.size(); ++l) {
      const int32_t id = l < output.size() ? output[l] : 2;
      const double got = log_probs.at({0, static_cast<int64_t>(l), id});
      EXPECT_NEAR(got, want[l], 1e-4) << c["source"] << " at " << l;
      worst = std::max(worst, std::abs(got - want[l]));
    }
  }
  RecordProperty("largest_difference", std::to_string(worst));
}

TEST_F(Transliteration, ShowsTheCrossAttention) {
  class Listener : public nn::AttentionObserver {
   public:
    void on_attention(std::string_view path, const Tensor& weights) override {
      if (path == "decoder.layers.5.cross_attention") last = weights;
    }
    Tensor last;
  };
  const NoGradScope no_grad;
  int compared = 0;
  for (const auto& c : cases_) {
    if (!c["greedy"].contains("cross_attention_last_layer_head_0")) continue;
    const Ids source = c["source_ids"], output = c["greedy"]["ids"];
    Ids target = {1};
    target.insert(target.end(), output.begin(), output.end());
    Listener listener;
    {
      const nn::ObserverScope scope(listener);
      (void)model_.forward(batch({source}), lengths({source}), batch({target}));
    }
    const auto& want = c["greedy"]["cross_attention_last_layer_head_0"];
    for (size_t i = 0; i < want.size(); ++i) {
      for (size_t j = 0; j < want[i].size(); ++j, ++compared) {
        EXPECT_NEAR(listener.last.at({0, 0, static_cast<int64_t>(i), static_cast<int64_t>(j)}),
                    want[i][j].get<double>(), 1e-4);
      }
    }
  }
  EXPECT_GT(compared, 200);
}

TEST_F(Transliteration, IsTheSameWithACacheAndInABatch) {
  const NoGradScope no_grad;
  std::vector<Ids> sources, targets;
  for (const auto& c : cases_) {
    sources.push_back(c["source_ids"]);
    targets.push_back(c["greedy"]["ids"]);
    targets.back().insert(targets.back().begin(), 1);
    targets.back().resize(8, 2);
  }
  const Tensor whole = model_.forward(batch(sources), lengths(sources), batch(targets)).data();
  const auto decoder = model_.start(batch(sources), lengths(sources));
  for (int64_t l = 0; l < 8; ++l) {
    const Tensor step = decoder->step(batch(targets).slice(1, l, l + 1).contiguous());
    EXPECT_TRUE(same_bits(step, whole.transpose(0, 1).select(0, l))) << "position " << l;
  }
}

TEST_F(Transliteration, RefusesAFileOfAnotherShape) {
  const auto message = [&](const Config& config) {
    Transformer other(config);
    return heed::testing::message_of([&] { load_weights(other, file_, ctranslate2_names()); });
  };
  Config config = transliteration_config();
  config.decoder_layers = 7;
  EXPECT_NE(message(config).find("decoder/layer_6/"), std::string::npos) << message(config);
  config.decoder_layers = 5;
  EXPECT_NE(message(config).find("decoder/layer_5/"), std::string::npos) << message(config);
  config = transliteration_config();
  config.feed_forward = 64;
  EXPECT_NE(message(config).find("/ffn/linear_"), std::string::npos) << message(config);
  config = transliteration_config();
  config.key_value_heads = 4;
  EXPECT_NE(message(config).find("linear_"), std::string::npos) << message(config);
}

TEST(NameMapping, KnowsWhereStackedProjectionsBegin) {
  Config config = transliteration_config();
  config.key_value_heads = 2;
  config.value_size = 3;
  const NameMapping names = ctranslate2_names();
  const auto expect = [&](const std::string& path, const std::string& name, int64_t row) {
    const NameMapping::Source source = names.find(path, config);
    EXPECT_EQ(source.name, name) << path;
    EXPECT_EQ(source.first_row, row) << path;
  };
  expect("encoder.layers.3.self_attention.query.weight", "encoder/layer_3/self_attention/linear_0/weight", 0);
  expect("encoder.layers.3.self_attention.key.bias", "encoder/layer_3/self_attention/linear_0/bias", 32);
  expect("encoder.layers.3.self_attention.value.weight", "encoder/layer_3/self_attention/linear_0/weight", 40);
  expect("decoder.layers.0.cross_attention.value.bias", "decoder/layer_0/attention/linear_1/bias", 8);
  expect("decoder.layers.0.cross_attention.output.weight", "decoder/layer_0/attention/linear_2/weight", 0);
  expect("decoder.norm.gain", "decoder/layer_norm/gamma", 0);
  expect("output.bias", "decoder/projection/bias", 0);
  for (const char* path :
       {"", "head.dense.weight", "encoder.layers.0.colour", "encoder.layers.0.self_attention.up.weight"}) {
    EXPECT_THROW((void)names.find(path, config), Error) << path;
  }
}

}  // namespace
}  // namespace heed::models::test
