// BERT against the oracle; padding, gradients, mean pooling.
#include <gtest/gtest.h>

#include <cmath>

#include "models/helpers.h"
#include "oracle/gradient_check.h"

namespace heed::models::test {
namespace {

const std::vector<Ids> kTexts = {{1, 6, 3, 4, 10, 2, 7}, {1, 9, 12}, {5}};

TEST(Bert, IsTheFormulaOnEveryConfiguration) {
  for (const auto& [name, config] : variants(Architecture::encoder_only)) {
    const Bert model(config, 3);
    shake(model);
    const oracle::Transformer plain = oracle_of(model);
    const Tensor states = model.encode(batch(kTexts), lengths(kTexts)).data();
    const Tensor logits = model.forward(batch(kTexts), lengths(kTexts)).data();
    const Tensor means = model.embed(batch(kTexts), lengths(kTexts)).data();
    for (size_t b = 0; b < kTexts.size(); ++b) {
      const auto row = static_cast<int64_t>(b);
      const oracle::Matrix want = plain.encode(kTexts[b]);
      expect_near(states.select(0, row), want, 1e-5, name);
      expect_near(logits.select(0, row), plain.bert(kTexts[b]), 1e-5, name);
      for (int64_t e = 0; e < want.columns; ++e) {
        double mean = 0;
        for (int64_t l = 0; l < want.rows; ++l) mean += want.at(l, e) / static_cast<double>(want.rows);
        EXPECT_NEAR(means.at({row, e}), mean, 1e-5) << name;
      }
    }
  }
}

TEST(Bert, EmbedsASentenceTheSameAloneAndInABatch) {
  const Bert model(small(Architecture::encoder_only), 3);
  const Tensor together = model.embed(batch(kTexts), lengths(kTexts)).data();
  for (size_t b = 0; b < kTexts.size(); ++b) {
    const Tensor alone = model.embed(batch({kTexts[b]}), lengths({kTexts[b]})).data();
    EXPECT_TRUE(same_bits(together.select(0, static_cast<int64_t>(b)), alone.select(0, 0))) << b;
  }
}

TEST(Bert, HasTheGradientOfEveryParameter) {
  for (const auto& [name, config] : variants(Architecture::encoder_only)) {
    const Bert model(config, 3);
    shake(model);
    const Ids text = {1, 6, 3, 4, 10}, expected = {6, 3, 4, 10, 2};
    const Value loss = model.loss(batch({text}), lengths({text}), batch({expected}));
    EXPECT_EQ(loss.item(), cross_entropy(model.forward(batch({text}), lengths({text})), batch({expected})).item());
    loss.backward();
    expect_parameter_gradients(
        model, oracle_of(model), expected, [&](const oracle::Transformer& t) { return t.bert(text); }, name);
  }
}

TEST(Bert, PassesTheGradientOfTheMeanToWhatIsNotPadding) {
  const Bert model(small(Architecture::encoder_only), 3);
  const auto weight = model.named_parameters()[0].second;
  const Value means = model.embed(batch({{5, 6, 7}, {}}), lengths({{5, 6, 7}, {}}));
  for (int64_t e = 0; e < 8; ++e) EXPECT_EQ(means.data().at({1, e}), 0) << "no states, no mean";
  const Value loss = sum(means * Value(oracle::sample({2, 8}, 3)));
  const double before = loss.item();
  loss.backward();
  // Along the gradient the loss grows at the rate of its square.
  double square = 0;
  Tensor moved = weight.data().clone();
  const float step = 1e-3f;
  for (int64_t i = 0; i < moved.numel(); ++i) {
    const float g = weight.grad().contiguous().data<float>()[i];
    square += static_cast<double>(g) * g;
  }
  for (int64_t i = 0; i < moved.numel(); ++i) {
    moved.data<float>()[i] +=
        step * weight.grad().contiguous().data<float>()[i] / static_cast<float>(std::sqrt(square));
  }
  ASSERT_GT(square, 0);
  weight.set_data(moved);
  const Value after =
      sum(model.embed(batch({{5, 6, 7}, {}}), lengths({{5, 6, 7}, {}})) * Value(oracle::sample({2, 8}, 3)));
  EXPECT_NEAR((after.item() - before) / step, std::sqrt(square), 0.1 * std::sqrt(square));
}

}  // namespace
}  // namespace heed::models::test
