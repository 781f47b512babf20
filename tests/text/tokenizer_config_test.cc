// What the files beside a vocabulary say: tokenizer_config.json, special_tokens_map.json, added_tokens.json and
// config.json. The ids are those of transformers 5.24.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/data.h"
#include "base/scratch.h"
#include "heed/text.h"

namespace heed::text {
namespace {

using nlohmann::json;
using test::expect_error;
using test::Scratch;

class TokenizerConfig : public testing::Test {
 protected:
  void write(const char* name, const json& contents) const { (void)folder_.file(name, contents.dump()); }
  void configure(const json& contents) const { write("tokenizer_config.json", contents); }
  void remove(const char* name) const { std::filesystem::remove(folder_ / name); }
  [[nodiscard]] std::shared_ptr<const Tokenizer> load() const { return Tokenizer::load(folder_.path(), Side::source); }
  [[nodiscard]] Ids ids(const char* text) const { return load()->tokens(text, {.parse_special = true}).ids; }
  [[nodiscard]] Ids ids_of_pair() const { return load()->tokens("a", {.pair = "b"}).ids; }
  Scratch folder_;
};

// vocab.txt

constexpr const char* kWords =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nhouse\nis\nhou\n##se\na\nb\nnew\n##word\n##s\n";  // 15

class WordPieceFolder : public TokenizerConfig {
 protected:
  WordPieceFolder() {
    (void)folder_.file("vocab.txt", kWords);
    write("config.json", {{"model_type", "bert"}});
    configure({{"tokenizer_class", "BertTokenizer"}});
  }
};

TEST_F(WordPieceFolder, FindsTheTokensOfAddedTokens) {
  write("added_tokens.json", {{"[NEW]", 15}, {"newWORD", 16}});
  EXPECT_EQ(ids("the [NEW] newword house"), (Ids{2, 5, 15, 16, 6, 3}));
  EXPECT_EQ(ids("newword xnewword NEWWORDs"), (Ids{2, 16, 1, 16, 16, 1, 3}));
  EXPECT_EQ(load()->tokens("newword").ids, (Ids{2, 16, 3}));  // it is not special
  EXPECT_EQ(load()->vocabulary(), 17);
  EXPECT_EQ(load()->id_of("newWORD"), 16);

  const Scratch saved;
  load()->save(saved.path(), Side::source);
  EXPECT_EQ(Tokenizer::load(saved.path(), Side::source)->tokens("newword").ids, (Ids{2, 16, 3}));
}

TEST_F(WordPieceFolder, FindsFurtherSpecialTokens) {
  configure({{"tokenizer_class", "BertTokenizer"}, {"additional_special_tokens", {"[E1]", "house"}}});
  EXPECT_EQ(ids("[E1] houses [e1]"), (Ids{2, 15, 6, 1, 1, 1, 1, 3}));
  EXPECT_EQ(load()->tokens("[E1]").ids, (Ids{2, 1, 1, 1, 3}));  // text, unless it is asked for
  configure({{"tokenizer_class", "BertTokenizer"},
             {"additional_special_tokens", {"[E1]"}},
             {"extra_special_tokens", {{{"content", "[E2]"}, {"lstrip", true}}}}});
  EXPECT_EQ(ids("[E2]"), (Ids{2, 15, 3}));
  configure({{"tokenizer_class", "BertTokenizer"}, {"foo_token", "[FOO]"}});
  EXPECT_EQ(ids("[FOO]"), (Ids{2, 15, 3}));
  configure({{"tokenizer_class", "BertTokenizer"}});
  write("special_tokens_map.json", {{"additional_special_tokens", {"[NEW]", "[E1]"}}});
  write("added_tokens.json", {{"[NEW]", 15}});
  EXPECT_EQ(ids("[E1] [NEW]"), (Ids{2, 16, 15, 3}));
  configure({{"additional_special_tokens", {1}}});
  remove("special_tokens_map.json");
  expect_error([&] { (void)load(); }, "additional_special_tokens: texts or objects; found another value");
}

TEST_F(WordPieceFolder, FindsTheTokensOfTheNewerFile) {
  configure({{"tokenizer_class", "BertTokenizer"},
             {"added_tokens_decoder",
              {{"15", {{"content", "[NEW]"}, {"special", true}}},
               {"16", {{"content", "newword"}, {"special", false}, {"normalized", true}}}}}});
  write("special_tokens_map.json", {{"additional_special_tokens", {"[E1]"}}});
  write("added_tokens.json", {{"zzz", 15}});
  EXPECT_EQ(ids("[E1] zzz [NEW] newword"), (Ids{2, 1, 1, 1, 1, 15, 16, 3}));
  configure({{"added_tokens_decoder", {{"x", {{"content", "[NEW]"}}}}}});
  expect_error([&] { (void)load(); }, "added_tokens_decoder: ids as keys; found \"x\"");
}

TEST_F(WordPieceFolder, RefusesIdsThatDoNotFollowTheVocabulary) {
  write("added_tokens.json", {{"[NEW]", 20}});
  expect_error([&] { (void)load(); }, "the id 15 for \"[NEW]\", the next one behind the vocabulary; found 20");
  write("added_tokens.json", {{"house", 15}});
  expect_error([&] { (void)load(); }, "the id 6 for \"house\", as in the vocabulary; found 15");
}

TEST_F(WordPieceFolder, TakesTheNamesOfItsSpecialTokens) {
  configure({{"tokenizer_class", "BertTokenizer"}, {"cls_token", "the"}, {"sep_token", "is"}, {"unk_token", "[MASK]"}});
  EXPECT_EQ(ids("zz house"), (Ids{5, 4, 6, 7}));
  EXPECT_EQ(ids_of_pair(), (Ids{5, 10, 7, 11, 7}));
  EXPECT_EQ(load()->special().unknown, 4);
  configure({{"tokenizer_class", "BertTokenizer"}, {"cls_token", "is"}});
  write("special_tokens_map.json", {{"cls_token", {{"content", "the"}}}});
  EXPECT_EQ(ids("house"), (Ids{5, 6, 3}));
  // Beside added_tokens_decoder nothing reads the older file.
  configure({{"tokenizer_class", "BertTokenizer"}, {"added_tokens_decoder", {{"4", {{"content", "[MASK]"}}}}}});
  EXPECT_EQ(ids("house"), (Ids{2, 6, 3}));
  configure({{"tokenizer_class", "BertTokenizer"}, {"unk_token", "none"}});
  expect_error([&] { (void)load(); }, "none");
}

TEST_F(WordPieceFolder, CountsASpecialTokenThatTheVocabularyLacks) {
  std::string words = kWords;
  words.replace(words.find("[MASK]"), 6, "[XXXX]");
  (void)folder_.file("vocab.txt", words);
  EXPECT_EQ(load()->vocabulary(), 15);
  configure({{"tokenizer_class", "BertTokenizer"}, {"additional_special_tokens", {"[E1]"}}});
  EXPECT_EQ(ids("[MASK] [E1]"), (Ids{2, 15, 16, 3}));
}

TEST_F(WordPieceFolder, RefusesOtherClasses) {
  for (const char* const name : {"BertJapaneseTokenizer", "HerbertTokenizerFast", "PreTrainedTokenizerFast"}) {
    configure({{"tokenizer_class", name}});
    expect_error([&] { (void)load(); }, "tokenizer_config.json\": a \"tokenizer_class\" that is known without");
    expect_error([&] { (void)load(); }, std::string("found \"") + name + "\"");
  }
  remove("tokenizer_config.json");
  write("config.json", {{"model_type", "bert"}, {"tokenizer_class", "BertJapaneseTokenizer"}});
  expect_error([&] { (void)load(); }, "config.json\": a \"tokenizer_class\"");
  write("config.json", {{"model_type", "roberta"}});
  expect_error([&] { (void)load(); }, "found \"RobertaTokenizer\"");
  for (const char* const name : {"BertTokenizerFast", "DistilBertTokenizer", "ElectraTokenizerFast"}) {
    configure({{"tokenizer_class", name}});
    EXPECT_EQ(ids("the"), (Ids{2, 5, 3})) << name;
  }
}

TEST_F(WordPieceFolder, ReadsMpnet) {
  (void)folder_.file("vocab.txt", "<s>\n<pad>\n</s>\n<unk>\n[UNK]\nthe\nhouse\nis\n<mask>\n");
  write("config.json", {{"model_type", "mpnet"}});
  for (const json& configuration : {json{{"tokenizer_class", "MPNetTokenizer"}}, json::object()}) {
    configure(configuration);
    EXPECT_EQ(ids("the zz house <mask>"), (Ids{0, 5, 4, 6, 8, 2}));
    EXPECT_EQ(ids("  the <mask>"), (Ids{0, 5, 8, 2}));
    EXPECT_EQ(ids_of_pair(), (Ids{0, 4, 2, 2, 4, 2}));
    EXPECT_EQ(load()->special().padding, 1);
  }
}

// vocab.json and merges.txt: 256 characters for bytes, "th", "the", "Ġthe", and the special tokens

class BpeFolder : public TokenizerConfig {
 protected:
  enum class Kind { roberta, gpt2 };
  void write_vocabulary(Kind kind) const {
    json vocabulary;
    const auto add = [&](const std::string& token) { vocabulary[token] = vocabulary.size(); };
    if (kind == Kind::roberta)
      for (const char* const token : {"<s>", "<pad>", "</s>", "<unk>"}) add(token);
    const auto add_character = [&](int code) {
      add(code < 128 ? std::string(1, static_cast<char>(code))
                     : std::string{static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))});
    };
    // Bytes that can be shown stand for themselves.
    const auto is_shown = [](int byte) { return (byte > 32 && byte < 127) || (byte > 160 && byte != 173); };
    for (int byte = 0; byte < 256; ++byte)
      if (is_shown(byte)) add_character(byte);
    for (int byte = 0, code = 256; byte < 256; ++byte)
      if (!is_shown(byte)) add_character(code++);
    for (const char* const token : {"th", "the", "Ġthe"}) add(token);
    add(kind == Kind::roberta ? "<mask>" : "<|endoftext|>");
    write("vocab.json", vocabulary);
    (void)folder_.file("merges.txt", "#version: 0.2\nt h\nth e\nĠ the\n");
  }
};

