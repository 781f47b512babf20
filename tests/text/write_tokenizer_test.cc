// heed's own tokenizers in the files of Hugging Face: read back as such, they cut texts and join tokens as before. The
// reader of those files shares no code with SentencePiece, and gives the ids of PyPI's `tokenizers`.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/data.h"
#include "base/scratch.h"
#include "heed/text.h"
#include "text/huggingface/write_tokenizer.h"
#include "text/protobuf.h"

namespace heed::text {
namespace {

using huggingface::write_tokenizer;
using huggingface::WrittenTokenizer;
using test::contents_of;
using test::Scratch;
using Strings = std::vector<std::string>;

Strings lines() { return read_lines(test::test_data("text/the-verdict.txt")); }

// Spaces and SentencePiece's mark for them in all places, characters that no model knows, and joins of pieces.
Strings awkward_texts(size_t count) {
  constexpr const char* kParts[] = {"a",       "e",      "the",      " ",    "  ",   "   ", "\t",     "\n",
                                    "\u2581",  "é",      "e\u0301",  "ﬁ",    "Ａ",   "中",  "，",     "!",
                                    "😀",       "ZZ",     "@@",       "x@@ ", "aaaa", "11",  "\u3000", "2",
                                    "\u00a0x", "\ufeff", "\u200b\"", "\\",   "ß",    " ."};
  Strings texts = {
      "", " ", "\u2581", "\u2581\u2581", " \u2581 a", "\n  a\n  b  \n", "a" + std::string(20'000, ' ') + "b"};
  std::mt19937 random(7);
  for (size_t i = 0; i < count; ++i) {
    std::string text;
    for (size_t parts = random() % 14; parts > 0; --parts) text += kParts[random() % std::size(kParts)];
    texts.push_back(text);
  }
  return texts;
}

void expect_same_after_writing(const Tokenizer& tokenizer, const WrittenTokenizer& written = {}) {
  const Scratch folder;
  tokenizer.save(folder.path(), Side::source);
  ASSERT_TRUE(write_tokenizer(tokenizer, folder.path(), Side::source, written));
  const auto read = load_tokenizer_json(folder / "tokenizer.json");
  EXPECT_EQ(read->vocabulary(), tokenizer.vocabulary() + (written.mask.empty() ? 0 : 1));
  const SpecialIds special = tokenizer.special(), special_read = read->special();
  EXPECT_EQ(special_read.padding, special.padding);
  EXPECT_EQ(special_read.begin, special.begin);
  EXPECT_EQ(special_read.end, special.end);
  EXPECT_EQ(special_read.unknown, special.unknown);
  Strings texts = awkward_texts(2000);
  for (const std::string& line : lines()) texts.push_back(line);
  for (const std::string& text : texts) {
    const Ids ids = tokenizer.encode(text);
    ASSERT_EQ(read->encode(text), ids) << '"' << text << '"';
    EXPECT_EQ(read->decode(ids), tokenizer.decode(ids)) << '"' << text << '"';
  }
}

TEST(WriteTokenizer, SentencePieceCutsAsBefore) {
  for (const bool bpe : {false, true}) {
    SCOPED_TRACE(bpe ? "bpe" : "unigram");
    const auto tokenizer = train_sentencepiece(lines(), {.vocabulary = 700, .bpe = bpe, .nearest = true});
    expect_same_after_writing(*tokenizer);
  }
}

// A field of a protocol buffer, behind others: of lists one more, of numbers what counts.
std::string field(int number, const std::string& bytes) {
  std::string size;
  size_t rest = bytes.size();
  for (; rest >= 128; rest /= 128) size += static_cast<char>(rest % 128 + 128);
  return static_cast<char>(number * 8 + 2) + size + static_cast<char>(rest) + bytes;
}

std::string piece_field(const std::string& spelling, char type) {
  return field(1, field(1, spelling) + "\x15" + std::string(4, '\0') + "\x18" + type);
}

constexpr char kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;

std::string trained_model(bool bpe) {
  const Scratch scratch;
  train_sentencepiece(lines(), {.vocabulary = 700, .bpe = bpe, .nearest = true})->save(scratch.path(), Side::source);
  return contents_of(scratch / "source.model");
}

// Pieces for bytes, behind the others: no character is unknown.
std::string with_bytes(std::string model) {
  for (size_t byte = 0; byte < 256; ++byte) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    model += piece_field(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">", kByte);
  }
  return model + "\x12\x03\x98\x02\x01";  // trainer_spec { byte_fallback: true }
}

TEST(WriteTokenizer, BytesStandForWhatHasNoPiece) {
  const Scratch scratch;
  const auto tokenizer = load_sentencepiece(scratch.file("bytes.model", with_bytes(trained_model(true))));
  ASSERT_NE(tokenizer->encode("中"), Ids{tokenizer->special().unknown});
  ASSERT_GT(tokenizer->encode("a<0x0A>").size(), 3u);
  expect_same_after_writing(*tokenizer);
}

TEST(WriteTokenizer, VocabulariesCutAsBefore) {
  expect_same_after_writing(*train_characters(lines()));
  Strings cut = lines();
  cut.emplace_back("lo@@ w@@ er new@@ est x@@");
  expect_same_after_writing(*train_pieces(cut));
}

// Models of others, whose character maps normalise texts.
TEST(WriteTokenizer, KeepsTheCharacterMapOfAModel) {
  for (const std::string name : {"sp_test_model", "sp_test_ja_model"}) {
    SCOPED_TRACE(name);
    const auto tokenizer = load_sentencepiece(test::test_data("tokenizers/" + name + ".model"));
    const Scratch folder;
    tokenizer->save(folder.path(), Side::source);
    ASSERT_TRUE(write_tokenizer(*tokenizer, folder.path(), Side::source, {}));
    const auto read = load_tokenizer_json(folder / "tokenizer.json");
    const auto reference = nlohmann::json::parse(contents_of(test::test_data("tokenizers/reference_ids.json")));
    for (const auto& entry : reference["cases"]) {
      const auto text = entry["text"].get<std::string>();
      EXPECT_EQ(read->encode(text), entry[name].get<Ids>()) << text;
    }
  }
}

TEST(WriteTokenizer, PutsTheSameTokensAroundATextAndKnowsTheMask) {
  const auto tokenizer = train_characters(lines());
  const SpecialIds special = tokenizer->special();
  const Ids plain = tokenizer->encode("the");
  for (const Around around : {Around::both, Around::end, Around::none}) {
    const Scratch folder;
    tokenizer->save(folder.path(), Side::source);
    ASSERT_TRUE(
        write_tokenizer(*tokenizer, folder.path(), Side::source, {.around = around, .longest = 100, .mask = "[MASK]"}));
    Ids expected = plain;
    if (around == Around::both) expected.insert(expected.begin(), special.begin);
    if (around != Around::none) expected.push_back(special.end);
    const auto read = load_tokenizer_json(folder / "tokenizer.json");
    EXPECT_EQ(read->tokens("the").ids, expected);
    EXPECT_EQ(read->id_of("[MASK]"), tokenizer->vocabulary());
    EXPECT_EQ(read->tokens("t[MASK]e", {.add_special = false, .parse_special = true}).ids,
              (Ids{plain[0], static_cast<int32_t>(tokenizer->vocabulary()), plain[2]}));
    const auto settings = nlohmann::json::parse(contents_of(folder / "tokenizer_config.json"));
    EXPECT_EQ(settings["model_max_length"], 100);
    EXPECT_EQ(settings["mask_token"], "[MASK]");
    EXPECT_EQ(settings["pad_token"], tokenizer->piece(special.padding));
    EXPECT_EQ(settings.contains("sep_token"), around == Around::both);
  }
}

void expect_no_form(const Tokenizer& tokenizer, const WrittenTokenizer& written = {}) {
  const Scratch folder;
  tokenizer.save(folder.path(), Side::source);
  EXPECT_FALSE(write_tokenizer(tokenizer, folder.path(), Side::source, written));
  EXPECT_FALSE(std::filesystem::exists(folder / "tokenizer.json"));
  EXPECT_FALSE(std::filesystem::exists(folder / "tokenizer_config.json"));
}

// The normalizer of a model that has a map of characters, as its denormalizer.
std::string map_for_decoder() {
  const std::string model = contents_of(test::test_data("tokenizers/sp_test_model.model"));
  files::Reader reader(model, "model", "test");
  while (reader.remaining() > 0) {
    const ProtobufField found = next_field(reader);
    if (found.number == 3) return field(5, std::string(found.bytes));
  }
  return {};
}

TEST(WriteTokenizer, WritesNothingWhereAModelHasNoForm) {
  const std::string unigram = trained_model(false), bpe = trained_model(true);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"user-defined", unigram + piece_field("qqqq", kUserDefined)},
      {"unused", unigram + piece_field("qqqq", kUnused)},
      {"control", unigram + piece_field("<ctl>", kControl)},
      {"two marks", unigram + piece_field("\u2581\u2581a", kNormal)},
      {"a space", bpe + piece_field("a b", kNormal)},
      {"not UTF-8", unigram + piece_field("\xff", kNormal)},
      {"bytes", with_bytes(unigram)},
      {"equal scores", bpe + piece_field("eeee", kNormal) + piece_field("tttt", kNormal)},
      {"a character without a piece", bpe + piece_field("中e", kNormal)},
      {"words", unigram + "\x12\x02\x18\x03"},                         // trainer_spec { model_type: WORD }
      {"spaces at the ends", unigram + "\x12\x03\xc0\x01\x01"},        // { treat_whitespace_as_suffix: true }
      {"plain spaces", unigram + std::string("\x1a\x02\x28\x00", 4)},  // normalizer_spec { escape_whitespaces: false }
      {"a map for decode()", unigram + map_for_decoder()},
  };
  for (const auto& [name, model] : cases) {
    SCOPED_TRACE(name);
    const Scratch folder;
    expect_no_form(*load_sentencepiece(folder.file("m.model", model)));
  }
}

TEST(WriteTokenizer, WritesNothingWhereAVocabularyHasNoForm) {
  expect_no_form(*vocabulary_tokenizer({"<pad>", "<s>", "</s>", "<unk>", "a", "<s>"}, SpecialIds{}, false));
  expect_no_form(*vocabulary_tokenizer({"<pad>", "at", "</s>", "<unk>", "a"}, SpecialIds{}, false));
  expect_no_form(*vocabulary_tokenizer({"<pad>", "<s>", "</s>", "<unk>", "\ncat"}, SpecialIds{}, false));
  const auto mask = vocabulary_tokenizer({"<pad>", "<s>", "</s>", "<unk>", "[MASK]"}, SpecialIds{}, false);
  expect_no_form(*mask, {.mask = "[MASK]"});
  expect_same_after_writing(*mask);
  const Scratch folder;
  EXPECT_FALSE(
      write_tokenizer(*load_tokenizer_json(test::test_data("tokenizers/bert.json")), folder.path(), Side::source, {}));
}

}  // namespace
}  // namespace heed::text
