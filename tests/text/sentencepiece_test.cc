// SentencePiece: the ids that its own program gives, quiet and repeatable training, models from strangers.
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <unordered_map>

#include "base/data.h"
#include "base/scratch.h"
#include "heed/text.h"

namespace heed::text {
namespace {

using test::contents_of;
using test::expect_error;
using test::Scratch;
using Strings = std::vector<std::string>;

Strings sample_lines() {
  const char* subjects[] = {"Ein Mann", "Eine Frau", "Das Kind", "Der Hund", "Zwei Männer"};
  const char* verbs[] = {"sieht", "sucht", "malt", "trägt", "findet"};
  const char* objects[] = {"ein Haus.", "einen Ball.", "das Fahrrad.", "die Straße.", "etwas Grünes.", "，中文。"};
  Strings lines;
  for (const char* s : subjects) {
    for (const char* v : verbs) {
      for (const char* o : objects) lines.push_back(std::string(s) + " " + v + " " + o);
    }
  }
  return lines;
}

std::string saved(const Tokenizer& tokenizer) {
  const Scratch scratch;
  tokenizer.save(scratch.path(), Side::source);
  return contents_of(scratch / "source.model");
}

void expect_reference_ids(const Tokenizer& tokenizer, const char* key) {
  const auto reference = nlohmann::json::parse(contents_of(test::test_data("tokenizers/reference_ids.json")));
  EXPECT_EQ(tokenizer.kind(), "sentencepiece");
  EXPECT_EQ(reference["cases"].size(), 55u);
  for (const auto& entry : reference["cases"]) {
    const auto text = entry["text"].get<std::string>();
    EXPECT_EQ(tokenizer.encode(text), entry[key].get<std::vector<int32_t>>()) << key << ": " << text;
  }
}

TEST(SentencePiece, GivesTheReferenceIds) {
  for (const std::string name : {"sp_test_model", "sp_test_ja_model"}) {
    expect_reference_ids(*load_sentencepiece(test::test_data("tokenizers/" + name + ".model")), name.c_str());
  }
}

TEST(SentencePiece, SaysWhereItsTokensStand) {
  const auto tokenizer = load_sentencepiece(test::test_data("tokenizers/sp_test_model.model"));
  const std::string text = "I saw \u00fcber girls";
  const Tokens tokens = tokenizer->tokens(text);
  ASSERT_GT(tokens.ids.size(), 4u);
  EXPECT_EQ(tokens.ids.front(), 1);
  EXPECT_EQ(tokens.ids.back(), 2);
  EXPECT_EQ(Ids(tokens.ids.begin() + 1, tokens.ids.end() - 1), tokenizer->encode(text));
  std::string joined;
  for (const Span& span : tokens.spans) {
    joined += text.substr(static_cast<size_t>(span.begin), static_cast<size_t>(span.end - span.begin));
  }
  EXPECT_EQ(joined, text);
  EXPECT_EQ(tokenizer->id_of("</s>"), 2);
  EXPECT_EQ(tokenizer->id_of("none of them"), std::nullopt);
}

// A model of the library's own training, which knows types and settings that heed does not train.
void train_by_library(const std::filesystem::path& model, std::unordered_map<std::string, std::string> settings) {
  const std::filesystem::path text = model.parent_path() / "text";
  std::ofstream file(text);
  for (const std::string& line : sample_lines()) file << line << '\n';
  file.close();
  settings["input"] = text.string();
  settings["model_prefix"] = (model.parent_path() / model.stem()).string();
  settings["minloglevel"] = "3";
  const auto status = sentencepiece::SentencePieceTrainer::Train(settings);
  ASSERT_TRUE(status.ok()) << status.ToString();
}

// Long texts take another way through the library.
void expect_pieces_of_library(const std::filesystem::path& model) {
  SCOPED_TRACE(model.filename());
  const auto tokenizer = load_sentencepiece(model);
  sentencepiece::SentencePieceProcessor library;
  ASSERT_TRUE(library.Load(model.string()).ok());
  std::mt19937 random(5);
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  const std::string verdict = contents_of(test::test_data("text/the-verdict.txt"));
  // The last ones are in keys of a character map: alone, behind a letter, and in a ligature.
  const Strings parts = {"中", "国", "😀", "𐍈", "ж", "は", "क", "س", "7", "@", " ", "  ", "▁", "\t", "Ein Mann ", "<b>",
                         "\u0301", "ﬁ", "①", "ｶ\uff9e"};
  for (int round = 0; round < 15; ++round) {
    std::string text;
    while (text.size() < 9000) {
      const size_t run = below(3) == 0 ? 40 + below(1500) : 1 + below(3);
      const size_t one = below(parts.size()), other = below(parts.size());
      for (size_t i = 0; i < run; ++i) text += parts[i % 3 == 2 ? other : one];
      const size_t at = verdict.find(' ', below(verdict.size() - 1000));
      text += verdict.substr(at, below(600));  // plain English
    }
    sentencepiece::ImmutableSentencePieceText expected;
    ASSERT_TRUE(library.Encode(text, expected.mutable_proto()).ok());
    const Tokens tokens = tokenizer->tokens(text, {.add_special = false});
    ASSERT_EQ(tokens.ids.size(), expected.pieces_size());
    for (size_t i = 0; i < tokens.ids.size(); ++i) {
      const auto piece = expected.pieces(static_cast<int>(i));
      ASSERT_EQ(tokens.ids[i], static_cast<int32_t>(piece.id())) << i;
      ASSERT_EQ(tokens.spans[i].begin, static_cast<int64_t>(piece.begin())) << i;
      ASSERT_EQ(tokens.spans[i].end, static_cast<int64_t>(piece.end())) << i;
    }
    ASSERT_EQ(tokenizer->encode(text), tokens.ids);
  }
}

TEST(SentencePiece, CutsLongTextsAsTheLibraryDoes) {
  for (const std::string name : {"sp_test_model", "sp_test_ja_model"})
    expect_pieces_of_library(test::test_data("tokenizers/" + name + ".model"));
  const Scratch scratch;
  for (const bool bpe : {false, true}) {
    train_sentencepiece(sample_lines(), {.vocabulary = 55, .bpe = bpe})->save(scratch.path(), Side::source);
    expect_pieces_of_library(scratch / "source.model");
  }
  using Settings = std::unordered_map<std::string, std::string>;
  for (const Settings& settings :
       {Settings{{"model_type", "word"}, {"vocab_size", "20"}}, Settings{{"model_type", "char"}, {"vocab_size", "30"}},
        Settings{{"model_type", "unigram"}, {"vocab_size", "60"}, {"user_defined_symbols", "<b>,中国"}},
        Settings{{"model_type", "bpe"}, {"vocab_size", "330"}, {"byte_fallback", "true"}},
        // It has a piece that looks like a byte's.
        Settings{{"model_type", "unigram"}, {"vocab_size", "60"}, {"user_defined_symbols", "<0x41>"}}}) {
    train_by_library(scratch / "library.model", settings);
    expect_pieces_of_library(scratch / "library.model");
  }
}

// The library alone would take hours.
TEST(SentencePiece, TakesTimeThatGrowsWithTheText) {
  const auto tokenizer = load_sentencepiece(test::test_data("tokenizers/sp_test_model.model"));
  for (const std::string part : {"你好", "かな", "жш", "@@"}) {
    std::string run;
    while (run.size() < 1'000'000) run += part;
    const Tokens tokens = tokenizer->tokens("I saw a " + run + " girl", {.add_special = false});
    EXPECT_EQ(tokens.ids, tokenizer->encode("I saw a " + part + " girl")) << part;
    EXPECT_EQ(std::ranges::max(tokens.spans, {}, [](const Span& s) { return s.end - s.begin; }).end,
              static_cast<int64_t>(8 + run.size()))
        << part;
  }
}

TEST(SentencePiece, GivesTheReferenceIdsOfLlama2) {
  const auto file = test::shared_data("tokenizers/llama2_tokenizer.model");
  HEED_NEED_SHARED(file);
  const auto llama = load_sentencepiece(file);
  expect_reference_ids(*llama, "llama2");
  EXPECT_EQ(llama->special().padding, -1);
  EXPECT_EQ(llama->special().unknown, 0);
  EXPECT_EQ(llama->vocabulary(), 32000);
  for (const std::string text : {"Hello, 世界 😀!", "a  b", "naïve <s> text"}) {
    EXPECT_EQ(llama->decode(llama->encode(text)), text);  // bytes stand in for what is not in the vocabulary
  }
}

TEST(SentencePiece, TrainsQuietlyAndWithoutFiles) {
  const Scratch scratch;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(scratch.path());
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  for (const bool bpe : {false, true}) {
    const auto tokenizer = train_sentencepiece(sample_lines(), {.vocabulary = 55, .bpe = bpe});
    EXPECT_EQ(tokenizer->vocabulary(), 55);
    EXPECT_EQ(tokenizer->special().padding, 0);
    EXPECT_EQ(tokenizer->special().begin, 1);
    EXPECT_EQ(tokenizer->special().end, 2);
    EXPECT_EQ(tokenizer->special().unknown, 3);
    EXPECT_EQ(tokenizer->piece(2), "</s>");
    for (const std::string& line : sample_lines()) {
      const std::vector<int32_t> ids = tokenizer->encode(line);
      EXPECT_LT(ids.size(), line.size());
      EXPECT_EQ(tokenizer->decode(ids), line);
      for (const int32_t id : ids) EXPECT_GT(id, 2);
    }
    EXPECT_TRUE(tokenizer->encode("").empty());
    EXPECT_EQ(tokenizer->decode(Ids{}), "");
    EXPECT_EQ(tokenizer->piece(tokenizer->encode("Mann")[0]).substr(0, 3), "▁");
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  std::filesystem::current_path(before);
  EXPECT_EQ(scratch.count(), 0);
}

TEST(SentencePiece, TrainsTheSameModelTwice) {
  for (const bool bpe : {false, true}) {
    const SentencePieceOptions options{.vocabulary = 55, .bpe = bpe};
    EXPECT_EQ(saved(*train_sentencepiece(sample_lines(), options)),
              saved(*train_sentencepiece(sample_lines(), options)));
  }
}

// Full-width punctuation is what a Chinese reference has: it must come back as it was.
TEST(SentencePiece, KeepsTheTextAsItIs) {
  const auto tokenizer = train_sentencepiece(sample_lines(), {.vocabulary = 55});
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("Ein Mann ，中文。")), "Ein Mann ，中文。");
}

TEST(SentencePiece, TakesSpecialTokensForText) {
  const auto tokenizer = train_sentencepiece(sample_lines(), {.vocabulary = 55});
  for (const std::string text : {"<s>", "</s>", "<pad>", "<unk>"}) {
    for (const int32_t id : tokenizer->encode(text)) EXPECT_GE(id, 3) << text;
  }
  EXPECT_EQ(tokenizer->decode(Ids{0, 1, 2, 3}), "");
}

TEST(SentencePiece, SaysWhyItCannotTrain) {
  const Strings lines = sample_lines();
  testing::internal::CaptureStderr();
  expect_error([&] { (void)train_sentencepiece(lines, {.vocabulary = 100000}); }, "too high");
  expect_error([&] { (void)train_sentencepiece(lines, {.vocabulary = 100000, .bpe = true}); },
               "a vocabulary of 100000");
  expect_error([&] { (void)train_sentencepiece(lines, {.vocabulary = 10}); }, "a vocabulary of 10 pieces");
  expect_error([&] { (void)train_sentencepiece(lines, {.vocabulary = 10, .bpe = true}); }, "a vocabulary of 10 pieces");
  expect_error([&] { (void)train_sentencepiece(lines, {.vocabulary = 0}); }, "found 0");
  expect_error([&] { (void)train_sentencepiece({}, {.vocabulary = 55}); }, "found none");
  expect_error([&] { (void)train_sentencepiece(Strings{"", " "}, {.vocabulary = 55}); }, "found none");
  expect_error([&] { (void)train_sentencepiece(Strings{"a", "\xff"}, {.vocabulary = 55}); }, "line 2: valid UTF-8; found byte 0xff at position 1");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// With `nearest`: as many pieces as the text has, or as few as its characters need.
TEST(SentencePiece, TakesTheNearestVocabulary) {
  const Strings lines = sample_lines();
  for (const bool bpe : {false, true}) {
    const auto most = train_sentencepiece(lines, {.vocabulary = 100000, .bpe = bpe, .nearest = true});
    const auto fewest = train_sentencepiece(lines, {.vocabulary = 10, .bpe = bpe, .nearest = true});
    const int64_t high = most->vocabulary(), low = fewest->vocabulary();
    EXPECT_GT(low, 30);  // the letters
    EXPECT_GT(high, low);
    EXPECT_LT(high, 300);
    // They are the nearest: one more or one less is an error, and they themselves are not.
    EXPECT_THROW((void)train_sentencepiece(lines, {.vocabulary = high + 1, .bpe = bpe}), Error);
    EXPECT_THROW((void)train_sentencepiece(lines, {.vocabulary = low - 1, .bpe = bpe}), Error);
    EXPECT_EQ(train_sentencepiece(lines, {.vocabulary = high, .bpe = bpe})->vocabulary(), high);
    EXPECT_EQ(train_sentencepiece(lines, {.vocabulary = low, .bpe = bpe})->vocabulary(), low);
    EXPECT_EQ(train_sentencepiece(lines, {.vocabulary = 1, .bpe = bpe, .nearest = true})->vocabulary(), low);
    for (const auto& tokenizer : {most, fewest}) {
      for (const std::string& line : lines) EXPECT_EQ(tokenizer->decode(tokenizer->encode(line)), line);
    }
    // A vocabulary that is possible is the one asked for, to the byte.
    EXPECT_EQ(saved(*train_sentencepiece(lines, {.vocabulary = 55, .bpe = bpe, .nearest = true})),
              saved(*train_sentencepiece(lines, {.vocabulary = 55, .bpe = bpe})));
  }
  expect_error([&] { (void)train_sentencepiece(Strings{"", " "}, {.vocabulary = 55, .nearest = true}); }, "found none");
}

TEST(SentencePiece, EncodesOnlyUtf8AndDecodesOnlyItsIds) {
  const auto tokenizer = train_sentencepiece(sample_lines(), {.vocabulary = 55});
  expect_error([&] { (void)tokenizer->encode("ab\xc3"); }, "found byte 0xc3 at position 3");
  expect_error([&] { (void)tokenizer->decode(Ids{55}); }, "ids from 0 to 54; found 55");
  expect_error([&] { (void)tokenizer->decode(Ids{-1}); }, "found -1");
  expect_error([&] { (void)tokenizer->piece(55); }, "found 55");
}

TEST(SentencePiece, LivesInTheModelFolder) {
  const Scratch scratch;
  (void)scratch.file("source.vocab", "of an earlier tokenizer");
  const auto tokenizer = train_sentencepiece(sample_lines(), {.vocabulary = 55});
  tokenizer->save(scratch.path(), Side::source);
  testing::internal::CaptureStderr();
  const auto loaded = Tokenizer::load(scratch.path(), Side::source);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(loaded->kind(), "sentencepiece");
  for (const std::string& line : sample_lines()) EXPECT_EQ(loaded->encode(line), tokenizer->encode(line));
  EXPECT_EQ(scratch.count(), 1);
}

TEST(SentencePiece, RefusesWhatIsNoModel) {
  const Scratch scratch;
  testing::internal::CaptureStderr();
  expect_error([&] { (void)load_sentencepiece(scratch / "none.model"); }, "No such file");
  for (const std::string bytes : {"", "a text, and no model\n", "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"}) {
    expect_error([&] { (void)load_sentencepiece(scratch.file("x.model", bytes)); }, "x.model\"");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// The library follows the trie of a character map without checks, so heed checks it first.
TEST(SentencePiece, SurvivesPrefixesAndFlippedBits) {
  const Scratch scratch;
  const std::string seeds[] = {saved(*train_sentencepiece(sample_lines(), {.vocabulary = 55})),
                               contents_of(test::test_data("tokenizers/sp_test_model.model"))};  // has a character map
  std::mt19937 random(11);
  testing::internal::CaptureStderr();
  for (const std::string& seed : seeds) {
    int refused = 0;
    const auto attempt = [&](const std::string& bytes) {
      try {
        const auto tokenizer = load_sentencepiece(scratch.file("x.model", bytes));
        (void)tokenizer->decode(tokenizer->encode("Ａ Mann ｱ sieht ㍿ 中文 é \xf0\x9f\x98\x80."));
      } catch (const Error&) {
        ++refused;
      }
    };
    for (int i = 0; i < 150; ++i) attempt(seed.substr(0, random() % seed.size()));
    for (int i = 0; i < 400; ++i) {
      std::string damaged = seed;
      // Half of them near the end, where the specifications and the character map are.
      const size_t at =
          i % 2 == 0 ? random() % seed.size() : seed.size() - 1 - random() % std::min<size_t>(seed.size(), 250000);
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << (random() % 8)));
      attempt(damaged);
    }
    EXPECT_GT(refused, 50);
  }
  (void)testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace heed::text
