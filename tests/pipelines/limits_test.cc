// How much of a text is read: what transformers 5 does with the same folders (model_max_length counts, the older
// max_len too, truncation of tokenizer.json only by its direction).
#include <gtest/gtest.h>

#include <algorithm>

#include "base/message.h"
#include "heed/error.h"
#include "heed/pipelines.h"
#include "pipelines/encoding.h"
#include "pipelines/hugging_face.h"
#include "pipelines/save.h"

namespace heed {
namespace {

using test::Scratch;
using test::with_words;
using testing::message_of;

// bert-model reads 24 tokens.
int64_t longest_with(const std::string& settings, const std::string& sentence_settings = "") {
  const Scratch scratch;
  (void)with_words(scratch, "bert-model");
  if (!settings.empty()) scratch.file("bert-model/tokenizer_config.json", settings);
  if (!sentence_settings.empty()) scratch.file("bert-model/sentence_bert_config.json", sentence_settings);
  const Encoder encoder = Encoder::load(scratch / "bert-model");
  std::string text;
  for (int i = 0; i < 40; ++i) text += "paris ";
  const TextOptions cut{.too_long = TooLong::cut};
  const auto kept = static_cast<int64_t>(encoder.encode(text, {.text = cut}).tokens.size());
  EXPECT_EQ(message_of([&] { (void)encoder.encode(text); }),
            "[Encoder::encode] text 1: at most the " + std::to_string(kept) + " tokens that the model reads; found 42");
  return kept;
}

TEST(Limits, OfTheTokenizerAndOfTheModel) {
  EXPECT_EQ(longest_with(""), 24);
  EXPECT_EQ(longest_with("{}"), 24);
  EXPECT_EQ(longest_with(R"({"model_max_length": 12})"), 12);
  EXPECT_EQ(longest_with(R"({"max_len": 11})"), 11);
  EXPECT_EQ(longest_with(R"({"model_max_length": 12, "max_len": 7})"), 12);
  EXPECT_EQ(longest_with(R"({"model_max_length": 1000000000000000019884624838656})"), 24);
  EXPECT_EQ(longest_with(R"({"model_max_length": null})"), 24);
  EXPECT_EQ(longest_with(R"({"model_max_length": 12})", R"({"max_seq_length": 15})"), 15)
      << "sentence-transformers puts its own in place of the tokenizer's";
  for (const char* const name : {"tokenizer_args", "processor_kwargs"}) {  // which says more than both
    for (const int64_t own : {9, 14})
      EXPECT_EQ(
          longest_with(R"({"model_max_length": 12})", R"({"max_seq_length": 11, ")" + std::string(name) +
                                                          R"(": {"model_max_length": )" + std::to_string(own) + "}}"),
          own);
  }
  EXPECT_NE(message_of([] { (void)longest_with(R"({"model_max_length": "12"})"); }).find("model_max_length"),
            std::string::npos);
  EXPECT_THROW((void)longest_with(R"({"model_max_length": 0})"), Error);
}

// A vocab.txt of as many tokens as the model has rows.
std::filesystem::path with_as_many_words(const Scratch& scratch, const char* name) {
  const auto folder = with_words(scratch, name);
  std::string vocabulary;
  for (const char* const word : test::kWords) vocabulary += std::string(word) + "\n";
  for (int i = 0; i < 45; ++i) vocabulary += "token" + std::to_string(i) + "\n";
  scratch.file(std::string(name) + "/vocab.txt", vocabulary);
  return folder;
}

TEST(Limits, TheTokenizerIsOneOfTheModelsKind) {
  const Scratch scratch;
  const auto t5 = with_words(scratch, "t5");
  EXPECT_EQ(message_of([&] { (void)Translator::load(t5); }),
            "[Translator::load] " + t5.string() + ": a tokenizer that ends a text with the id 1, \"eos_token_id\" of " +
                "config.json; found one that ends it with 3, [SEP]");
}

// BART's models for summaries have no row for the mask, their tokenizer's last token.
TEST(Limits, SpecialTokensMayHaveNoRow) {
  const Scratch scratch;
  const auto load = [&](const char* name, const std::string& last) {
    const auto folder = with_as_many_words(scratch, name);
    std::ofstream(folder / "vocab.txt", std::ios::app) << last << "\n";
    return folder;
  };
  const auto encoder_folder = load("bert-model", "<hl>");
  const std::string refused =
      "[Encoder::load] " + encoder_folder.string() + ": a source tokenizer of 61 tokens, as many as the model has; ";
  EXPECT_EQ(message_of([&] { (void)Encoder::load(encoder_folder); }), refused + "found 62");
  scratch.file("bert-model/special_tokens_map.json", R"({"additional_special_tokens": ["<hl>"]})");
  const Encoder encoder = Encoder::load(encoder_folder);
  EXPECT_EQ(encoder.encode("<hl> paris").tokens.size(), 6u);  // pieces of it
  EXPECT_EQ(message_of([&] { (void)encoder.encode("<hl> paris", {.parse_special = true}); }),
            "[Encoder::encode] text 1: tokens that the model has a row for; found \"<hl>\"");

  const auto folder = load("marian", "<hl>");
  scratch.file("marian/special_tokens_map.json", R"({"eos_token": "[PAD]", "additional_special_tokens": ["<hl>"]})");
  const Translator translator = Translator::load(folder);
  const std::vector<std::string> texts = {"paris", "is <hl>"};
  EXPECT_EQ(translator.translate(texts).size(), 2u);
  EXPECT_EQ(message_of([&] { (void)translator.translate(texts, {.parse_special = true}); }),
            "[translate] text 2: tokens that the model has a row for; found \"<hl>\"");
}

