// Tokenizers of Hugging Face against what PyPI's `tokenizers` makes of the same texts (tools/golden_tokenizers.py).
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/data.h"
#include "base/scratch.h"
#include "heed/text.h"

namespace heed::text {
namespace {

using nlohmann::json;
using test::contents_of;
using test::expect_error;
using test::Scratch;

const json& golden() {
  static const json document = json::parse(contents_of(test::test_data("tokenizers/golden.json")));
  return document;
}

// Spans in characters, as golden.json has them.
std::vector<int64_t> in_characters(const std::string& text, const std::vector<Span>& spans) {
  std::vector<int64_t> before(text.size() + 1);  // characters that begin before a byte
  for (size_t i = 0; i < text.size(); ++i) before[i + 1] = before[i] + ((text[i] & 0xc0) != 0x80 ? 1 : 0);
  std::vector<int64_t> made;
  for (const Span& span : spans) {
    for (const int64_t byte : {span.begin, span.end}) made.push_back(before[static_cast<size_t>(byte)]);
  }
  return made;
}

class Golden : public testing::TestWithParam<const char*> {
 protected:
  std::string name_ = GetParam();
  std::shared_ptr<const Tokenizer> tokenizer_ = load_tokenizer_json(test::test_data("tokenizers/" + name_ + ".json"));
};

TEST_P(Golden, IdsSpansAndTextAreEqual) {
  const auto& texts = golden()["texts"];
  const auto& results = golden()["results"][name_];
  ASSERT_EQ(results.size(), 2 * texts.size() + 1);
  for (size_t i = 0; i < 2 * texts.size(); ++i) {
    const auto text = texts[i % texts.size()].get<std::string>();
    const Tokens tokens = tokenizer_->tokens(text, {.parse_special = i < texts.size()});
    if (i >= texts.size() && tokenizer_->kind() == "unigram" && text.find("</s>") != std::string::npos) {
      // `tokenizers` finds the marks among the pieces of a unigram model, even where it is asked to leave them as text.
      EXPECT_EQ(tokenizer_->decode(tokens.ids), text) << name_;
      continue;
    }
    EXPECT_EQ(tokens.ids, results[i][0].get<Ids>()) << name_ << ": " << text;
    EXPECT_EQ(in_characters(text, tokens.spans), results[i][1].get<std::vector<int64_t>>()) << name_ << ": " << text;
    EXPECT_EQ(tokenizer_->decode(tokens.ids), results[i][2].get<std::string>()) << name_ << ": " << text;
    EXPECT_EQ(tokens.segments.size(), tokens.ids.size());
    EXPECT_EQ(tokens.special.size(), tokens.ids.size());
    Ids inner;
    const Tokens plain = tokenizer_->tokens(text);
    for (size_t t = 0; t < plain.ids.size(); ++t) {
      if (plain.special[t] == 0) inner.push_back(plain.ids[t]);
    }
    EXPECT_EQ(tokenizer_->encode(text), inner) << name_ << ": " << text;
  }
}

TEST_P(Golden, PairsAreEqual) {
  const auto& pair = golden()["results"][name_].back();
  const Tokens tokens = tokenizer_->tokens("the first one", {.pair = "and the second one"});
  EXPECT_EQ(tokens.ids, pair[0].get<Ids>());
  EXPECT_EQ(tokens.segments, pair[1].get<Ids>());
  EXPECT_EQ(tokens.special, pair[2].get<std::vector<uint8_t>>());
}

TEST_P(Golden, TheirFilesAreWrittenBack) {
  const Scratch folder;
  const std::string bytes = contents_of(test::test_data("tokenizers/" + name_ + ".json"));
  (void)folder.file("tokenizer.json", bytes);
  const std::string configuration = R"({"pad_token": {"content": "<pad>"}, "eos_token": "</s>"})";
  (void)folder.file("tokenizer_config.json", configuration);
  const Scratch copy;
  (void)copy.file("source.vocab", "of another tokenizer");
  Tokenizer::load(folder.path(), Side::source)->save(copy.path(), Side::source);
  EXPECT_EQ(contents_of(copy / "tokenizer.json"), bytes);
  EXPECT_EQ(contents_of(copy / "tokenizer_config.json"), configuration);
  EXPECT_EQ(copy.count(), 2);
  const auto again = Tokenizer::load(copy.path(), Side::target);
  EXPECT_EQ(again->encode("the house"), tokenizer_->encode("the house"));
}

TEST_P(Golden, TimeIsLinear) {
  // Twenty texts that are awkward for an algorithm that is not linear: half a megabyte would take it an hour.
  for (const std::string unit : {" ",
                                 "a",
                                 "\n",
                                 "\u0301",
                                 "a\u0301\u0323",
                                 "\u4f60",
                                 "\U0001f600",
                                 "\U0001f468\u200d",
                                 "\u1100\u1161\u11a8",
                                 "house ",
                                 "1",
                                 "!",
                                 "'",
                                 "[CLS",
                                 "<|",
                                 "\u2581",
                                 " \n",
                                 "\u200b",
                                 "ab",
                                 "\u0001"}) {
    std::string text;
    while (text.size() < 1 << 19) text += unit;
    const auto begin = std::chrono::steady_clock::now();
    const Tokens tokens = tokenizer_->tokens(text);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_LT(seconds, 10) << name_ << ": " << unit;
    EXPECT_LE(tokens.ids.size(), text.size() + 3) << name_ << ": " << unit;
  }
}

INSTANTIATE_TEST_SUITE_P(HuggingFace, Golden,
                         testing::Values("bert", "accents", "roberta", "llama3", "llama", "xlmr", "gemma", "affixes",
                                         "words"));

void expect_golden_ids(const Tokenizer& tokenizer, const char* key) {
  const auto reference = json::parse(contents_of(test::test_data("tokenizers/reference_ids.json")));
  for (const auto& entry : reference["cases"]) {
    const auto text = entry["text"].get<std::string>();
    EXPECT_EQ(tokenizer.tokens(text).ids, entry[key].get<Ids>()) << key << ": " << text;
  }
}

TEST(HuggingFace, GivesTheReferenceIdsOfVocabularies) {
  expect_golden_ids(*load_wordpiece(test::test_data("tokenizers/minilm_wordpiece_vocab.txt")),
                    "minilm_wordpiece_with_cls_sep");
  const auto gpt2 =
      load_byte_level_bpe(test::test_data("tokenizers/gpt2_vocab.json"), test::test_data("tokenizers/gpt2_merges.txt"));
  expect_golden_ids(*gpt2, "gpt2");
  const auto reference = json::parse(contents_of(test::test_data("tokenizers/reference_ids.json")));
  for (const auto& entry : reference["cases"]) {
    const auto text = entry["text"].get<std::string>();
    EXPECT_EQ(gpt2->decode(gpt2->encode(text)), text);
  }
  EXPECT_EQ(gpt2->special().end, 50256);
  EXPECT_EQ(gpt2->special().padding, -1);
  EXPECT_EQ(gpt2->vocabulary(), 50257);
}

TEST(HuggingFace, FindsSpecialIds) {
  const auto bert = load_wordpiece(test::test_data("tokenizers/minilm_wordpiece_vocab.txt"));
  EXPECT_EQ(bert->special().begin, 101);
  EXPECT_EQ(bert->special().end, 102);
  EXPECT_EQ(bert->special().padding, 0);
  EXPECT_EQ(bert->special().unknown, 100);
  EXPECT_EQ(bert->id_of("[MASK]"), 103);
  EXPECT_EQ(bert->id_of("[NONE]"), std::nullopt);
  EXPECT_EQ(bert->piece(103), "[MASK]");
  EXPECT_EQ(bert->kind(), "wordpiece");
  expect_error([&] { (void)bert->decode(Ids{30522}); }, "ids from 0 to 30521");
  expect_error([&] { (void)bert->tokens("a\xff"); }, "found byte 0xff at position 2");
}

TEST(HuggingFace, KeepsALimit) {
  const auto bert = load_wordpiece(test::test_data("tokenizers/minilm_wordpiece_vocab.txt"));
  const Tokens whole = bert->tokens("one two three", {.pair = "four five six seven"});
  EXPECT_EQ(whole.ids.size(), 10u);
  const Tokens cut = bert->tokens("one two three", {.pair = "four five six seven", .limit = 8});
  EXPECT_EQ(cut.ids.size(), 8u);
  EXPECT_EQ(cut.left_out, 2);
  EXPECT_EQ(bert->tokens("one two", {.limit = 3}).ids, (Ids{101, 2028, 102}));
  expect_error([&] { (void)bert->tokens("one", {.limit = 1}); }, "at least the 2 added tokens; found 1");
}

TEST(HuggingFace, RefusesWhatIsDamaged) {
  const Scratch folder;
  const json good = json::parse(contents_of(test::test_data("tokenizers/xlmr.json")));
  const auto refuses = [&](const char* pointer, const json& value, const std::string& message) {
    json bad = good;
    bad[json::json_pointer(pointer)] = value;
    (void)folder.file("tokenizer.json", bad.dump());
    expect_error([&] { (void)load_tokenizer_json(folder / "tokenizer.json"); }, message);
    expect_error([&] { (void)load_tokenizer_json(folder / "tokenizer.json"); }, "tokenizer.json");
  };
  refuses("/model", nullptr, "model: an object; found null");
  refuses("/model/type", "Other", "WordPiece, BPE, Unigram or WordLevel; found \"Other\"");
  refuses("/model/vocab", 3, "model.vocab: an array; found a whole number");
  refuses("/model/vocab/0", {"a"}, "a token and its score");
  refuses("/model/unk_id", 100000, "a whole number from 0 to");
  refuses("/normalizer/normalizers/0/type", "Other", "normalizer.normalizers[0].type: BertNormalizer, NFC");
  refuses("/normalizer/normalizers/0/precompiled_charsmap", "AAA", "base64 in groups of 4");
  refuses("/normalizer/normalizers/0/precompiled_charsmap", "AAAA", "a character map");
  refuses("/normalizer/normalizers/0/precompiled_charsmap", "////////", "with its trie inside");
  refuses("/normalizer/normalizers/1/pattern/Regex", "(", "a regular expression; found");
  refuses("/normalizer/normalizers/1/pattern/Regex", "[a&&b]", "intersections");
  refuses("/pre_tokenizer/type", "UnicodeScripts", "BertPreTokenizer, ByteLevel");
  refuses("/pre_tokenizer/replacement", "ab", "one character; found \"ab\"");
  refuses("/pre_tokenizer/prepend_scheme", "sometimes", "first, never or always");
  refuses("/post_processor/special_tokens/<s>/ids", {-1}, "ids; found something else");
  refuses("/post_processor/special_tokens/<s>/ids", {1000000}, "post_processor: ids below");
  refuses("/decoder/type", "CTC", "WordPiece, ByteLevel");
  refuses("/added_tokens/0/id", -1, "added_tokens[0].id: a whole number from 0");
  refuses("/added_tokens/0/id", 7, "the id of the vocabulary, 0; found 7");
  refuses("/added_tokens/0/special", "yes", "added_tokens[0].special: true or false; found a text");
  refuses("/truncation", {{"max_length", 5}, {"strategy", "Middle"}, {"stride", 0}}, "LongestFirst, OnlyFirst");
  refuses("/padding", {{"pad_id", -4}}, "padding.pad_id");
  refuses("/version", "2.0", "1.0; found \"2.0\"");
  json nested = {{"type", "NFC"}};
  for (int i = 0; i < 12; ++i) nested = {{"type", "Sequence"}, {"normalizers", {nested}}};
  refuses("/normalizer", nested, "sequences at most 8 deep");
  (void)folder.file("tokenizer.json", "[]");
  expect_error([&] { (void)load_tokenizer_json(folder / "tokenizer.json"); }, "an object; found an array");
}

// Each prefix of a file, and each file with a byte that is another one: an Error or a tokenizer.
// Ids of PyPI's `tokenizers`. (Its spans lie one character too far to the left then.)
TEST(HuggingFace, ACharacterThatIsDroppedFirstLeavesNoTrace) {
  const auto tokenizer = load_tokenizer_json(test::test_data("tokenizers/xlmr.json"));
  for (const std::string dropped : {"\x01", "\x01\x01"}) {
    const std::string text = dropped + "... 0";
    const Tokens tokens = tokenizer->tokens(text, {.add_special = false});
    EXPECT_EQ(tokens.ids, (Ids{4, 10, 10, 10, 4, 249}));
    EXPECT_EQ(tokens.ids, tokenizer->encode(text));
    EXPECT_EQ(tokens.spans.back().begin, std::ssize(text) - 1);
    EXPECT_EQ(tokens.spans.back().end, std::ssize(text));
  }
}

TEST(HuggingFace, SurvivesDamagedFiles) {
  const Scratch folder;
  for (const char* const name : {"bert", "llama3", "xlmr"}) {
    const std::string bytes = contents_of(test::test_data(std::string("tokenizers/") + name + ".json"));
    uint64_t state = 88172645463325252u;
    for (int i = 0; i < 150; ++i) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      std::string damaged = bytes;
      if (i % 3 == 0) {
        damaged.resize(state % damaged.size());
      } else {
        damaged[state % damaged.size()] = static_cast<char>(state >> 40);
      }
      (void)folder.file("tokenizer.json", damaged);
      try {
        const auto tokenizer = load_tokenizer_json(folder / "tokenizer.json");
        for (const auto& text : golden()["texts"]) {
          (void)tokenizer->decode(tokenizer->tokens(text.get<std::string>(), {.parse_special = true}).ids);
        }
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).size(), 0u);
      }
    }
  }
}

