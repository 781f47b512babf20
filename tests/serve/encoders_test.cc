// Encoders that say no tokens: they give states or classes.
#include <gtest/gtest.h>

#include <cmath>

#include "heed/nn.h"
#include "serve/api_fixture.h"

namespace heed::serve {
namespace {

class EncodersTest : public ApiTest {
 protected:
  void open(models::Head head) {
    write_model(folder_.path() / "states", Architecture::encoder_only, 3, [&](models::Config& config) {
      config.head = head;
      if (head != models::Head::none) config.labels = {"one", "two", "three"};
    });
    api_ = std::make_unique<Api>(std::vector<std::filesystem::path>{folder_.path() / "states"});
  }
};

TEST_F(EncodersTest, ReadATextAndSayNothing) {
  for (const models::Head head : {models::Head::none, models::Head::text_class, models::Head::token_class}) {
    open(head);
    EXPECT_EQ(call("models", json::object())["models"][0]["guesses"], false);
    const json done = run({{"model", 0}, {"text", "abc hgfe"}});
    EXPECT_EQ(done["text"], "abc hgfe");
    EXPECT_EQ(done["source"].size(), 10u);
    for (const char* const empty : {"output", "output_tokens", "log_probs", "entropies"})
      EXPECT_EQ(done[empty].size(), 0u);
    EXPECT_EQ(error_of("next", with(reading(0, done), {{"position", 1}})),
              "next: expected a model that says tokens; found an encoder that gives states or classes");
    // The map is what the model computes, and each row adds up to one.
    const Weights all = weights(with(reading(0, done), {{"dtype", "f32"}}));
    ASSERT_EQ(all.header["maps"].size(), 2u);
    for (size_t row = 0; row < all.numbers.size() / 10; ++row) {
      double sum = 0;
      for (size_t j = 0; j < 10; ++j) sum += static_cast<double>(all.numbers[row * 10 + j]);
      EXPECT_NEAR(sum, 1, 1e-5);
    }
    const json why = call(
        "explain", with(reading(0, done), {{"part", "encoder"}, {"layer", 1}, {"head", 2}, {"row", 3}, {"column", 4}}));
    const json& map = all.header["maps"][1];
    EXPECT_EQ(why["weight"].get<float>(), all.numbers[map["offset"].get<size_t>() + 2 * 100 + 3 * 10 + 4]);
  }
}

TEST_F(EncodersTest, LayersHaveNormsAndNoGuesses) {
  open(models::Head::none);
  const json done = run({{"model", 0}, {"text", "abc"}});
  const json layers = call("layers", with(reading(0, done), {{"position", 2}}))["layers"];
  ASSERT_EQ(layers.size(), 3u);
  for (const json& layer : layers) {
    EXPECT_EQ(layer["tokens"], json::array());
    EXPECT_GT(layer["norm"].get<double>(), 0);
  }
  // The last norm is that of the state that the model gives.
  const auto model = models::load(folder_.path() / "states");
  const auto& ids = done["source"];
  const Tensor tokens = Tensor::empty({1, static_cast<int64_t>(ids.size())}, DType::i32);
  for (size_t i = 0; i < ids.size(); ++i) tokens.data<int32_t>()[i] = ids[i].get<int32_t>();
  const Tensor lengths = Tensor::empty({1}, DType::i32);
  lengths.data<int32_t>()[0] = static_cast<int32_t>(ids.size());
  const NoGradScope no_grad;
  const Tensor states = dynamic_cast<const models::Bert&>(*model).encode(tokens, lengths).data();
  double sum = 0;
  for (int64_t k = 0; k < states.size(2); ++k) sum += std::pow(static_cast<double>(states.at({0, 2, k})), 2);
  EXPECT_NEAR(layers.back()["norm"].get<double>(), std::sqrt(sum), 1e-4);
}

TEST_F(EncodersTest, ExperimentsSayHowFarAChangeReaches) {
  open(models::Head::none);
  const json done = run({{"model", 0}, {"text", "abc hgfe"}});
  const json found =
      call("experiment",
           with(reading(0, done), {{"changes", {{{"kind", "head"}, {"part", "encoder"}, {"layer", 1}, {"head", 2}}}}}));
  EXPECT_EQ(found["before"]["output"], json::array());
  bool changed = false;
  for (const json& one : found["reach"]) {
    if (one["name"] == "encoder.layers.1.self_attention") changed = true;
    EXPECT_EQ(one["changed"].get<int64_t>() > 0, changed) << one["name"];
  }
  EXPECT_TRUE(changed);
}

}  // namespace
}  // namespace heed::serve