TEST_F(BpeFolder, FindsTheTokensOfAddedTokens) {
  write_vocabulary(Kind::roberta);
  configure({{"tokenizer_class", "RobertaTokenizer"}});
  write("added_tokens.json", {{"[N]", 264}, {"newword", 265}});
  const Ids tokens = ids("the the[N]newword");
  EXPECT_EQ(tokens, (Ids{0, 261, 262, 264, 265, 2}));
  EXPECT_EQ(load()->vocabulary(), 266);
}

// CodeT5: added_tokens.json has the ids, and another file what else is known of the tokens.
TEST_F(BpeFolder, TakesTheFlagsOfAddedTokensFromWhereTheyStand) {
  write_vocabulary(Kind::roberta);
  configure({{"tokenizer_class", "RobertaTokenizer"}});
  write("added_tokens.json", {{"[N]", 264}});
  EXPECT_EQ(ids("the [N]").size(), 5u);
  json token = {{"content", "[N]"}, {"lstrip", true}};
  for (const char* const flag : {"single_word", "rstrip", "normalized"}) token[flag] = false;
  write("special_tokens_map.json", {{"additional_special_tokens", json::array({token})}});
  EXPECT_EQ(ids("the [N]"), (Ids{0, 261, 264, 2}));  // it takes the space before it
}