TEST(HuggingFace, ReadsMarianAndXlmRoberta) {
  const Scratch folder;
  const std::string model = contents_of(test::test_data("tokenizers/sp_test_model.model"));
  const auto plain = load_sentencepiece(test::test_data("tokenizers/sp_test_model.model"));
  (void)folder.file("source.spm", model);
  (void)folder.file("target.spm", model);
  json vocabulary = {{"</s>", 0}, {"<unk>", 1}, {">>fra<<", 2}};
  for (int32_t id = 3; id < plain->vocabulary(); ++id) vocabulary[plain->piece(id)] = id;
  vocabulary["<pad>"] = plain->vocabulary();
  vocabulary["\u2581zut"] = plain->vocabulary() + 1;  // a piece of the other language's model
  vocabulary["\r"] = plain->vocabulary() + 2;
  (void)folder.file("vocab.json", vocabulary.dump());
  const auto marian = Tokenizer::load(folder.path(), Side::source);
  Ids expected = plain->encode("I saw a girl");
  expected.push_back(0);
  EXPECT_EQ(marian->tokens("I saw a girl").ids, expected);
  expected.insert(expected.begin(), 2);
  EXPECT_EQ(marian->tokens(">>fra<<I saw a girl").ids, expected);
  expected.front() = 1;  // a code that nobody knows is the unknown token
  EXPECT_EQ(marian->tokens(">>xyz<<I saw a girl").ids, expected);
  expected.front() = 2;
  // The code may be behind a special token, whose space is not the text's.
  Ids behind = expected;
  behind.insert(behind.begin(), 0);
  EXPECT_EQ(marian->tokens("</s>>>fra<<I saw a girl", {.parse_special = true}).ids, behind);
  EXPECT_EQ(marian->tokens(">>fra<<").ids, (Ids{2, 0}));
  EXPECT_EQ(marian->decode(expected), plain->decode(plain->encode("I saw a girl")).insert(0, ">>fra<< "));
  const auto zut = static_cast<int32_t>(plain->vocabulary()) + 1;
  expected.insert(expected.end() - 1, {zut, zut});
  EXPECT_EQ(marian->decode(expected), ">>fra<< I saw a girl zut zut");
  EXPECT_EQ(marian->decode(Ids{zut}), "zut");
  EXPECT_EQ(marian->decode(Ids{zut + 1, zut, zut + 1, zut, zut + 1}), "zut\r zut");  // as Python's strip() does
  EXPECT_EQ(marian->decode(Ids{zut + 1}), "");
  EXPECT_EQ(marian->decode(Ids{}), "");
  EXPECT_EQ(marian->special().padding, plain->vocabulary());
  EXPECT_EQ(marian->special().begin, -1);

  const Scratch other;
  (void)other.file("sentencepiece.bpe.model", model);
  const auto roberta = Tokenizer::load(other.path(), Side::source);
  Ids moved = {0};
  for (const int32_t id : plain->encode("I saw a girl")) moved.push_back(id + 1);
  moved.push_back(2);
  EXPECT_EQ(roberta->tokens("I saw a girl").ids, moved);
  EXPECT_EQ(roberta->decode(moved), "I saw a girl");
  EXPECT_EQ(roberta->id_of("<mask>"), plain->vocabulary() + 1);
}

