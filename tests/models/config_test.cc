// Configurations: what is refused, the presets, JSON both ways.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/message.h"
#include "heed/error.h"
#include "models/helpers.h"

namespace heed::models::test {
namespace {

using testing::message_of;

TEST(Config, NamesTheFieldThatDoesNotFit) {
  struct Case {
    const char* field;
    std::function<void(Config&)> change;
  };
  const Case cases[] = {
      {"source_vocabulary", [](Config& c) { c.source_vocabulary = 0; }},
      {"target_vocabulary", [](Config& c) { c.target_vocabulary = -4; }},
      {"encoder_layers", [](Config& c) { c.encoder_layers = -1; }},
      {"decoder_layers", [](Config& c) { c.decoder_layers = 1 << 20; }},
      {"width", [](Config& c) { c.width = 9; }},
      {"width", [](Config& c) { c.width = INT64_MAX; }},
      {"even width", [](Config& c) { c.width = 7, c.heads = 7; }},
      {"feed_forward", [](Config& c) { c.feed_forward = 0; }},
      {"heads", [](Config& c) { c.heads = 0; }},
      {"key_value_heads", [](Config& c) { c.heads = 4, c.key_value_heads = 3; }},
      {"head_size", [](Config& c) { c.head_size = -1; }},
      {"value_size", [](Config& c) { c.value_size = 1 << 20; }},
      {"max_length", [](Config& c) { c.max_length = 0; }},
      {"first_position", [](Config& c) { c.first_position = -1; }},
      {"head_size", [](Config& c) { c.head_size = 3, c.positions = Positions::rotary; }},
      {"token_types", [](Config& c) { c.token_types = -1; }},
      {"relative_buckets", [](Config& c) { c.relative_buckets = 31; }},
      {"relative_distance", [](Config& c) { c.relative_buckets = 32, c.relative_distance = 16; }},
      {"window", [](Config& c) { c.window = 4; }},
      {"global_every", [](Config& c) { c.global_every = 0; }},
      {"global_every 1", [](Config& c) { c.global_every = 3; }},
      {"rotary_base", [](Config& c) { c.rotary_base = 0, c.positions = Positions::rotary; }},
      {"positions are rotary", [](Config& c) { c.rotary_base = 500; }},
      {"positions are rotary", [](Config& c) { c.local_rotary_base = 500; }},
      {"head_pooling", [](Config& c) { c.head_pooling = Pooling::mean; }},
      {"head_norm", [](Config& c) { c.head_norm = true; }},
      {"head_activation", [](Config& c) { c.head_activation = Activation::relu; }},
      {"attention_scale", [](Config& c) { c.attention_scale = -1; }},
      {"output_scale", [](Config& c) { c.output_scale = 0; }},
      {"labels", [](Config& c) { c.labels = {"good"}; }},
      {"head masked_token", [](Config& c) { c.head = Head::none; }},
      {"norm_epsilon", [](Config& c) { c.norm_epsilon = 0; }},
      {"dropout", [](Config& c) { c.dropout = 1; }},
      {"attention_dropout", [](Config& c) { c.attention_dropout = -0.1f; }},
      {"activation_dropout", [](Config& c) { c.activation_dropout = NAN; }},
      {"share", [](Config& c) { c.share_embeddings = true; }},
      {"padding_id", [](Config& c) { c.padding_id = 11; }},
      {"begin_id", [](Config& c) { c.begin_id = -1; }},
      {"end_id", [](Config& c) { c.end_id = 11; }},
      {"unknown_id", [](Config& c) { c.unknown_id = 13; }},
  };
  small(Architecture::encoder_decoder).validate();
  for (const Case& c : cases) {
    Config config = small(Architecture::encoder_decoder);
    c.change(config);
    EXPECT_NE(message_of([&] { config.validate(); }).find(c.field), std::string::npos)
        << c.field << ": " << message_of([&] { config.validate(); });
  }
}

TEST(Config, PresetsHaveTheSizesOfThePaper) {
  const auto parameters = [](std::string_view name) {
    Config config = preset(name);
    config.source_vocabulary = config.target_vocabulary = 37000;
    config.share_embeddings = true;
    return static_cast<double>(cost(config, 1, 1, 1).parameters);
  };
  EXPECT_NEAR(parameters("base"), 65e6, 3e6);  // table 3: 65 million
  EXPECT_NEAR(parameters("big"), 213e6, 4e6);  // table 3: 213 million
  EXPECT_EQ(preset("tiny").encoder_layers, 4);
  EXPECT_EQ(preset("small").feed_forward, 1024);
  EXPECT_EQ(preset("big").dropout, 0.3f);
  EXPECT_NE(message_of([] { (void)preset("huge"); }).find("huge"), std::string::npos);
  for (const Architecture a : {Architecture::decoder_only, Architecture::encoder_only}) {
    Config config = preset("tiny", a);
    (a == Architecture::decoder_only ? config.target_vocabulary : config.source_vocabulary) = 100;
    config.validate();
  }
}

TEST(Config, SurvivesTheWayThroughJson) {
  for (const Architecture a : {Architecture::encoder_decoder, Architecture::decoder_only, Architecture::encoder_only}) {
    for (auto& [name, config] : variants(a)) {
      Config changed = config;
      changed.dropout = 0.3f;
      changed.attention_dropout = 0.1f;
      changed.norm_epsilon = 1e-12f;
      changed.mask_id = a == Architecture::encoder_only ? 4 : -1;
      const std::string text = to_json(changed);
      EXPECT_EQ(to_json(config_from_json(text)), text) << name;
      EXPECT_EQ(config_from_json(text).dropout, 0.3f);
      EXPECT_EQ(config_from_json(text).norm_epsilon, 1e-12f);
    }
  }
  EXPECT_NE(to_json(preset("big")).find("\"dropout\": 0.3,"), std::string::npos);
}

TEST(Config, NamesTheKeyThatIsWrong) {
  const auto refused = [](const std::string& json) {
    return message_of([&] { (void)config_from_json(json, "folder/config.json"); });
  };
  const std::string sizes = "\"source_vocabulary\": 10, \"target_vocabulary\": 10";
  EXPECT_EQ(refused("{" + sizes + "}"), "");
  const std::pair<std::string, std::vector<std::string>> cases[] = {
      {"{" + sizes + ", \"colour\": 3}", {"colour"}},
      {"{" + sizes + ", \"heads\": \"eight\"}", {"heads", "whole number", "eight"}},
      {"{" + sizes + ", \"heads\": 8.5}", {"heads", "8.5"}},
      {"{" + sizes + ", \"heads\": 18446744073709551615}", {"heads", "18446744073709551615"}},
      {"{" + sizes + ", \"heads\": null}", {"heads", "null"}},
      {"{" + sizes + ", \"dropout\": \"0.1\"}", {"dropout", "a number"}},
      {"{" + sizes + ", \"dropout\": 1e400}", {"config.json"}},
      {"{" + sizes + ", \"bias\": 1}", {"bias", "true or false"}},
      {"{" + sizes + ", \"norm\": \"batch\"}", {"norm", "layer_norm", "rms_norm", "batch"}},
      {"{" + sizes + ", \"norm\": 1}", {"norm", "layer_norm"}},
      {"{" + sizes + ", \"width\": 100}", {"width", "heads"}},
      {"{" + sizes + ", \"heads\": 8, \"heads\": 4}", {"heads", "twice"}},
      {"[]", {"object", "array"}},
      {"{", {"JSON"}},
      {"", {"JSON"}},
      {"{\"heads\": \xff}", {"JSON"}},
      {"{\"heads\": " + std::string(100000, '[') + "}", {"deep"}},
  };
  for (const auto& [json, parts] : cases) {
    const std::string message = refused(json);
    EXPECT_NE(message.find("folder/config.json"), std::string::npos) << json.substr(0, 200) << ": " << message;
    for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_LT(message.size(), 500u);
  }
}

}  // namespace
}  // namespace heed::models::test