TEST_F(BpeFolder, TakesTheNamesOfItsSpecialTokens) {
  write_vocabulary(Kind::roberta);
  configure({{"tokenizer_class", "RobertaTokenizer"}, {"cls_token", "th"}, {"sep_token", "Ġthe"}});
  const Ids pair = ids_of_pair();
  EXPECT_EQ(pair.front(), 260);
  EXPECT_EQ(pair, (Ids{260, pair[1], 262, 262, pair[4], 262}));
}

TEST_F(BpeFolder, PutsTokensAroundATextOfGpt2WhereItIsAsked) {
  write_vocabulary(Kind::gpt2);
  write("config.json", {{"model_type", "gpt2"}});
  EXPECT_EQ(ids("the the"), (Ids{257, 258}));
  configure({{"tokenizer_class", "GPT2Tokenizer"}, {"add_bos_token", true}});
  EXPECT_EQ(ids("the the"), (Ids{259, 257, 258}));
  configure({{"tokenizer_class", "GPT2Tokenizer"}, {"add_bos_token", true}, {"add_eos_token", true}});
  const Ids pair = ids_of_pair();
  EXPECT_EQ(pair, (Ids{259, pair[1], 259, 259, pair[4], 259}));
  configure({{"tokenizer_class", "GPT2Tokenizer"}, {"pad_token", "<pad>"}, {"additional_special_tokens", {"[N]"}}});
  EXPECT_EQ(ids("the[N]"), (Ids{257, 261}));
  EXPECT_EQ(load()->special().padding, 260);
}

// transformers makes a post-processor that trims spans for RoBERTa, unless it is told not to, and none for GPT-2.
TEST_F(BpeFolder, SaysWhetherSpansHaveTheSpaceBeforeAWord) {
  const auto second_span = [&] { return load()->tokens("the the").spans.at(ids("the").size() == 3 ? 2 : 1); };
  write_vocabulary(Kind::roberta);
  configure({{"tokenizer_class", "RobertaTokenizer"}});
  EXPECT_EQ(second_span(), (Span{4, 7}));
  configure({{"tokenizer_class", "RobertaTokenizer"}, {"trim_offsets", false}});
  EXPECT_EQ(second_span(), (Span{3, 7}));
  write_vocabulary(Kind::gpt2);
  configure({{"tokenizer_class", "GPT2Tokenizer"}});
  EXPECT_EQ(second_span(), (Span{3, 7}));
}

// ByT5 reads bytes, and has no file for them.
TEST_F(BpeFolder, NamesAClassWithoutFiles) {
  configure({{"tokenizer_class", "ByT5Tokenizer"}});
  expect_error([&] { (void)load(); }, "a \"tokenizer_class\" that is known without a tokenizer.json");
  expect_error([&] { (void)load(); }, "found \"ByT5Tokenizer\"");
}

// As in OPT's folders.
TEST_F(BpeFolder, TheClassDecidesWhatStandsAroundAText) {
  write_vocabulary(Kind::roberta);
  configure({{"tokenizer_class", "BartTokenizerFast"}});
  EXPECT_EQ(ids("the"), (Ids{0, 261, 2}));
  configure({{"tokenizer_class", "GPT2Tokenizer"},
             {"bos_token", "</s>"},
             {"eos_token", "</s>"},
             {"unk_token", "</s>"},
             {"pad_token", "<pad>"},
             {"add_bos_token", true}});
  EXPECT_EQ(ids("the the"), (Ids{2, 261, 262}));
  EXPECT_EQ(load()->vocabulary(), 264);
}

TEST_F(BpeFolder, RefusesOtherClasses) {
  write_vocabulary(Kind::roberta);
  configure({{"tokenizer_class", "HerbertTokenizer"}});
  expect_error([&] { (void)load(); }, "(BartTokenizer, GPT2Tokenizer, RobertaTokenizer); found \"HerbertTokenizer\"");
  remove("tokenizer_config.json");
  EXPECT_EQ(ids("the"), (Ids{0, 261, 2}));
  write("config.json", {{"model_type", "roberta"}, {"tokenizer_class", "CLIPTokenizer"}});
  expect_error([&] { (void)load(); }, "found \"CLIPTokenizer\"");
}

// SentencePiece models

// The ids are those that transformers 4.57's XLMRobertaTokenizer gives.
TEST_F(TokenizerConfig, AddsWordsBesideASentencePieceModel) {
  (void)folder_.file("sentencepiece.bpe.model", test::contents_of(test::test_data("tokenizers/sp_test_model.model")));
  const Ids around = ids("a b");
  EXPECT_EQ(around.size(), 4u);
  const Tokens masked = load()->tokens("a <mask>b", {.parse_special = true});
  EXPECT_EQ(masked.ids, (Ids{0, around[1], 1001, around[2], 2}));
  EXPECT_EQ(masked.spans[2].begin, 1);  // it takes the space before it
  write("added_tokens.json", {{"newword", 1002}});
  EXPECT_EQ(ids("a newword b"), (Ids{0, around[1], 1002, around[2], 2}));
  EXPECT_EQ(load()->decode(ids("a newword b")), "a newword b");
  EXPECT_EQ(load()->vocabulary(), 1003);
  write("special_tokens_map.json", {{"additional_special_tokens", {"newword"}}});
  EXPECT_EQ(std::ranges::count(load()->tokens("a newword b").ids, 1002),
            0);  // a special token is text unless it is asked for
  const Tokens parsed = load()->tokens("a newword b", {.parse_special = true});
  EXPECT_EQ(parsed.ids, (Ids{0, around[1], 1002, around[2], 2}));
  EXPECT_EQ(load()->decode(parsed.ids), "a b");
  write("added_tokens.json", {{"newword", 1004}});
  expect_error([&] { (void)load(); }, "added_tokens.json\": the id 1002 for \"newword\"; found 1004");
  std::filesystem::remove(folder_ / "added_tokens.json");
  configure({{"tokenizer_class", "BarthezTokenizer"}});
  expect_error([&] { (void)load(); }, "found \"BarthezTokenizer\"");
}

