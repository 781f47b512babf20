// Continuing texts, and texts as vectors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/data.h"
#include "base/message.h"
#include "heed/error.h"
#include "heed/pipelines.h"
#include "pipelines/small_models.h"

namespace heed {
namespace {

using models::Architecture;
using test::Folder;
using test::make_model;

TEST(Generator, StreamsWhatItReturns) {
  const Folder folder;
  const Generator generator = Generator::load(make_model(folder.path(), Architecture::decoder_only));
  std::string streamed;
  int pieces = 0;
  GeneratorOptions options{.sampling = {.seed = 5, .max_tokens = 12}, .ignore_end = true};
  const Generation quiet = generator.generate("车站", options);
  options.on_text = [&](std::string_view piece) {
    streamed += piece;
    ++pieces;
    return true;
  };
  const Generation loud = generator.generate("车站", options);
  EXPECT_EQ(loud.text, quiet.text);
  EXPECT_EQ(loud.log_probs, quiet.log_probs);
  EXPECT_EQ(streamed, loud.text);
  EXPECT_GE(pieces, 12);
  EXPECT_EQ(loud.tokens.size(), 12u);
  EXPECT_FALSE(loud.finished);
  options.on_text = [](std::string_view) { return false; };
  EXPECT_EQ(generator.generate("车站", options).tokens.size(), 1u);
}

TEST(Generator, BytesOfACharacterWaitForTheRestOfIt) {
  const Folder folder;
  const Generator generator = Generator::load(make_model(folder.path(), Architecture::decoder_only));
  GeneratorOptions options{.sampling = {.seed = 1, .max_tokens = 20}, .ignore_end = true};
  options.on_text = [](std::string_view piece) {
    EXPECT_EQ(text::valid_utf8_prefix(piece), piece.size());
    return true;
  };
  (void)generator.generate("", options);  // begins as the training's texts do
}

TEST(Generator, StreamsALongTextWhole) {  // only the last tokens are decoded again for each new one
  const Folder folder;
  // Bytes, the first 256 tokens of GPT-2. At random most of them are no characters.
  auto vocabulary = nlohmann::json::parse(std::ifstream(test::test_data("tokenizers/gpt2_vocab.json")));
  for (auto token = vocabulary.begin(); token != vocabulary.end();)
    token = token.value() < 256 ? std::next(token) : vocabulary.erase(token);
  std::ofstream(folder.path() / "vocab.json") << vocabulary;
  std::ofstream(folder.path() / "merges.txt") << "#version: 0.2\n";
  const auto bytes = text::Tokenizer::load(folder.path(), text::Side::target);
  models::save(*models::create(test::small_config(Architecture::decoder_only, 0, bytes->vocabulary()), 3),
               folder.path());
  const Generator generator = Generator::load(folder.path());
  for (const uint64_t seed : {1, 2, 3}) {
    std::string streamed;
    GeneratorOptions options{.sampling = {.seed = seed, .max_tokens = 700}, .ignore_end = true};
    options.on_text = [&](std::string_view piece) {
      streamed += piece;
      return true;
    };
    EXPECT_EQ(generator.generate(seed == 3 ? std::string(1000, 'a') : "车站", options).text, streamed);
  }
}

TEST(Generator, ReadsTheEndOfALongPromptWithAWarning) {
  const Folder folder;
  const Generator generator = Generator::load(make_model(folder.path(), Architecture::decoder_only));
  const auto window = generator.model().config().max_length;
  std::vector<std::string> warnings;
  const GeneratorOptions options{
      .sampling = {.seed = 3, .max_tokens = 4},
      .ignore_end = true,
      .text = {.on_warning = [&](const TextWarning& warning) { warnings.push_back(to_string(warning)); }}};
  std::string prompt;
  while (std::ssize(generator.tokenizer().encode(prompt)) <= window) prompt += "车站";
  const auto count = std::ssize(generator.tokenizer().encode(prompt));
  (void)generator.generate(prompt, options);
  EXPECT_EQ(warnings, std::vector<std::string>{std::to_string(count) + " tokens; the model reads only the last " +
                                               std::to_string(window)});
  (void)generator.generate("车站", options);
  EXPECT_EQ(warnings.size(), 1u);
  EXPECT_EQ(testing::message_of([&] { (void)generator.generate("车", {.sampling = {.max_tokens = -1}}); }),
            "[sample_text] max_tokens of 0 or more; found -1");
  EXPECT_EQ(generator.generate("车", {.sampling = {.max_tokens = 0}}).tokens.size(), 0u);
}

TEST(Generator, EndsWhereTheModelEnds) {
  const Folder folder;
  const Generator generator = Generator::load(make_model(folder.path(), Architecture::decoder_only));
  bool ended = false;
  for (uint64_t seed = 0; seed < 30 && !ended; ++seed) {
    const Generation made = generator.generate("车", {.sampling = {.seed = seed, .max_tokens = 40}});
    ended = made.finished;
    EXPECT_EQ(made.log_probs.size(), made.tokens.size() + (made.finished ? 1 : 0));
    if (!ended) continue;
    const Generation on = generator.generate("车", {.sampling = {.seed = seed, .max_tokens = 40}, .ignore_end = true});
    EXPECT_EQ(on.tokens.size(), 40u);
    EXPECT_TRUE(std::equal(made.tokens.begin(), made.tokens.end(), on.tokens.begin()));
  }
  EXPECT_TRUE(ended);
}

TEST(Generator, RecordsItsAttention) {
  const Folder folder;
  const Generator generator = Generator::load(make_model(folder.path(), Architecture::decoder_only));
  int64_t announced = 0, announced_masked = 0;
  const inspect::Record record = generator.record("车站在哪", {.on_size = [&](int64_t weights, int64_t masked) {
                                                    announced = weights;
                                                    announced_masked = masked;
                                                  }});
  EXPECT_EQ(record.target_tokens, (std::vector<std::string>{"车", "站", "在", "哪"}));
  EXPECT_EQ(record.output_tokens.size(), 4u);
  ASSERT_EQ(record.decoder.size(), 3u);
  EXPECT_TRUE(record.encoder.empty() && record.cross.empty());
  EXPECT_EQ(announced, 3 * 2 * 4 * 4);
  EXPECT_EQ(announced_masked, 3 * 2 * 6);  // the zeros
  EXPECT_THROW((void)generator.record("车", {.target = "站"}), Error);
  EXPECT_THROW((void)generator.record(""), Error);
  EXPECT_THROW((void)generator.generate("\xFF"), Error);
  EXPECT_THROW((void)Encoder::load(folder.path()), Error);
  EXPECT_THROW((void)Translator::load(folder.path()), Error);
}

TEST(Generator, WarnsOfAnUnknownPrompt) {
  const Folder folder;
  const Generator generator = Generator::load(make_model(folder.path(), Architecture::decoder_only));
  int warnings = 0;
  const GeneratorOptions options{.sampling = {.max_tokens = 1},
                                 .text = {.on_warning = [&](const TextWarning&) { ++warnings; }}};
  (void)generator.generate("xyz 车", options);
  EXPECT_EQ(warnings, 1);
  (void)generator.generate("x车站", options);
  EXPECT_EQ(warnings, 1);
}

// The mean of the states, in double precision.
std::vector<double> mean_of(const Tensor& states) {
  std::vector<double> mean(static_cast<size_t>(states.size(1)));
  for (int64_t i = 0; i < states.size(0); ++i)
    for (int64_t e = 0; e < states.size(1); ++e)
      mean[static_cast<size_t>(e)] +=
          static_cast<double>(states.data<float>()[i * states.size(1) + e]) / static_cast<double>(states.size(0));
  return mean;
}

TEST(Encoder, EmbedsTheMeanOfTheStates) {
  for (const bool mask : {false, true}) {
    const Folder folder;
    const Encoder encoder = Encoder::load(make_model(folder.path(), Architecture::encoder_only, mask));
    const std::vector<std::string> texts = {"where is the station", "the", "", "when does the train leave"};
    const Tensor all = encoder.embed(texts);
    ASSERT_EQ(all.shape(), (Shape{4, 16}));
    for (size_t i = 0; i < texts.size(); ++i) {
      const Encoding one = encoder.encode(texts[i]);
      EXPECT_EQ(one.tokens.front(), "<s>");
      EXPECT_EQ(one.tokens.back(), "</s>");
      ASSERT_EQ(one.states.shape(), (Shape{static_cast<int64_t>(one.tokens.size()), 16}));
      const std::vector<double> mean = mean_of(one.states);
      for (int64_t e = 0; e < 16; ++e)
        EXPECT_NEAR(static_cast<double>(all.data<float>()[static_cast<int64_t>(i) * 16 + e]),
                    mean[static_cast<size_t>(e)], 1e-5);
      // No row depends on the other texts or on the batches.
      const Tensor alone = encoder.embed(std::span(&texts[i], 1), {.batch_tokens = 1});
      EXPECT_EQ(std::memcmp(alone.data<float>(), all.data<float>() + i * 16, 16 * sizeof(float)), 0);
    }
    EXPECT_EQ(encoder.embed({}).size(0), 0);
    EXPECT_THROW((void)encoder.embed(texts, {.batch_tokens = -1}), Error);
  }
}

TEST(Encoder, RecordsItsAttention) {
  const Folder folder;
  const Encoder encoder = Encoder::load(make_model(folder.path(), Architecture::encoder_only, true));
  int64_t announced = 0, announced_masked = -1;
  const inspect::Record record = encoder.record("the station", {.on_size = [&](int64_t weights, int64_t masked) {
                                                  announced = weights;
                                                  announced_masked = masked;
                                                }});
  EXPECT_EQ(record.source_tokens, (std::vector<std::string>{"<s>", "the", "station", "</s>"}));
  ASSERT_EQ(record.encoder.size(), 2u);
  EXPECT_TRUE(record.decoder.empty() && record.cross.empty());
  EXPECT_EQ(announced, 2 * 2 * 4 * 4);
  EXPECT_EQ(announced_masked, 0);
  EXPECT_THROW((void)encoder.record(""), Error);
  EXPECT_THROW((void)encoder.record("the", {.target = "x"}), Error);
  // The mask is read as fill() reads it.
  const inspect::Record masked = encoder.record("the [MASK] leave [MASK]");
  EXPECT_EQ(masked.source_tokens, (std::vector<std::string>{"<s>", "the", "[MASK]", "leave", "[MASK]", "</s>"}));
  EXPECT_EQ(masked.source_words.texts, masked.source_tokens);
  EXPECT_EQ(encoder.record("[MASK]").source_tokens, (std::vector<std::string>{"<s>", "[MASK]", "</s>"}));
}

}  // namespace
}  // namespace heed
