// Parts of the maps of long texts, in models whose attention goes by distance, against the weights of the whole layer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "serve/api_fixture.h"

namespace heed::serve {
namespace {

constexpr int64_t kTokens = 600;

class LongTextTest : public ApiTest {
 protected:
  void SetUp() override {
    const auto of = [&](const char* name) { return folder_.path() / name; };
    write_model(of("t5"), Architecture::encoder_decoder, 11, [](models::Config& c) {
      c.positions = models::Positions::none;
      c.attention_scale = 1;
      c.relative_buckets = 8;
      c.relative_distance = 20;
    });
    write_model(of("mpnet"), Architecture::encoder_only, 12, [](models::Config& c) { c.relative_buckets = 32; });
    write_model(of("modernbert"), Architecture::encoder_only, 13, [](models::Config& c) {
      c.positions = models::Positions::rotary;
      c.local_rotary_base = 300;
      c.window = 5;
      c.global_every = 2;
    });
    api_ = std::make_unique<Api>(std::vector<std::filesystem::path>{of("t5"), of("mpnet"), of("modernbert")});
  }

  static json tokens(int step) {
    json ids = json::array();
    for (int64_t i = 0; i < kTokens; ++i) ids.push_back(4 + (i * i + i / step) % 11);
    return ids;
  }

  // One head of a layer of a model's part.
  struct Place {
    int64_t model;
    const char* part;
    int64_t layer, head;
    [[nodiscard]] json request() const {
      json all = {{"model", model}, {"source", tokens(7)}};
      if (model == 0) all["target"] = tokens(5);
      return all;
    }
    [[nodiscard]] json of_head() const { return with(request(), {{"part", part}, {"layer", layer}, {"head", head}}); }
  };

  // (600, 600)
  std::vector<float> all_weights(const Place& place) {
    return weights(
               with(place.request(),
                    {{"dtype", "f32"}, {"parts", {place.part}}, {"layers", {place.layer}}, {"heads", {place.head}}}))
        .numbers;
  }

  // The layers with a window and without one, and the stacks with a bias by distance: both sides, and causal.
  static std::vector<Place> places() {
    return {{0, "encoder", 1, 2}, {0, "decoder", 1, 3}, {0, "cross", 0, 1},  {1, "encoder", 0, 1},
            {1, "encoder", 1, 3}, {2, "encoder", 0, 2}, {2, "encoder", 1, 1}};
  }
};

TEST_F(LongTextTest, PartsOfMapsAreThePooledWeights) {
  for (const Place& place : places()) {
    const std::vector<float> all = all_weights(place);
    ASSERT_EQ(all.size(), static_cast<size_t>(kTokens * kTokens));
    const auto at = [&](size_t i, size_t j) { return static_cast<double>(all[i * kTokens + j]); };
    for (const size_t first : {0, 130, 480}) {
      // 120 rows and all keys, pooled 4 x 20.
      const Weights map = weights(
          with(place.of_head(), {{"rows", {first, first + 120}}, {"columns", {0, kTokens}}, {"size", {30, 30}}}),
          "map");
      ASSERT_EQ(map.numbers.size(), 960u);
      for (size_t r = 0; r < 30; ++r) {
        double entropy = 0;
        for (size_t i = first + 4 * r; i < first + 4 * r + 4; ++i)
          for (size_t j = 0; j < kTokens; ++j)
            if (at(i, j) > 0) entropy -= at(i, j) * std::log2(at(i, j)) / 4;
        ASSERT_NEAR(static_cast<double>(map.numbers[900 + r]), entropy, 1e-3)
            << place.model << place.part << place.layer << " rows from " << first << ": " << r;
        for (size_t c = 0; c < 30; ++c) {
          double mean = 0, received = 0;
          for (size_t j = 20 * c; j < 20 * c + 20; ++j) {
            for (size_t i = 0; i < 4; ++i) mean += at(first + 4 * r + i, j) / 80;
            for (size_t i = first; i < first + 120; ++i) received += at(i, j) / (20 * 120);
          }
          ASSERT_NEAR(static_cast<double>(map.numbers[30 * r + c]), mean, 1e-7)
              << place.model << place.part << place.layer << " rows from " << first << ": " << r << " " << c;
          ASSERT_NEAR(static_cast<double>(map.numbers[930 + c]), received, 1e-7) << place.model << place.part;
        }
      }
      // Some of the keys, pooled to cells of 13 and 14.
      for (const bool largest : {false, true}) {
        const Weights part = weights(
            with(place.of_head(),
                 {{"rows", {first, first + 120}}, {"columns", {37, 437}}, {"size", {30, 30}}, {"largest", largest}}),
            "map");
        for (size_t r = 0; r < 30; ++r)
          for (size_t c = 0; c < 30; ++c) {
            const size_t begin = 37 + c * 400 / 30, end = 37 + (c + 1) * 400 / 30;
            double mean = 0, most = 0;
            for (size_t i = first + 4 * r; i < first + 4 * r + 4; ++i)
              for (size_t j = begin; j < end; ++j) {
                mean += at(i, j) / static_cast<double>(4 * (end - begin));
                most = std::max(most, at(i, j));
              }
            ASSERT_NEAR(static_cast<double>(part.numbers[30 * r + c]), largest ? most : mean, 1e-7)
                << place.model << place.part << place.layer << " rows from " << first << ": " << r << " " << c;
          }
      }
      // A few rows, weight by weight.
      const Weights near =
          weights(with(place.of_head(),
                       {{"rows", {first + 40, first + 43}}, {"columns", {first + 30, first + 54}}, {"size", {3, 24}}}),
                  "map");
      for (size_t r = 0; r < 3; ++r)
        for (size_t c = 0; c < 24; ++c)
          ASSERT_NEAR(static_cast<double>(near.numbers[24 * r + c]), at(first + 40 + r, first + 30 + c), 1e-7)
              << place.model << place.part << place.layer << " row " << first + 40 + r;
    }
  }
}

TEST_F(LongTextTest, RowsAndSingleWeightsAreThoseOfTheWholeLayer) {
  for (const Place& place : places()) {
    const std::vector<float> all = all_weights(place);
    for (const size_t row : {3, 311, 598}) {
      const std::string where =
          std::string(place.part) + " of model " + std::to_string(place.model) + ", row " + std::to_string(row);
      const json answer = call("row", with(place.of_head(), {{"row", row}, {"count", 8}}));
      ASSERT_GE(answer["keys"].size(), 4u) << where;
      for (const json& key : answer["keys"])
        ASSERT_NEAR(key["weight"].get<float>(), all[row * kTokens + key["column"].get<size_t>()], 1e-7f) << where;
      for (const size_t column : {row - 2, row, row + 1}) {
        const json one = call("explain", with(place.of_head(), {{"row", row}, {"column", column}}));
        ASSERT_EQ(one["weight"].get<float>(), all[row * kTokens + column]) << where;
        if (one["masked"]) continue;
        ASSERT_NEAR(one["scaled"].get<double>() + one["bias"].get<double>(), one["score"].get<double>(), 1e-5) << where;
      }
    }
  }
}

}  // namespace
}  // namespace heed::serve