TEST(HuggingFace, T5HasTokensBehindItsPieces) {
  const Scratch folder;
  (void)folder.file("spiece.model", contents_of(test::test_data("tokenizers/sp_test_model.model")));
  (void)folder.file("config.json", R"({"model_type": "pegasus"})");  // whose ids are others
  expect_error([&] { (void)Tokenizer::load(folder.path(), Side::source); },
               "\"tokenizer_class\", T5Tokenizer, for spiece.model of a model that is no T5; found none");
  (void)folder.file("config.json", R"({"model_type": "mt5"})");
  EXPECT_EQ(Tokenizer::load(folder.path(), Side::source)->id_of("<extra_id_0>"), 1099);
  std::filesystem::remove(folder / "config.json");
  (void)folder.file("tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer", "extra_ids": 3})");
  (void)folder.file("added_tokens.json", R"({"<hl>": 1004, "<sep>": 1003})");
  const auto t5 = Tokenizer::load(folder.path(), Side::source);
  EXPECT_EQ(t5->vocabulary(), 1005);
  EXPECT_EQ(t5->id_of("<extra_id_0>"), 1002);  // the last one, as in transformers
  EXPECT_EQ(t5->id_of("<extra_id_2>"), 1000);
  const Ids girl = t5->encode("girl");
  Ids expected = girl;
  expected.push_back(1004);
  expected.insert(expected.end(), girl.begin(), girl.end());
  EXPECT_EQ(t5->encode("girl <hl> girl"), expected);
  EXPECT_EQ(t5->decode(expected), "girl <hl> girl");
  expected[girl.size()] = 1002;
  EXPECT_NE(t5->encode("girl<extra_id_0>girl"), expected);
  const TokensOptions parsed{.add_special = false, .parse_special = true};
  EXPECT_EQ(t5->tokens("girl<extra_id_0>girl", parsed).ids, expected);

  const auto load = [&](const char* configuration) {
    (void)folder.file("tokenizer_config.json", configuration);
    return Tokenizer::load(folder.path(), Side::source);
  };
  std::filesystem::remove(folder / "added_tokens.json");
  EXPECT_EQ(load("{}")->id_of("<extra_id_0>"), 1099);  // 100 of them, where nothing says otherwise
  EXPECT_EQ(load(R"({"extra_ids": 0})")->vocabulary(), 1000);
  EXPECT_EQ(load(R"({"additional_special_tokens": ["<extra_id_0>", "<extra_id_1>"]})")->vocabulary(), 1002);
  (void)folder.file("config.json", R"({"model_type": "t5", "vocab_size": 1050})");
  EXPECT_EQ(load("{}")->vocabulary(), 1000);  // the model has no rows for them
  const auto newer = load(R"({"extra_ids": 3, "legacy": false})");
  EXPECT_EQ(newer->encode("girl"), girl);
  expect_error([&] { (void)newer->tokens("girl", parsed); }, "because \"legacy\" is false");
  (void)folder.file("added_tokens.json", R"({"<hl>": 1003})");
  expect_error([&] { (void)load(R"({"extra_ids": 3, "legacy": false})"); }, "\"legacy\": true where tokens are added");
}

