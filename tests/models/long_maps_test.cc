// Pooled maps of long texts, by taps, as the families attend: learned positions, a bias by distance, rotary positions
// with windows, and cross attention. Beside the means of all weights.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "heed/attention.h"
#include "heed/probe.h"
#include "models/helpers.h"

namespace heed::models::test {
namespace {

constexpr int64_t kLength = 1300, kCells = 26;  // cells of 50 x 50

// Takes the map of every layer, with taps and from all weights.
struct Maps : nn::Probe {
  std::map<std::string, double> deviations;  // of a cell, at most

  void on_attention(std::string_view layer, const Tensor& query, const Tensor& key, const Tensor& value,
                    AttentionOptions& options) override {
    AttentionOptions asked = options;
    asked.want = {};
    asked.want.taps.map = {.rows = kCells, .columns = kCells};
    const Tensor map = attention(query, key, value, asked).taps.map.contiguous();
    asked.want = {};
    asked.want.weights = true;
    const Tensor weights = attention(query, key, value, asked).weights.contiguous();
    double& worst = deviations[std::string(layer)];
    const int64_t heads = weights.size(1), rows = weights.size(2), keys = weights.size(3);
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t r = 0; r < kCells; ++r) {
        for (int64_t c = 0; c < kCells; ++c) {
          double sum = 0;
          for (int64_t i = r * rows / kCells; i < (r + 1) * rows / kCells; ++i)
            for (int64_t j = c * keys / kCells; j < (c + 1) * keys / kCells; ++j)
              sum += static_cast<double>(weights.data<float>()[(h * rows + i) * keys + j]);
          const double mean = sum / static_cast<double>((rows / kCells) * (keys / kCells));
          const auto tapped = static_cast<double>(map.data<float>()[(h * kCells + r) * kCells + c]);
          worst = std::max(worst, std::abs(tapped - mean) * static_cast<double>(keys));
        }
      }
    }
  }
};

Config long_config(Architecture architecture) {
  Config config = preset("tiny", architecture);
  config.source_vocabulary = config.target_vocabulary = 50;
  if (architecture == Architecture::encoder_only) config.target_vocabulary = 0;
  config.encoder_layers = config.decoder_layers = 2;
  config.width = 32;
  config.heads = 4;
  config.feed_forward = 32;
  config.max_length = 2048;
  return config;
}

Ids long_ids(uint64_t seed) {
  Ids ids;
  for (int64_t i = 0; i < kLength; ++i)
    ids.push_back(static_cast<int32_t>(4 + (seed + static_cast<uint64_t>(i * i)) % 46));
  return ids;
}

void expect_maps(const Maps& maps, size_t layers) {
  EXPECT_EQ(maps.deviations.size(), layers);
  for (const auto& [layer, deviation] : maps.deviations) EXPECT_LT(deviation, 1e-4) << layer;
}

TEST(LongMaps, OfEncoders) {
  Config bert = long_config(Architecture::encoder_only);
  bert.positions = Positions::learned;
  Config mpnet = bert;
  mpnet.relative_buckets = 32;
  Config modern = bert;
  modern.positions = Positions::rotary;
  modern.norm_placement = NormPlacement::pre;
  modern.final_norm = true;
  modern.gated = true;
  modern.window = 64;
  modern.global_every = 2;
  for (const Config& config : {bert, mpnet, modern}) {
    const Bert model(config, 3);
    Maps maps;
    const NoGradScope no_grad;
    const nn::ProbeScope scope(maps);
    (void)model.encode(batch({long_ids(1)}), lengths({long_ids(1)}));
    expect_maps(maps, 2);
  }
}

TEST(LongMaps, OfEncoderDecoders) {
  Config bart = long_config(Architecture::encoder_decoder);
  bart.positions = Positions::learned;
  Config t5 = long_config(Architecture::encoder_decoder);
  t5.positions = Positions::none;
  t5.relative_buckets = 32;
  t5.norm = nn::NormKind::rms_norm;
  t5.norm_placement = NormPlacement::pre;
  t5.final_norm = true;
  t5.attention_scale = 1;
  for (const Config& config : {bart, t5}) {
    const Transformer model(config, 5);
    Maps maps;
    const NoGradScope no_grad;
    const nn::ProbeScope scope(maps);
    (void)model.forward(batch({long_ids(1)}), lengths({long_ids(1)}), batch({long_ids(2)}));
    expect_maps(maps, 6);
  }
}

}  // namespace
}  // namespace heed::models::test
