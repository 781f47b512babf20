// Decoding from caches of every kind: in f32 no bit depends on the pages; smaller types stay close.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "heed/generate.h"

namespace heed::generate {
namespace {

models::Config small_config() {
  models::Config c = models::preset("tiny");
  c.source_vocabulary = c.target_vocabulary = 50;
  c.encoder_layers = c.decoder_layers = 2;
  c.width = 32;
  c.feed_forward = 64;
  c.max_length = 64;
  return c;
}

std::vector<Ids> random_sources(size_t count) {
  std::mt19937 random(5);
  std::vector<Ids> sources(count);
  for (Ids& ids : sources) {
    ids.resize(1 + random() % 17);
    for (int32_t& id : ids) id = static_cast<int32_t>(4 + random() % 46);
  }
  return sources;
}

TEST(CacheOptions, PagesChangeNoBitOfATranslation) {
  const models::Transformer model(small_config(), 3);
  const std::vector<Ids> sources = random_sources(23);
  const BeamOptions search = {.beam = 4, .n_best = 4, .max_length = 20};  // its hypotheses fork: they share pages
  const auto plain = translate(model, sources, {.search = search});
  for (const int64_t page : {1, 3, 16}) {
    const auto paged = translate(model, sources, {.search = search, .cache = {.page = page}});
    for (size_t i = 0; i < sources.size(); ++i) {
      ASSERT_EQ(paged[i].size(), plain[i].size());
      for (size_t k = 0; k < plain[i].size(); ++k) {
        EXPECT_EQ(paged[i][k].ids, plain[i][k].ids) << "page " << page << ", sentence " << i;
        EXPECT_EQ(paged[i][k].log_probs, plain[i][k].log_probs) << "page " << page << ", sentence " << i;
      }
    }
  }
}

// Logits of 12 steps of given tokens, in two rows that fork once.
Tensor logits_of(const models::Transformer& model, const KeyValueCache::Options& cache) {
  const std::vector<int32_t> source = {5, 6, 7, 8, 9, 10, 11, 2}, lengths = {8};
  const auto decoder = model.start(Tensor::from(std::span<const int32_t>(source), {1, 8}),
                                   Tensor::from(std::span<const int32_t>(lengths), {1}), 2, cache);
  const Tensor all = Tensor::empty({12, 2, 50});
  for (int32_t n = 0; n < 12; ++n) {
    if (n == 6) decoder->reorder(std::vector<int64_t>{1, 1});
    const std::vector<int32_t> tokens = {n + 4, 2 * n + 5};
    all.select(0, n).copy_from(decoder->step(Tensor::from(std::span<const int32_t>(tokens), {2, 1})));
  }
  return all;
}

TEST(CacheOptions, SmallerTypesStayClose) {
  const models::Transformer model(small_config(), 3);
  const Tensor exact = logits_of(model, {});
  const auto worst = [&](const KeyValueCache::Options& cache) {
    const Tensor found = logits_of(model, cache);
    float most = 0;
    for (int64_t n = 0; n < exact.numel(); ++n)
      most = std::max(most, std::fabs(found.data<float>()[n] - exact.data<float>()[n]));
    return most;
  };
  EXPECT_EQ(worst({.page = 4}), 0);
  // Relative errors of the numbers kept are at most 2^-12, 2^-9 and about 2^-8; the logits are around 1.
  for (const auto& [dtype, bound] : {std::pair(DType::f16, 2e-3f), {DType::bf16, 2e-2f}, {DType::i8, 4e-2f}}) {
    const float one_piece = worst({.dtype = dtype}), pages = worst({.dtype = dtype, .page = 4});
    EXPECT_GT(one_piece, 0) << to_string(dtype);  // it was the smaller type that was read
    EXPECT_LT(one_piece, bound) << to_string(dtype);
    EXPECT_EQ(one_piece, pages) << to_string(dtype);
  }
}

TEST(CacheOptions, OfATextThatIsContinued) {
  models::Config config;
  config.architecture = models::Architecture::decoder_only;
  config.target_vocabulary = 20;
  config.decoder_layers = 2;
  config.width = 16;
  config.feed_forward = 32;
  config.heads = 2;
  config.positions = models::Positions::learned;
  config.max_length = 16;
  const models::Gpt model(config, 4);
  const Ids prompt = {3, 4, 5};
  const auto plain = sample_text(model, prompt, {.seed = 1, .max_tokens = 40});
  const auto paged = sample_text(model, prompt, {.seed = 1, .max_tokens = 40, .cache = {.page = 4}});
  EXPECT_EQ(paged.ids, plain.ids);
  EXPECT_EQ(paged.log_probs, plain.log_probs);
  const auto half = sample_text(model, prompt, {.seed = 1, .max_tokens = 40, .cache = {.dtype = DType::bf16}});
  EXPECT_EQ(half.ids.size(), 40u);
  EXPECT_NE(half.log_probs, plain.log_probs);
}

}  // namespace
}  // namespace heed::generate
