// Probes: what they see is what the model computes, and what they leave alone keeps its bits.
#include "heed/probe.h"

#include <gtest/gtest.h>

#include <map>

#include "heed/error.h"
#include "heed/models.h"
#include "models/helpers.h"

namespace heed::models::test {
namespace {

const std::vector<int32_t> kTokens = {4, 7, 5, 6, 4};

Tensor tokens_row() { return Tensor::from(std::span<const int32_t>(kTokens), {1, 5}); }
Tensor length_row() {
  const int32_t length = 5;
  return Tensor::from(std::span<const int32_t>(&length, 1), {1});
}

struct Watch : nn::Probe {
  std::map<std::string, Tensor> states, added, heads;
  std::vector<std::string> order;
  void on_added(std::string_view path, const Tensor& value) override { added[std::string(path)] = value.clone(); }
  Tensor on_heads(std::string_view path, const Tensor& value) override {
    heads[std::string(path)] = value.clone();
    return value;
  }
  Tensor on_state(std::string_view path, const Tensor& value) override {
    states[std::string(path)] = value.clone();
    order.emplace_back(path);
    return value;
  }
};

Tensor run_transformer(const Transformer& model) {
  const NoGradScope no_grad;
  return model.forward(tokens_row(), length_row(), tokens_row()).data();
}

TEST(Probe, SeesEverySublayerInOrderAndChangesNothing) {
  for (const NormPlacement placement : {NormPlacement::post, NormPlacement::pre}) {
    Config config = small(Architecture::encoder_decoder);
    config.norm_placement = placement;
    const Transformer model(config, 3);
    const Tensor plain = run_transformer(model);
    Watch watch;
    Tensor watched;
    {
      const nn::ProbeScope scope(watch);
      watched = run_transformer(model);
    }
    EXPECT_TRUE(same_bits(plain, watched));
    ASSERT_GE(watch.order.size(), 7u);
    EXPECT_EQ(watch.order[0], "encoder.embedding");
    EXPECT_EQ(watch.order[1], "encoder.layers.0.self_attention");
    EXPECT_EQ(watch.order[2], "encoder.layers.0.feed_forward");
    EXPECT_EQ(watch.order.back(), "decoder.layers." + std::to_string(config.decoder_layers - 1) + ".feed_forward");
    if (placement == NormPlacement::pre) {  // the stream is the sum of what was added to it
      const Tensor before = watch.states["decoder.embedding"], added = watch.added["decoder.layers.0.self_attention"];
      const Tensor after = watch.states["decoder.layers.0.self_attention"];
      for (int64_t i = 0; i < after.numel(); ++i)
        EXPECT_EQ(after.data<float>()[i], added.data<float>()[i] + before.data<float>()[i]);
    }
  }
}

TEST(Probe, TheLensOfTheLastStateIsWhatTheModelSays) {
  for (const NormPlacement placement : {NormPlacement::post, NormPlacement::pre}) {
    const NoGradScope no_grad;
    Config config = small(Architecture::decoder_only);
    config.norm_placement = placement;
    config.final_norm = placement == NormPlacement::pre;
    const Gpt gpt(config, 4);
    Watch watch;
    const nn::ProbeScope scope(watch);
    const Tensor logits = gpt.forward(tokens_row()).data();
    EXPECT_TRUE(same_bits(gpt.logits_of(Value(watch.states[watch.order.back()])).data(), logits));

    Config encoder = small(Architecture::encoder_only);
    const Bert bert(encoder, 5);
    const Tensor guesses = bert.forward(tokens_row(), length_row()).data();
    EXPECT_TRUE(same_bits(bert.logits_of(Value(watch.states[watch.order.back()])).data(), guesses));

    Config both = small(Architecture::encoder_decoder);
    both.norm_placement = placement;
    both.final_norm = placement == NormPlacement::pre;
    const Transformer transformer(both, 6);
    const Tensor said = run_transformer(transformer);
    EXPECT_TRUE(same_bits(transformer.logits_of(Value(watch.states[watch.order.back()])).data(), said));
  }
}

// A head that is off leaves nothing: zero values of that head give the same bits.
TEST(Probe, AHeadThatIsZeroIsAHeadWithoutValues) {
  struct Off : nn::Probe {
    Tensor on_heads(std::string_view layer, const Tensor& heads) override {
      if (layer != "decoder.layers.0.self_attention") return heads;
      const Tensor changed = heads.clone();
      changed.select(1, 1).zero();
      return changed;
    }
  } off;
  const Gpt model(small(Architecture::decoder_only), 7);
  const NoGradScope no_grad;
  const Tensor plain = model.forward(tokens_row()).data();
  Tensor probed;
  {
    const nn::ProbeScope scope(off);
    probed = model.forward(tokens_row()).data();
  }
  EXPECT_FALSE(same_bits(plain, probed));
  EXPECT_TRUE(same_bits(plain, model.forward(tokens_row()).data()));  // the scope is closed
  const int64_t head_size = model.config().width / model.config().heads;
  for (const auto& [path, value] : model.named_parameters()) {
    if (!path.starts_with("decoder.layers.0.self_attention.value")) continue;
    const Tensor part = value.data().slice(0, head_size, 2 * head_size);
    part.zero();
  }
  EXPECT_TRUE(same_bits(probed, model.forward(tokens_row()).data()));
}

TEST(Probe, RefusesGradientsCachesAndStatesOfAnotherShape) {
  const Gpt model(small(Architecture::decoder_only), 8);
  Watch watch;
  {
    const nn::ProbeScope scope(watch);
    EXPECT_THROW((void)model.forward(tokens_row()), Error);  // gradients
    const NoGradScope no_grad;
    EXPECT_NO_THROW((void)model.forward(tokens_row()));
    const auto decoder = model.start();
    EXPECT_THROW((void)decoder->step(tokens_row()), Error);
  }
  struct Wrong : nn::Probe {
    Tensor on_state(std::string_view, const Tensor&) override { return Tensor::zeros({1, 2, 3}); }
  } wrong;
  const NoGradScope no_grad;
  const nn::ProbeScope scope(wrong);
  EXPECT_THROW((void)model.forward(tokens_row()), Error);
}

}  // namespace
}  // namespace heed::models::test
