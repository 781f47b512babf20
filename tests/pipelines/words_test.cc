// Words of tokens, for every kind of tokenizer, and of records.
#include "pipelines/words.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "heed/pipelines.h"
#include "pipelines/encoding.h"
#include "pipelines/hugging_face.h"
#include "pipelines/small_models.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using Strings = std::vector<std::string>;

Strings words(const text::Tokenizer& tokenizer, const std::string& text) {
  const inspect::Words found = pipelines::words_of(tokenizer, text, tokenizer.tokens(text, {.add_special = false}));
  EXPECT_EQ(found.of_token.size(), tokenizer.encode(text).size());
  return found.texts;
}

TEST(Words, OfEveryTokenizer) {
  const fs::path data = test::test_data("tokenizers");
  const std::string text = "The untidiest cats, in 2003: don't!";
  const Strings expected = {"The", "untidiest", "cats", ",", "in", "2003", ":", "don't", "!"};
  for (const char* const name : {"bert", "roberta", "llama3", "llama", "xlmr", "gemma"}) {
    const auto tokenizer = text::load_tokenizer_json(data / (std::string(name) + ".json"));
    // A tokenizer may have tokens that no word ends in ("?,"): the words are then longer, but never cut.
    const Strings found = words(*tokenizer, text);
    for (const char* const word : {"The", "untidiest", "2003"})
      EXPECT_EQ(std::count(found.begin(), found.end(), std::string(word)), 1) << name << " " << word;
    if (std::string(name) == "bert" || std::string(name) == "roberta") {
      EXPECT_EQ(found, expected) << name;
    }
    EXPECT_EQ(words(*tokenizer, ""), Strings());
  }
  const auto roberta = text::load_tokenizer_json(data / "roberta.json");
  EXPECT_EQ(words(*roberta, "日本"), (Strings{"日", "本"})) << "bytes are pieces of a character";
  const auto demo = text::Tokenizer::load(fs::path(HEED_SOURCE_DIR) / "demo/en-zh", text::Side::source);
  EXPECT_EQ(words(*demo, "Unquestionably, the station."), (Strings{"Unquestionably", ",", "the", "station", "."}));
}

// BERT's tokenizer leaves out marks, joiners and soft hyphens; a word is not cut there, and keeps them.
TEST(Words, GoOnBehindMarksThatTheTokenizerDrops) {
  const auto bert = text::load_wordpiece(test::test_data("tokenizers/minilm_wordpiece_vocab.txt"));
  for (const Strings& expected :
       {Strings{"नमस्ते", "दुनिया"}, Strings{"مُحَمَّد"}, Strings{"שָׁלוֹם", "!"}, Strings{"می\u200cخواهم"},
        Strings{"cafe\u0301s", "nai\u0308ve"}, Strings{"co\u00adoperate", "twice"}}) {
    std::string text;
    for (const std::string& word : expected) text += (text.empty() || word == "!" ? "" : " ") + word;
    EXPECT_EQ(words(*bert, text), expected);
  }
  EXPECT_EQ(words(*bert, "dog\u200d ran foo\u00ad bar"), (Strings{"dog", "ran", "foo", "bar"})) << "nothing is joined";
  EXPECT_EQ(words(*bert, "a\u200b.\u0301b"), (Strings{"a", ".\u0301", "b"})) << "punctuation ends a word";
}

TEST(Words, OfIdsThatNoTextGives) {
  const auto tokenizer = text::Tokenizer::load(fs::path(HEED_SOURCE_DIR) / "demo/en-zh", text::Side::source);
  std::vector<int32_t> ids;  // each letter alone
  for (const char* const piece : {"▁", "t", "h", "e", "▁", "c", "a", "t"}) ids.push_back(*tokenizer->id_of(piece));
  const inspect::Words found = pipelines::words_of(*tokenizer, ids);
  ASSERT_EQ(found.of_token.size(), ids.size());
  EXPECT_EQ(found.of_token[1], found.of_token[3]);
  EXPECT_EQ(found.of_token[5], found.of_token[7]);
  EXPECT_NE(found.of_token[3], found.of_token[5]);
  EXPECT_EQ(found.texts[static_cast<size_t>(found.of_token[1])], "the");
  EXPECT_EQ(found.texts[static_cast<size_t>(found.of_token[5])], "cat");
}

// Of byte-level vocabularies a picture has the characters, where a token has whole ones.
TEST(Labels, OfBytesAreCharacters) {
  const fs::path data = test::test_data("tokenizers");
  const auto expect = [&](const char* name, const char* piece, const char* label) {
    const auto tokenizer = text::load_tokenizer_json(data / (std::string(name) + ".json"));
    EXPECT_EQ(pipelines::label_of(*tokenizer, tokenizer->id_of(piece).value()), label) << name;
  };
  for (const char* const name : {"roberta", "llama3"}) {
    expect(name, "Ġthe", "▁the");
    expect(name, "Ġ.", "▁.");
    expect(name, "Ġ", "▁");
    expect(name, "Ċ", "\n");
    expect(name, "the", "the");
    expect(name, "Ã", "Ã");  // half a character
    expect(name, "é", "é");  // the byte 0xe9
  }
  const auto gpt2 =
      text::load_byte_level_bpe(data / "gpt2_vocab.json", data / "gpt2_merges.txt", {.add_prefix_space = false});
  for (const auto& [piece, label] :
       std::vector<std::pair<const char*, const char*>>{{"Ã©", "é"}, {"ĠâĢĶ", "▁—"}, {"ÃĤ", "Â"}, {"ĠÃ", "ĠÃ"}})
    EXPECT_EQ(pipelines::label_of(*gpt2, gpt2->id_of(piece).value()), label);
  expect("roberta", "<s>", "<s>");
  expect("llama", "▁the", "▁the");
  expect("bert", "##s", "##s");
}

// Every record of a pipeline knows its words, with those that stand around the text.
TEST(Words, OfRecords) {
  const auto check = [](const inspect::Record& record, const Strings& source, size_t target) {
    const inspect::Record words = inspect::by_words(record);
    EXPECT_EQ(words.source_tokens, source);
    EXPECT_EQ(words.target_tokens.size(), target);
    EXPECT_EQ(words.output_tokens.size(), target);
    for (const auto* maps : {&words.encoder, &words.decoder, &words.cross}) {
      for (const inspect::Map& map : *maps) {
        double sum = 0;
        for (int64_t i = 0; i < map.weights.numel(); ++i) sum += static_cast<double>(map.weights.data<float>()[i]);
        EXPECT_NEAR(sum, static_cast<double>(map.weights.size(0) * map.weights.size(1)), 1e-3);
      }
    }
  };
  const Translator demo = Translator::load(fs::path(HEED_SOURCE_DIR) / "demo/en-zh");
  check(demo.record("Where is the station?", {.target = "车站"}), {"Where", "is", "the", "station", "?", "</s>"}, 2);
  const test::Scratch scratch;
  const Encoder bert = Encoder::load(test::with_words(scratch, "bert-masked"));
  check(bert.record("the citys"), {"[CLS]", "the", "citys", "[SEP]"}, 0);
  const test::Folder folder;
  const Generator own = Generator::load(test::make_model(folder.path(), models::Architecture::decoder_only));
  check(own.record("车站"), {}, 2);
}

}  // namespace
}  // namespace heed