// transformers puts special tokens that the files only name behind the vocabulary.
TEST(HuggingFace, NamesSpecialTokensBesideASentencePieceModel) {
  const Scratch folder;
  (void)folder.file("sentencepiece.bpe.model", contents_of(test::test_data("tokenizers/sp_test_model.model")));
  (void)folder.file("tokenizer_config.json", R"({"tokenizer_class": "XLMRobertaTokenizer", "mask_token": "[M]"})");
  (void)folder.file("special_tokens_map.json", R"({"additional_special_tokens": ["<hl>"]})");
  auto roberta = Tokenizer::load(folder.path(), Side::source);
  EXPECT_EQ(roberta->id_of("[M]"), 1002);
  EXPECT_EQ(roberta->id_of("<hl>"), 1003);
  const Tokens tokens = roberta->tokens("girl [M] <hl>", {.parse_special = true});
  EXPECT_EQ(tokens.ids, (Ids{0, 940, 1002, 1003, 2}));
  EXPECT_EQ(tokens.spans[2].begin, 4);  // a mask takes the space before it
  (void)folder.file("config.json", R"({"model_type": "xlm-roberta", "vocab_size": 1002})");
  roberta = Tokenizer::load(folder.path(), Side::source);
  EXPECT_EQ(roberta->id_of("[M]"), std::nullopt);  // the model has no row for it
}

