// Cost: parameters as the models have them, operations as the oracle counts them.
#include <gtest/gtest.h>

#include "models/helpers.h"

namespace heed::models::test {
namespace {

TEST(Cost, CountsTheParametersOfEveryConfiguration) {
  for (const Architecture a : {Architecture::encoder_decoder, Architecture::decoder_only, Architecture::encoder_only}) {
    for (const auto& [name, config] : variants(a)) {
      const Cost c = cost(config, 1, 1, 1);
      EXPECT_EQ(c.parameters, create(config)->parameter_count()) << to_string(a) << ", " << name;
      EXPECT_EQ(c.parameter_bytes, 4 * c.parameters);
    }
  }
}

TEST(Cost, CountsTheOperationsOfThePlainReference) {
  const Ids source = random_ids(7, 11, 1), target = random_ids(5, 11, 2);
  for (const auto& [name, config] : variants(Architecture::encoder_decoder)) {
    const oracle::Transformer plain = oracle_of(Transformer(config));
    (void)plain.translate(source, target);
    EXPECT_EQ(cost(config, 3, 7, 5).forward_flops, 3 * 2 * plain.products) << name;
  }
  for (const auto& [name, config] : variants(Architecture::decoder_only)) {
    const oracle::Transformer plain = oracle_of(Gpt(config));
    (void)plain.gpt(target);
    EXPECT_EQ(cost(config, 1, 7, 5).forward_flops, 2 * plain.products) << name;
  }
  for (const auto& [name, config] : variants(Architecture::encoder_only)) {
    const oracle::Transformer plain = oracle_of(Bert(config));
    (void)plain.bert(source);
    EXPECT_EQ(cost(config, 1, 7, 5).forward_flops, 2 * plain.products) << name;
  }
}

TEST(Cost, OfOneAttentionIsTheKnownFormula) {
  // 8 B L E^2 for the four projections and 4 B L^2 E for the two products, whatever the number of heads.
  EXPECT_EQ(multi_head_attention_flops(2, 8, 5), 8 * 2 * 5 * 8 * 8 + 4 * 2 * 5 * 5 * 8);
  for (const int64_t heads : {1, 2, 4, 8}) {
    oracle::Transformer plain;
    plain.width = 8;
    plain.heads = plain.key_value_heads = heads;
    plain.head_size = plain.value_size = 8 / heads;
    for (const char* name : {"a.query", "a.key", "a.value", "a.output"}) {
      plain.weights[std::string(name) + ".weight"] = oracle::Matrix(8, 8);
    }
    const oracle::Matrix x(5, 8);
    (void)plain.attention(x, x, false, "a");
    EXPECT_EQ(multi_head_attention_flops(2, 8, 5), 2 * 2 * plain.products) << heads << " heads";
  }
}

TEST(Cost, TrainsForThreeTimesTheForwardPassAndKeepsMoreForLongerTexts) {
  const Config config = small(Architecture::decoder_only);
  const Cost one = cost(config, 1, 0, 8), two = cost(config, 2, 0, 8), longer = cost(config, 1, 0, 16);
  EXPECT_EQ(one.training_flops, 3 * one.forward_flops);
  EXPECT_EQ(two.activation_bytes, 2 * one.activation_bytes);
  EXPECT_EQ(longer.activation_bytes, 2 * one.activation_bytes) << "attention keeps no weights: memory is linear";
  EXPECT_GT(longer.forward_flops, 2 * one.forward_flops);
}

}  // namespace
}  // namespace heed::models::test