// The ids are those that transformers 4.57's CamembertTokenizer gives.
TEST_F(TokenizerConfig, ReadsTheIdsOfCamembert) {
  (void)folder_.file("sentencepiece.bpe.model", test::contents_of(test::test_data("tokenizers/sp_test_model.model")));
  EXPECT_EQ(ids("a b").front(), 0);  // without a class it is XLM-RoBERTa's
  for (const bool named : {true, false}) {
    if (named) configure({{"tokenizer_class", "CamembertTokenizer"}});
    if (!named) std::filesystem::remove(folder_ / "tokenizer_config.json");
    write("config.json", {{"model_type", "camembert"}});
    EXPECT_EQ(load()->vocabulary(), 1005) << named;
    EXPECT_EQ(ids("This is a test"), (Ids{5, 288, 51, 15, 8, 19, 404, 6}));
    const auto parsed = [&](std::string_view text) { return load()->tokens(text, {.parse_special = true}).ids; };
    EXPECT_EQ(parsed("a <mask>b"), (Ids{5, 15, 1004, 84, 6}));
    EXPECT_EQ(parsed("<s>NOTUSED a"), (Ids{5, 0, 15, 6}));
    EXPECT_EQ(parsed("é <unk>"), (Ids{5, 8, 3, 3, 6}));
    EXPECT_EQ(load()->tokens("a", {.pair = "b"}).ids, (Ids{5, 15, 6, 6, 84, 6}));
    EXPECT_EQ(load()->decode(parsed("<s>NOTUSED a")), "a");
  }
}

// tokenizer.json of BERT

class BertJson : public TokenizerConfig {
 protected:
  void write_tokenizer(bool lowercase) const {
    json tokenizer = {{"version", "1.0"},
                      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                      {"model",
                       {{"type", "WordPiece"},
                        {"unk_token", "[UNK]"},
                        {"continuing_subword_prefix", "##"},
                        {"max_input_chars_per_word", 100},
                        {"vocab", json::object()}}}};
    tokenizer["normalizer"] = {{"type", "BertNormalizer"},
                               {"clean_text", true},
                               {"handle_chinese_chars", true},
                               {"strip_accents", nullptr},
                               {"lowercase", lowercase}};
    int id = 0;
    for (const char* const token :
         {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "The", "e", "E", "é", "É", "中", "国", "中国"})
      tokenizer["model"]["vocab"][token] = id++;
    write("tokenizer.json", tokenizer);
  }
  void expect(const json& configuration, const Ids& wanted, const json& config = {{"model_type", "bert"}}) const {
    write("config.json", config);
    configure(configuration);
    EXPECT_EQ(load()->encode("The E É 中国"), wanted) << configuration << config;
  }
  const Ids lower_ = {5, 7, 7, 11, 12}, same_ = {6, 8, 10, 11, 12};
};