// A folder that holds a SentencePiece model alone, and what transformers 5.23 makes of it.
class SpmFolder : public Scratch {
 public:
  explicit SpmFolder(const char* tokenizer_class, const char* source_language = nullptr) {
    (void)file("sentencepiece.bpe.model", contents_of(test::test_data("tokenizers/sp_test_model.model")));
    json configuration = {{"tokenizer_class", tokenizer_class}};
    configuration["src_lang"] = source_language == nullptr ? json() : json(source_language);
    (void)file("tokenizer_config.json", configuration.dump());
  }
  [[nodiscard]] std::shared_ptr<const Tokenizer> load() const { return Tokenizer::load(path(), Side::source); }
};

TEST(HuggingFace, ReadsM2M100WithoutATokenizerJson) {
  const SpmFolder folder("M2M100Tokenizer", "fr");
  const auto plain = load_sentencepiece(test::test_data("tokenizers/sp_test_model.model"));
  json vocabulary = {{"<s>", 0}, {"<pad>", 1}, {"</s>", 2}, {"<unk>", 3}};
  for (int32_t id = 3; id < plain->vocabulary(); ++id) vocabulary[plain->piece(id)] = id + 1;
  (void)folder.file("vocab.json", vocabulary.dump());
  const auto tokenizer = folder.load();
  EXPECT_EQ(tokenizer->tokens("I saw a girl").ids, (Ids{1025, 10, 460, 12, 940, 2}));
  EXPECT_EQ(tokenizer->tokens("").ids, (Ids{1025, 2}));
  EXPECT_EQ(tokenizer->tokens("girl <s>", {.parse_special = true}).ids, (Ids{1025, 940, 0, 2}));
  EXPECT_EQ(tokenizer->tokens("你好 girl").ids, (Ids{1025, 5, 3, 940, 2}));
  for (const bool parse_special : {false, true})  // a language that stands in the text is text
    EXPECT_EQ(tokenizer->tokens("  two   spaces __de__ x", {.parse_special = parse_special}).ids,
              (Ids{1025, 214, 274, 20, 136, 9, 5, 3, 18, 17, 3, 5, 298, 2}));
  // Where the files name the languages, they are tokens that a text may have.
  (void)folder.file("special_tokens_map.json", R"({"additional_special_tokens": ["__de__"]})");
  EXPECT_EQ(folder.load()->tokens("girl __de__", {.parse_special = true}).ids, (Ids{1025, 940, 1017, 2}));
  std::filesystem::remove(folder / "special_tokens_map.json");
  EXPECT_EQ(tokenizer->id_of("__af__"), 1001);
  EXPECT_EQ(tokenizer->id_of("__zu__"), 1100);
  EXPECT_EQ(tokenizer->vocabulary(), 1101);
  EXPECT_EQ(tokenizer->decode(Ids{1025, 10, 460, 12, 940, 2}), "I saw a girl");

  const Scratch saved;  // with everything that it needs
  tokenizer->save(saved.path(), Side::source);
  EXPECT_EQ(Tokenizer::load(saved.path(), Side::source)->tokens("I saw a girl").ids,
            tokenizer->tokens("I saw a girl").ids);
}

