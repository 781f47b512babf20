// GPT against the oracle; causality, gradients, cached decoding, initial weights.
#include <gtest/gtest.h>

#include <cmath>

#include "heed/error.h"
#include "models/helpers.h"

namespace heed::models::test {
namespace {

const std::vector<Ids> kDocuments = {{1, 6, 3, 4, 10, 2, 7}, {1, 9, 9, 2, 5, 7, 8}};

TEST(Gpt, IsTheFormulaOnEveryConfiguration) {
  for (const auto& [name, config] : variants(Architecture::decoder_only)) {
    const Gpt model(config, 3);
    shake(model);
    const oracle::Transformer plain = oracle_of(model);
    const Tensor logits = model.forward(batch(kDocuments)).data();
    for (size_t b = 0; b < kDocuments.size(); ++b) {
      expect_near(logits.select(0, static_cast<int64_t>(b)), plain.gpt(kDocuments[b]), 1e-5, name);
    }
  }
}

TEST(Gpt, HasTheGradientOfEveryParameter) {
  for (const auto& [name, config] : variants(Architecture::decoder_only)) {
    const Gpt model(config, 3);
    shake(model);
    const Ids text = {1, 6, 3, 4, 10}, expected = {6, 3, 4, 10, 2};
    const Value loss = model.loss(batch({text}), batch({expected}));
    EXPECT_EQ(loss.item(), cross_entropy(model.forward(batch({text})), batch({expected})).item());
    loss.backward();
    expect_parameter_gradients(
        model, oracle_of(model), expected, [&](const oracle::Transformer& t) { return t.gpt(text); }, name);
  }
}

TEST(Gpt, DecodesWithACacheToTheSameBits) {
  for (const auto& [name, config] : variants(Architecture::decoder_only)) {
    const Gpt model(config, 3);
    shake(model);
    const NoGradScope no_grad;
    const Tensor whole = model.forward(batch(kDocuments)).data();
    const auto decoder = model.start();
    int64_t at = 0;
    for (const int64_t count : {3, 1, 2, 1}) {
      const Tensor logits = decoder->step(batch(kDocuments).slice(1, at, at + count).contiguous());
      at += count;
      EXPECT_TRUE(same_bits(logits, whole.transpose(0, 1).select(0, at - 1))) << name << " at " << at;
    }
  }
}

TEST(Gpt, DecodesLongTextsWithACacheToTheSameBits) {
  Config config = small(Architecture::decoder_only);
  config.width = 64;
  config.heads = 4;
  config.key_value_heads = 2;
  config.max_length = 400;
  const Gpt model(config, 3);
  shake(model);
  const NoGradScope no_grad;
  const std::vector<Ids> texts = {random_ids(300, 11, 1), random_ids(300, 11, 2)};
  const Tensor whole = model.forward(batch(texts)).data();
  const auto decoder = model.start();
  int64_t at = 0;
  while (at < 300) {
    const int64_t count = at == 0 ? 70 : at == 100 ? 150 : 1;
    const Tensor step = decoder->step(batch(texts).slice(1, at, at + count).contiguous());
    at += count;
    ASSERT_TRUE(same_bits(step, whole.transpose(0, 1).select(0, at - 1))) << "position " << at;
  }
}

TEST(Gpt, ReordersItsRows) {
  const Gpt model(small(Architecture::decoder_only), 3);
  const NoGradScope no_grad;
  const auto decoder = model.start();
  (void)decoder->step(batch(kDocuments));
  decoder->reorder(std::vector<int64_t>{1, 0, 1});
  const std::vector<Ids> next = {{4}, {5}, {6}};
  const Tensor got = decoder->step(batch(next));
  std::vector<Ids> read = {kDocuments[1], kDocuments[0], kDocuments[1]};
  for (size_t r = 0; r < 3; ++r) read[r].push_back(next[r][0]);
  const Tensor want = model.forward(batch(read)).data();
  EXPECT_TRUE(same_bits(got, want.transpose(0, 1).select(0, 7)));
}

TEST(Gpt, StartsFromTheWeightsOfGpt2) {
  Config config = preset("tiny", Architecture::decoder_only);
  config.target_vocabulary = 65;
  config.padding_id = -1;
  const Gpt model(config, 1);
  for (const auto& [path, value] : model.named_parameters()) {
    if (value.data().rank() != 2) continue;
    double square = 0;
    for (int64_t i = 0; i < value.data().numel(); ++i) square += std::pow(value.data().data<float>()[i], 2);
    const double deviation = std::sqrt(square / static_cast<double>(value.data().numel()));
    const bool residual = path.ends_with("attention.output.weight") || path.ends_with("outer.weight");
    EXPECT_NEAR(deviation, residual ? 0.02 / std::sqrt(8.0) : 0.02, 0.0008) << path;
  }
}

TEST(Gpt, RefusesATextThatIsTooLong) {
  const Gpt model(small(Architecture::decoder_only), 3);
  EXPECT_THROW((void)model.forward(batch({Ids(25, 1)})), Error);
  const auto decoder = model.start();
  (void)decoder->step(batch({Ids(24, 1)}));
  EXPECT_THROW((void)decoder->step(batch({{1}})), Error);
}

}  // namespace
}  // namespace heed::models::test