TEST_F(BertJson, TheConfigurationDecidesHowTextsAreNormalised) {
  write_tokenizer(true);
  expect({{"tokenizer_class", "BertTokenizer"}}, lower_);
  for (const char* const name : {"BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "MPNetTokenizer"})
    expect({{"tokenizer_class", name}, {"do_lower_case", false}, {"cls_token", "[CLS]"}, {"sep_token", "[SEP]"}},
           same_);
  expect({{"tokenizer_class", "DistilBertTokenizerFast"}, {"do_lower_case", false}, {"strip_accents", true}},
         {6, 8, 8, 11, 12});
  expect({{"tokenizer_class", "BertTokenizer"}, {"tokenize_chinese_chars", false}}, {5, 7, 7, 13});
  expect({{"do_lower_case", false}}, same_);  // by the model_type
  expect({{"do_lower_case", false}}, same_, {{"model_type", "roberta"}, {"tokenizer_class", "BertTokenizer"}});
  expect({{"tokenizer_class", "PreTrainedTokenizerFast"}, {"do_lower_case", false}}, lower_);
  expect({{"tokenizer_class", "BertTokenizer"}, {"do_lower_case", false}}, lower_, {{"model_type", "modernbert"}});
  expect({{"do_lower_case", false}}, lower_, json::object());
}

TEST_F(BertJson, TheUsualFlagsCountToo) {
  write_tokenizer(false);
  expect({{"tokenizer_class", "BertTokenizer"}, {"do_lower_case", false}}, same_);
  expect({{"tokenizer_class", "BertTokenizer"}}, lower_);
  expect({{"model_max_length", 5}}, lower_);
  expect({{"tokenizer_class", "PreTrainedTokenizerFast"}}, same_);
  remove("tokenizer_config.json");
  EXPECT_EQ(load()->encode("The E É 中国"), lower_);
  remove("config.json");
  EXPECT_EQ(load()->encode("The E É 中国"), same_);
}

// transformers gives the model token types where "model_input_names" has them, or else where the class does.
TEST_F(BertJson, TheInputNamesDecideWhetherAPairHasTokenTypes) {
  write_tokenizer(true);
  json tokenizer = json::parse(test::contents_of(folder_ / "tokenizer.json"));
  const auto piece = [](const char* kind, const char* id, int type) {
    return json{{kind, {{"id", id}, {"type_id", type}}}};
  };
  tokenizer["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {piece("SpecialToken", "[CLS]", 0), piece("Sequence", "A", 0), piece("SpecialToken", "[SEP]", 0)}},
      {"pair",
       {piece("SpecialToken", "[CLS]", 0), piece("Sequence", "A", 0), piece("SpecialToken", "[SEP]", 0),
        piece("Sequence", "B", 1), piece("SpecialToken", "[SEP]", 1)}},
      {"special_tokens",
       {{"[CLS]", {{"id", "[CLS]"}, {"ids", {2}}, {"tokens", {"[CLS]"}}}},
        {"[SEP]", {{"id", "[SEP]"}, {"ids", {3}}, {"tokens", {"[SEP]"}}}}}}};
  write("tokenizer.json", tokenizer);
  const auto segments = [](const Tokenizer& of) { return of.tokens("the e", {.pair = "the"}).segments; };
  const Ids both = {0, 0, 0, 0, 1, 1}, none(6);
  const auto expect_segments = [&](const json& configuration, const json& config, const Ids& wanted) {
    configure(configuration);
    write("config.json", config);
    EXPECT_EQ(segments(*load()), wanted) << configuration << config;
    const Scratch copy;
    load()->save(copy.path(), Side::source);
    EXPECT_EQ(segments(*Tokenizer::load(copy.path(), Side::source)), wanted) << "copy " << configuration << config;
  };
  const json names = {"input_ids", "attention_mask"}, all_names = {"input_ids", "token_type_ids", "attention_mask"},
             bert = {{"model_type", "bert"}};
  for (const char* const name : {"BertTokenizer", "ElectraTokenizerFast", "PreTrainedTokenizerFast"}) {
    expect_segments({{"tokenizer_class", name}}, bert, both);
    expect_segments({{"tokenizer_class", name}, {"model_input_names", names}}, bert, none);
    expect_segments({{"tokenizer_class", name}, {"model_input_names", all_names}}, bert, both);
  }
  for (const char* const name :
       {"RobertaTokenizer", "XLMRobertaTokenizerFast", "CamembertTokenizer", "TokenizersBackend"}) {
    expect_segments({{"tokenizer_class", name}}, bert, none);
    expect_segments({{"tokenizer_class", name}, {"model_input_names", all_names}}, bert, both);
  }
  expect_segments(json::object(), bert, both);
  expect_segments(json::object(), {{"model_type", "xlm-roberta"}}, none);
  expect_segments({{"tokenizer_class", nullptr}, {"model_input_names", nullptr}}, bert, both);
  configure({{"model_input_names", "input_ids"}});
  expect_error([&] { (void)load(); }, "model_input_names: an array");
}

TEST_F(WordPieceFolder, TheInputNamesDecideWhetherAPairHasTokenTypes) {
  const auto segments = [&](const json& configuration) {
    configure(configuration);
    return load()->tokens("the", {.pair = "a b"}).segments;
  };
  EXPECT_EQ(segments({{"tokenizer_class", "BertTokenizer"}}), (Ids{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(segments({{"tokenizer_class", "BertTokenizer"}, {"model_input_names", {"input_ids"}}}), Ids(6));
  EXPECT_EQ(segments({{"tokenizer_class", "DistilBertTokenizer"}}), Ids(6));
}

// A copy of the tokenizer stands beside the config.json of another model.
TEST_F(BertJson, ACopyReadsAsItsOriginal) {
  write_tokenizer(false);
  write("config.json", {{"model_type", "bert"}});
  for (const json& configuration : {json{}, json::object(), json{{"model_max_length", 5}}}) {
    if (!configuration.is_null()) configure(configuration);
    const Scratch copy;
    load()->save(copy.path(), Side::source);
    EXPECT_EQ(Tokenizer::load(copy.path(), Side::source)->encode("The E É 中国"), lower_) << configuration;
  }
}

TEST_F(BertJson, RefusesANormalizerThatTheClassDoesNotHave) {
  write_tokenizer(true);
  json tokenizer = json::parse(test::contents_of(folder_ / "tokenizer.json"));
  tokenizer["normalizer"] = {{"type", "NFC"}};
  write("tokenizer.json", tokenizer);
  configure({{"tokenizer_class", "BertTokenizer"}});
  expect_error([&] { (void)load(); }, "normalizer: a BertNormalizer, which transformers makes for");
  expect_error([&] { (void)load(); }, "found \"NFC\". If tokenizer.json is right, write PreTrainedTokenizerFast");
  configure({{"tokenizer_class", "PreTrainedTokenizerFast"}});
  EXPECT_EQ(load()->encode("The"), (Ids{6}));
}

// As sentence-transformers saves a model with do_lower_case; transformers makes one normalizer of the flags.
TEST_F(BertJson, HasOneNormalizerWhereLowercaseStandsBeforeIt) {
  write_tokenizer(false);
  json tokenizer = json::parse(test::contents_of(folder_ / "tokenizer.json"));
  tokenizer["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "Lowercase"}}, tokenizer["normalizer"]}}};
  write("tokenizer.json", tokenizer);
  configure({{"tokenizer_class", "BertTokenizer"}, {"do_lower_case", true}});
  EXPECT_EQ(load()->encode("The E É 中国"), lower_);
  configure({{"tokenizer_class", "BertTokenizer"}, {"do_lower_case", false}});
  expect_error([&] { (void)load(); }, "found \"Sequence\"");
}

TEST_F(BertJson, FindsTheWordsOfAddedTokens) {
  write_tokenizer(true);
  configure({{"tokenizer_class", "BertTokenizer"}});
  write("added_tokens.json", {{"newword", 14}});
  EXPECT_EQ(load()->encode("newword thes"), (Ids{14, 1}));
  EXPECT_EQ(load()->vocabulary(), 15);
  write("added_tokens.json", {{"newword", 20}});
  expect_error([&] { (void)load(); }, "the id 14 for \"newword\", the next one behind the vocabulary; found 20");
  configure({{"tokenizer_class", "PreTrainedTokenizerFast"},
             {"added_tokens_decoder", {{"5", {{"content", "the"}, {"special", false}}}}}});
  EXPECT_EQ(load()->encode("newword thes"), (Ids{1, 5, 1}));
}

TEST_F(BertJson, TheConfigurationDecidesHowAnAddedTokenIsFound) {
  write_tokenizer(true);
  json tokenizer = json::parse(test::contents_of(folder_ / "tokenizer.json"));
  json token = {{"content", "newword"}, {"normalized", true}, {"single_word", false},
                {"lstrip", false},      {"rstrip", false},    {"special", false}};
  tokenizer["added_tokens"].push_back(token);
  tokenizer["added_tokens"].back()["id"] = 14;
  write("tokenizer.json", tokenizer);
  for (const char* const name : {"BertTokenizer", "PreTrainedTokenizerFast"}) {
    json configuration = {{"tokenizer_class", name}};
    configure(configuration);
    EXPECT_EQ(load()->encode("newword NEWWORD"), (Ids{14, 14}));
    token["normalized"] = false;
    configuration["added_tokens_decoder"]["14"] = token;
    configure(configuration);
    EXPECT_EQ(load()->encode("newword NEWWORD"), (Ids{14, 1}));
  }
  remove("tokenizer_config.json");
  write("added_tokens.json", {{"newword", 14}});  // which says no more than the id
  EXPECT_EQ(load()->encode("newword NEWWORD"), (Ids{14, 14}));
}

TEST_F(BertJson, FindsTheSpecialTokensThatTheConfigurationNames) {
  write_tokenizer(true);
  configure({{"tokenizer_class", "BertTokenizer"}});
  EXPECT_EQ(ids("[MASK] e"), (Ids{2, 4, 7, 3}));
  const auto fast = [&](json configuration) {
    configuration["tokenizer_class"] = "PreTrainedTokenizerFast";
    configure(configuration);
    return ids("the [MASK] [E1]");
  };
  EXPECT_EQ(fast({}), (Ids{5, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(fast({{"mask_token", "[MASK]"}}), (Ids{5, 4, 1, 1, 1}));
  EXPECT_EQ(fast({{"mask_token", {{"content", "[MASK]"}, {"lstrip", true}}}}), (Ids{5, 4, 1, 1, 1}));
  EXPECT_EQ(fast({{"mask_token", "[MASK]"}, {"extra_special_tokens", {"[E1]"}}}), (Ids{5, 4, 14}));
  EXPECT_EQ(fast({{"mask_token", "[NONE]"}, {"additional_special_tokens", {"[E1]", "é"}}}), (Ids{5, 1, 1, 1, 15}));
  EXPECT_EQ(load()->vocabulary(), 16);
  EXPECT_EQ(fast({{"added_tokens_decoder", {{"14", {{"content", "[E1]"}, {"special", true}}}}}}),
            (Ids{5, 1, 1, 1, 14}));
  EXPECT_EQ(load()->encode("[E1]"), (Ids{1, 1, 1}));  // text, unless it is asked for
  // A name alone does not make the tokenizer larger than the model.
  configure({{"tokenizer_class", "PreTrainedTokenizerFast"}, {"pad_token", "[P]"}});
  EXPECT_EQ(load()->vocabulary(), 14);
}

TEST_F(BertJson, TheClassDecidesWhatStandsAroundAText) {
  const auto around = [&](const char* name, const json& post_processor) {
    write_tokenizer(true);
    json tokenizer = json::parse(test::contents_of(folder_ / "tokenizer.json"));
    tokenizer["post_processor"] = post_processor;
    write("tokenizer.json", tokenizer);
    configure({{"tokenizer_class", name}});
    return load()->tokens("e", {.pair = "é"}).ids;
  };
  EXPECT_EQ(around("BertTokenizer", nullptr), (Ids{2, 7, 3, 7, 3}));
  EXPECT_EQ(around("PreTrainedTokenizerFast", nullptr), (Ids{7, 7}));
  json processor = {{"type", "BertProcessing"}, {"sep", {"[SEP]", 3}}, {"cls", {"[CLS]", 2}}};
  EXPECT_EQ(around("BertTokenizer", processor), (Ids{2, 7, 3, 7, 3}));
  processor["cls"] = {"the", 5};
  EXPECT_EQ(around("PreTrainedTokenizerFast", processor), (Ids{5, 7, 3, 7, 3}));
  expect_error([&] { (void)around("BertTokenizer", processor); },
               "post_processor: the tokens around a text that transformers makes for the \"tokenizer_class\" "
               "\"BertTokenizer\"; found others. If tokenizer.json is right, write PreTrainedTokenizerFast");
}

// tokenizer.json of RoBERTa

TEST_F(TokenizerConfig, TheConfigurationDecidesAboutASpaceBeforeAText) {
  json tokenizer = {{"version", "1.0"},
                    {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}}},
                    {"model",
                     {{"type", "BPE"},
                      {"vocab", {{"<s>", 0}, {"</s>", 1}, {"t", 2}, {"h", 3}, {"e", 4}, {"Ġ", 5}}},
                      {"merges", json::array()}}}};
  const auto expect = [&](const json& configuration, const Ids& wanted) {
    write("tokenizer.json", tokenizer);
    configure(configuration);
    EXPECT_EQ(load()->encode("the"), wanted) << configuration;
  };
  const Ids with = {5, 2, 3, 4}, without = {2, 3, 4};
  for (const char* const name : {"RobertaTokenizer", "BartTokenizerFast", "GPT2Tokenizer"}) {
    tokenizer["pre_tokenizer"]["add_prefix_space"] = false;
    expect({{"tokenizer_class", name}}, without);
    expect({{"tokenizer_class", name}, {"add_prefix_space", true}}, with);
    tokenizer["pre_tokenizer"]["add_prefix_space"] = true;
    expect({{"tokenizer_class", name}}, without);
    expect({{"tokenizer_class", "PreTrainedTokenizerFast"}}, with);
  }
  // trim_offsets decides in the same way; it is true where nobody says otherwise.
  const auto behind = [](const char* token, int id) { return json{token, id}; };
  tokenizer["post_processor"] = {{"type", "RobertaProcessing"},
                                 {"sep", behind("</s>", 1)},
                                 {"cls", behind("<s>", 0)},
                                 {"add_prefix_space", false},
                                 {"trim_offsets", false}};
  for (const bool by_file : {false, true}) {
    tokenizer["post_processor"]["trim_offsets"] = by_file;
    for (const bool trims : {false, true}) {
      expect({{"tokenizer_class", "RobertaTokenizer"}, {"trim_offsets", trims}}, without);
      EXPECT_EQ(load()->tokens("e e").spans.at(2), (Span{trims ? 2 : 1, trims ? 2 : 2})) << by_file << trims;
    }
    expect({{"tokenizer_class", "RobertaTokenizer"}}, without);
    EXPECT_EQ(load()->tokens("e e").spans.at(2), (Span{2, 2})) << by_file;
  }
  tokenizer.erase("post_processor");
  tokenizer["model"]["vocab"]["<mask>"] = 6;  // Bertweet's has no added tokens
  expect({{"tokenizer_class", "BertweetTokenizer"}}, with);
  EXPECT_EQ(load()->tokens("the<mask>", {.parse_special = true}).ids.back(), 6);
  tokenizer["model"]["vocab"].erase("<mask>");
  write("config.json", {{"model_type", "roberta"}});
  expect({{"model_max_length", 5}}, without);
  const Scratch copy;
  load()->save(copy.path(), Side::source);
  EXPECT_EQ(Tokenizer::load(copy.path(), Side::source)->encode("the"), without);
}

// tokenizer.json of T5

TEST_F(TokenizerConfig, MarksAreTextForAUnigramModel) {
  json tokens = json::array();
  for (const char* const token : {"<unk>", "</s>", "a", "<", "/", "s", ">", "<extra_id_0>"})
    tokens.push_back(json::array({token, tokens.size() < 2 ? 0 : -1}));
  json added = json::array();
  for (const int id : {0, 1, 7}) {
    added.push_back({{"id", id}, {"content", tokens[static_cast<size_t>(id)][0]}, {"special", true}});
    for (const char* const flag : {"single_word", "lstrip", "rstrip", "normalized"}) added.back()[flag] = false;
  }
  write("tokenizer.json", {{"version", "1.0"},
                           {"added_tokens", added},
                           {"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", tokens}}}});
  EXPECT_EQ(load()->encode("a</s>a"), (Ids{2, 3, 4, 5, 6, 2}));
  EXPECT_EQ(ids("a</s>a"), (Ids{2, 1, 2}));
  EXPECT_EQ(load()->encode("a<extra_id_0>"), (Ids{2, 7}));  // of use within a text
  configure({{"mask_token", "<extra_id_0>"}});
  EXPECT_NE(load()->encode("a<extra_id_0>"), (Ids{2, 7}));
}

// Padding is the class's where no file names it.
TEST_F(TokenizerConfig, TheClassHasAPaddingToken) {
  json tokenizer = {{"version", "1.0"},
                    {"model",
                     {{"type", "WordPiece"},
                      {"vocab", {{"<s>", 0}, {"<pad>", 1}, {"</s>", 2}, {"[UNK]", 3}, {"a", 4}}},
                      {"unk_token", "[UNK]"},
                      {"continuing_subword_prefix", "##"},
                      {"max_input_chars_per_word", 100}}},
                    {"normalizer",
                     {{"type", "BertNormalizer"},
                      {"clean_text", true},
                      {"handle_chinese_chars", true},
                      {"strip_accents", nullptr},
                      {"lowercase", true}}},
                    {"pre_tokenizer", {{"type", "BertPreTokenizer"}}}};
  write("tokenizer.json", tokenizer);
  EXPECT_EQ(load()->special().padding, -1);
  configure({{"tokenizer_class", "MPNetTokenizer"}});
  EXPECT_EQ(load()->special().padding, 1);
  remove("tokenizer_config.json");
  write("config.json", {{"model_type", "mpnet"}});
  EXPECT_EQ(load()->special().padding, 1);
  configure({{"tokenizer_class", "MPNetTokenizer"}, {"pad_token", "a"}});
  EXPECT_EQ(load()->special().padding, 4);
}

// A line of merges.txt that stands in tokenizer.json.
TEST_F(TokenizerConfig, MergesMayBeginWithTheirVersion) {
  write(
      "tokenizer.json",
      {{"version", "1.0"},
       {"model", {{"type", "BPE"}, {"vocab", {{"t", 0}, {"h", 1}, {"th", 2}}}, {"merges", {"#version: 0.2", "t h"}}}}});
  EXPECT_EQ(load()->encode("th"), (Ids{2}));
}

// The text in lower case, with the places that its tokens have in the text as it is.
TEST_F(WordPieceFolder, ReadsATextInLowerCaseWhereThatIsAsked) {
  configure({{"tokenizer_class", "BertTokenizer"}, {"do_lower_case", false}});
  const auto cased = load()->tokens("The HOUSE [SEP] A");
  EXPECT_EQ(cased.ids, (Ids{2, 1, 1, 1, 1, 1, 1, 3}));
  const auto lower = load()->tokens("The HOUSE [SEP] A", {.pair = "IS", .parse_special = true, .lowercase = true});
  EXPECT_EQ(lower.ids, (Ids{2, 5, 6, 3, 10, 3, 7, 3}));
  EXPECT_EQ(lower.spans.at(2), (Span{4, 9}));
  EXPECT_EQ(lower.spans.at(6), (Span{0, 2}));
}

// As PyPI's `tokenizers` has it where Lowercase stands before the normalizer: tokens that are looked for in the
// normalised text are found in lower case, the others as they are.
TEST_F(WordPieceFolder, FindsAddedTokensInLowerCase) {
  configure(
      {{"tokenizer_class", "BertTokenizer"},
       {"do_lower_case", false},
       {"added_tokens_decoder",
        {{"15", {{"content", "FOO"}, {"normalized", true}}}, {"16", {{"content", "BAR"}, {"normalized", false}}}}}});
  const TokensOptions lower{.lowercase = true};
  EXPECT_EQ(load()->tokens("FOO foo BAR bar").ids, (Ids{2, 15, 1, 16, 1, 3}));
  EXPECT_EQ(load()->tokens("FOO foo BAR bar", lower).ids, (Ids{2, 15, 15, 16, 1, 3}));
}

TEST(Lowercase, OfTokenizersThatChangeNoCase) {
  const std::vector<std::string> lines = {"ab i̇b"};
  const auto characters = train_characters(lines);
  // A capital I with a dot is two characters in lower case, of three bytes instead of two.
  const std::string text = "\u0130B";
  const Tokens made = characters->tokens(text, {.lowercase = true});
  EXPECT_EQ(made.ids, characters->tokens("i\u0307b").ids);
  const std::vector<Span> spans(made.spans.begin() + 1, made.spans.end() - 1);
  EXPECT_EQ(spans, (std::vector<Span>{{0, 2}, {0, 2}, {2, 3}}));
}

// tokenizer.json of mBART

TEST_F(TokenizerConfig, MBartHasTheLanguageThatTheConfigurationNames) {
  const auto special = [](const char* token, int id) {
    return json{{"id", token}, {"ids", {id}}, {"tokens", {token}}};
  };
  json tokenizer = {{"version", "1.0"},
                    {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
                    {"model",
                     {{"type", "WordLevel"},
                      {"vocab", {{"<unk>", 0}, {"</s>", 1}, {"en_XX", 2}, {"de_DE", 3}, {"a", 4}, {"b", 5}}},
                      {"unk_token", "<unk>"}}}};
  json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  json single = json::array({text,
                             {{"SpecialToken", {{"id", "</s>"}, {"type_id", 0}}}},
                             {{"SpecialToken", {{"id", "en_XX"}, {"type_id", 0}}}}});
  tokenizer["post_processor"] = {{"type", "TemplateProcessing"},
                                 {"single", single},
                                 {"pair", single},
                                 {"special_tokens", {{"</s>", special("</s>", 1)}, {"en_XX", special("en_XX", 2)}}}};
  write("tokenizer.json", tokenizer);
  for (const char* const name : {"MBartTokenizer", "MBartTokenizerFast"}) {
    configure({{"tokenizer_class", name}, {"src_lang", "de_DE"}});
    EXPECT_EQ(ids("a"), (Ids{4, 1, 3}));
    EXPECT_EQ(ids_of_pair(), (Ids{4, 5, 1, 3}));
    configure({{"tokenizer_class", name}});
    EXPECT_EQ(ids("a"), (Ids{4, 1, 2}));
  }
  configure({{"tokenizer_class", "MBart50Tokenizer"}, {"src_lang", "de_DE"}});
  EXPECT_EQ(ids("a"), (Ids{3, 4, 1}));
  EXPECT_EQ(ids_of_pair(), (Ids{3, 4, 5, 1}));
  configure({{"tokenizer_class", "MBart50TokenizerFast"}});
  EXPECT_EQ(ids("a"), (Ids{2, 4, 1}));
  write("config.json", {{"model_type", "mbart"}});
  configure({{"src_lang", "de_DE"}});
  EXPECT_EQ(ids("a"), (Ids{4, 1, 3}));
  configure({{"tokenizer_class", "PreTrainedTokenizerFast"}, {"src_lang", "de_DE"}});
  EXPECT_EQ(ids("a"), (Ids{4, 1, 2}));
  for (const char* const name : {"MBartTokenizer", "MBart50Tokenizer", "NllbTokenizer"}) {
    configure({{"tokenizer_class", name}, {"src_lang", "xx_XX"}});
    expect_error([&] { (void)load(); }, "a \"src_lang\" that the tokenizer has a token for; found \"xx_XX\"");
  }
}

}  // namespace
}  // namespace heed::text