TEST(HuggingFace, ReadsMBartWithoutATokenizerJson) {
  const auto fifty = SpmFolder("MBart50Tokenizer", "de_DE").load();
  EXPECT_EQ(fifty->tokens("I saw a girl").ids, (Ids{1003, 10, 460, 12, 940, 2}));
  EXPECT_EQ(fifty->tokens("").ids, (Ids{1003, 2}));
  EXPECT_EQ(fifty->id_of("ar_AR"), 1001);
  EXPECT_EQ(fifty->id_of("sl_SI"), 1052);
  EXPECT_EQ(fifty->id_of("<mask>"), 1053);
  const auto first = SpmFolder("MBartTokenizerFast", "de_DE").load();
  EXPECT_EQ(first->tokens("I saw a girl").ids, (Ids{10, 460, 12, 940, 2, 1003}));
  EXPECT_EQ(first->tokens("").ids, (Ids{2, 1003}));
  EXPECT_EQ(first->id_of("zh_CN"), 1025);
  EXPECT_EQ(first->id_of("<mask>"), 1026);
  EXPECT_EQ(SpmFolder("MBart50Tokenizer").load()->tokens("").ids, (Ids{1004, 2}));  // en_XX
  EXPECT_EQ(fifty->decode(fifty->tokens("I saw a girl").ids), "I saw a girl");
}