TEST(Limits, SpecialTokensAreTextUnlessAsked) {
  const Scratch scratch;
  const Encoder encoder = Encoder::load(with_words(scratch, "bert-classify"));
  const char* const text = "paris [SEP] france";
  EXPECT_EQ(encoder.encode(text).tokens,
            (std::vector<std::string>{"[CLS]", "paris", "[UNK]", "[UNK]", "[UNK]", "france", "[SEP]"}));
  EXPECT_EQ(encoder.encode(text, {.parse_special = true}).tokens,
            (std::vector<std::string>{"[CLS]", "paris", "[SEP]", "france", "[SEP]"}));
  const std::vector<std::string> texts = {text};
  EXPECT_NE(encoder.classify(texts).front().scores, encoder.classify(texts, {.parse_special = true}).front().scores);
  EXPECT_FALSE(encoder.embed(texts).at({0, 0}) == encoder.embed(texts, {.parse_special = true}).at({0, 0}));
}

// Two models of others with 61 rows and 16 tokens. What no token belongs to is not written, and has a number as name.
TEST(Limits, RowsWithoutATokenAreNotWritten) {
  const Scratch scratch;
  const Translator translator = Translator::load(with_words(scratch, "marian"));
  for (const int64_t beam : {1, 4}) {
    for (const char* const text : {"paris is the capital", "a city of france", "query"}) {
      const Translation made = translator.translate(text, {.search = {.beam = beam, .max_length = 12}}).front();
      ASSERT_FALSE(made.tokens.empty());
      for (const std::string& token : made.tokens)
        EXPECT_NE(std::ranges::find(test::kWords, token), std::end(test::kWords)) << token;
    }
  }
  const auto encoder = Encoder::load(with_words(scratch, "bert-masked"));
  EXPECT_EQ(pipelines::pieces_of(encoder.tokenizer(), {5, 15, 16, 60}),
            (std::vector<std::string>{"paris", "city", "#16", "#60"}));
}

TEST(Limits, OfATranslator) {
  const Scratch scratch;
  const auto folder = with_as_many_words(scratch, "marian");
  scratch.file("marian/tokenizer_config.json", R"({"model_max_length": 9})");
  const Translator translator = Translator::load(folder);
  std::string text;
  for (int i = 0; i < 10; ++i) text += "paris ";
  EXPECT_EQ(message_of([&] { (void)translator.encode(text); }),
            "[Translator::encode] text 1: at most the 7 tokens that the model reads; found 10");
  EXPECT_EQ(translator.encode("paris is the").size(), 5u);
}

TEST(Limits, TheSideThatIsCut) {
  const Scratch scratch;
  for (const auto& [direction, settings, first] : {std::tuple("Right", "{}", 0), std::tuple("Left", "{}", 1),
                                                   std::tuple("Left", R"({"truncation_side":"right"})", 0),
                                                   std::tuple("Right", R"({"truncation_side":"left"})", 1)}) {
    const std::string json =
        R"({"version":"1.0","truncation":{"max_length":2,"strategy":"OnlySecond","stride":0,"direction":")" +
        std::string(direction) +
        R"("},"added_tokens":[],"normalizer":null,"pre_tokenizer":{"type":"Whitespace"},"post_processor":null,)"
        R"("decoder":null,"model":{"type":"WordLevel","unk_token":"c","vocab":{"a":0,"b":1,"c":2,"d":3,"e":4}}})";
    const auto file = scratch.file("tokenizer.json", json);
    (void)scratch.file("tokenizer_config.json", settings);
    const auto tokenizer = text::load_tokenizer_json(scratch / "tokenizer.json");
    EXPECT_EQ(tokenizer->tokens("a b c d e").ids.size(), 5u) << "max_length does not count";
    EXPECT_EQ(tokenizer->tokens("a b c d e", {.limit = 3}).ids.front(), first == 0 ? 0 : 2) << direction << settings;
    EXPECT_EQ(tokenizer->tokens("a b c d", {.pair = "e", .limit = 3}).segments.back(), 1) << "the longer one is cut";
  }
}

// Folders without a tokenizer.json say it too, and a model that was converted goes on with it.
TEST(Limits, TheSideThatIsCutWithoutATokenizerJson) {
  const Scratch scratch;
  std::string text = "paris";
  for (int i = 0; i < 30; ++i) text += " is";
  text += " the";
  const TextOptions cut{.too_long = TooLong::cut};
  const auto kept = [&](const std::filesystem::path& folder) {
    const std::vector<std::string> tokens = Encoder::load(folder).encode(text, {.text = cut}).tokens;
    return tokens[1] + " " + tokens.end()[-2];
  };
  const auto folder = with_as_many_words(scratch, "bert-model");
  scratch.file("bert-model/tokenizer_config.json", R"({"truncation_side": "right"})");
  EXPECT_EQ(kept(folder), "paris is");
  scratch.file("bert-model/tokenizer_config.json", R"({"truncation_side": "left"})");
  EXPECT_EQ(kept(folder), "is the");
  pipelines::save(Encoder::load(folder), folder, scratch / "own", pipelines::Layout::heed);
  EXPECT_EQ(Encoder::load(scratch / "own").model().origin(), nullptr);
  EXPECT_EQ(kept(scratch / "own"), "is the");

  const auto marian = with_as_many_words(scratch, "marian");
  scratch.file("marian/tokenizer_config.json", R"({"model_max_length": 9, "truncation_side": "left"})");
  const Translator translator = Translator::load(marian);
  EXPECT_EQ(translator.encode(text, {.text = cut}), translator.encode("is is is is is is the"));
}

}  // namespace
}  // namespace heed