TEST(HuggingFace, SentencePieceIsCutOnTheSideThatTheFolderNames) {
  for (const char* const name : {"XLMRobertaTokenizer", "MBartTokenizer", "MBart50Tokenizer"}) {
    SCOPED_TRACE(name);
    const SpmFolder folder(name);
    EXPECT_FALSE(folder.load()->cuts_left());
    for (const char* const side : {"left", "right"}) {
      const json configuration = {{"tokenizer_class", name}, {"truncation_side", side}};
      (void)folder.file("tokenizer_config.json", configuration.dump());
      EXPECT_EQ(folder.load()->cuts_left(), side == std::string("left"));
    }
  }
}

TEST(HuggingFace, RefusesSentencePieceOfOtherClasses) {
  expect_error([] { (void)SpmFolder("NllbTokenizer").load(); },
               "MBart50Tokenizer, XLMRobertaTokenizer); found \"NllbTokenizer\"");
  expect_error([] { (void)SpmFolder("MBart50Tokenizer", "xx_XX").load(); },
               "a \"src_lang\" that the model knows; found \"xx_XX\"");
  const SpmFolder t5("AlbertTokenizer");
  (void)t5.file("spiece.model", contents_of(t5 / "sentencepiece.bpe.model"));
  std::filesystem::remove(t5 / "sentencepiece.bpe.model");
  expect_error([&] { (void)t5.load(); }, "(T5Tokenizer); found \"AlbertTokenizer\"");
  EXPECT_EQ(SpmFolder("XLMRobertaTokenizer").load()->tokens("").ids, (Ids{0, 2}));
  const SpmFolder nameless("");
  EXPECT_EQ(nameless.load()->tokens("").ids, (Ids{0, 2}));
  (void)nameless.file("config.json", R"({"model_type": "mbart"})");
  expect_error([&] { (void)nameless.load(); }, "MBartTokenizer or MBart50Tokenizer, because their languages differ");
  (void)nameless.file("vocab.json", R"({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 5})");
  (void)nameless.file("config.json", R"({"model_type": "m2m_100"})");
  expect_error([&] { (void)nameless.load(); }, "because the languages come after it; found none for 3");
}

// As transformers 5.23 has it: its NllbTokenizer overwrites the file's template.
TEST(HuggingFace, NllbHasTheLanguageBeforeTheText) {
  const auto load = [](const json& configuration, const char* name = "eng_Latn", bool in_front = false) {
    const Scratch folder;
    const json special = [](const char* token, int id) {
      return json{{"id", token}, {"ids", {id}}, {"tokens", {token}}};
    }("</s>", 1);
    json tokenizer = {{"version", "1.0"},
                      {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
                      {"model",
                       {{"type", "WordLevel"},
                        {"vocab", {{"<unk>", 0}, {"</s>", 1}, {"eng_Latn", 2}, {"fra_Latn", 3}, {"word", 4}}},
                        {"unk_token", "<unk>"}}}};
    const int id = name == std::string("eng_Latn") ? 2 : 3;
    const json language = {{"id", name}, {"ids", {id}}, {"tokens", {name}}};
    json single = json::array({{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                               {{"SpecialToken", {{"id", "</s>"}, {"type_id", 0}}}},
                               {{"SpecialToken", {{"id", name}, {"type_id", 0}}}}});
    if (in_front) single = json::array({single[2], single[0], single[1]});
    tokenizer["post_processor"] = {{"type", "TemplateProcessing"},
                                   {"single", single},
                                   {"pair", single},
                                   {"special_tokens", {{"</s>", special}, {name, language}}}};
    (void)folder.file("tokenizer.json", tokenizer.dump());
    (void)folder.file("tokenizer_config.json", configuration.dump());
    return Tokenizer::load(folder.path(), Side::source)->tokens("word").ids;
  };
  EXPECT_EQ(load({{"tokenizer_class", "NllbTokenizer"}}), (Ids{2, 4, 1}));
  EXPECT_EQ(load({{"tokenizer_class", "NllbTokenizer"}}, "fra_Latn"), (Ids{2, 4, 1}));  // English, without "src_lang"
  EXPECT_EQ(load({{"tokenizer_class", "NllbTokenizerFast"}, {"src_lang", "fra_Latn"}}), (Ids{3, 4, 1}));
  EXPECT_EQ(load({{"tokenizer_class", "NllbTokenizer"}, {"legacy_behaviour", true}}), (Ids{4, 1, 2}));
  const json french = {{"tokenizer_class", "NllbTokenizer"}, {"legacy_behaviour", true}, {"src_lang", "fra_Latn"}};
  for (const bool in_front : {false, true}) EXPECT_EQ(load(french, "fra_Latn", in_front), (Ids{4, 1, 3}));
  EXPECT_EQ(load({{"tokenizer_class", "PreTrainedTokenizerFast"}}), (Ids{4, 1, 2}));
}

}  // namespace
}  // namespace heed::text
