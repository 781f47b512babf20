// Translation from text to text: beside the search itself on ids, and its promises about order, errors and neighbours.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <thread>

#include "base/message.h"
#include "heed/error.h"
#include "heed/pipelines.h"
#include "pipelines/hugging_face.h"
#include "pipelines/save.h"
#include "pipelines/small_models.h"

namespace heed {
namespace {

using testing::message_of;

using models::Architecture;
using test::Folder;
using test::make_model;

const std::filesystem::path kDemo = std::filesystem::path(HEED_SOURCE_DIR) / "demo" / "en-zh";

std::vector<std::string> some_texts(int64_t count) {
  const char* const words[] = {"where", "is", "the", "station", "and", "when", "train"};
  std::vector<std::string> texts;
  for (int64_t i = 0; i < count; ++i) {
    std::string text;
    for (int64_t k = 0; k < i % 6; ++k) text += (k > 0 ? " " : "") + std::string(words[(i * 5 + k * 3) % 7]);
    texts.push_back(text);
  }
  return texts;
}

void expect_equal(const std::vector<Translation>& a, const std::vector<Translation>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].text, b[i].text);
    EXPECT_EQ(std::memcmp(&a[i].score, &b[i].score, sizeof a[i].score), 0);
    EXPECT_EQ(a[i].finished, b[i].finished);
    EXPECT_EQ(a[i].tokens, b[i].tokens);
    EXPECT_EQ(a[i].log_probs, b[i].log_probs);
  }
}

TEST(Translator, TheShippedModel) {
  const Translator translator = Translator::load(kDemo);
  const std::vector<Translation> found = translator.translate("Where is the station?", {.search = {.n_best = 3}});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].text, "车站在哪里？");
  EXPECT_TRUE(found[0].finished);
  EXPECT_GE(found[0].score, found[1].score);
  EXPECT_GE(found[1].score, found[2].score);
  double sum = 0;
  for (const float log_prob : found[0].log_probs) sum += static_cast<double>(log_prob);
  ASSERT_EQ(found[0].log_probs.size(), found[0].tokens.size() + 1) << "the end has one too";
  EXPECT_NEAR(found[0].score, sum / static_cast<double>(found[0].log_probs.size()), 1e-5);
}

TEST(Translator, TheIdsAreThoseOfTheSearch) {
  const Folder folder;
  const Translator translator = Translator::load(make_model(folder.path(), Architecture::encoder_decoder));
  const std::string text = "where is the train";
  std::vector<int32_t> ids = translator.source_tokenizer().encode(text);
  ids.push_back(translator.source_tokenizer().special().end);
  EXPECT_EQ(translator.encode(text), ids);
  EXPECT_TRUE(translator.encode("").empty());
  const auto direct = generate::translate(translator.model(), std::span(&ids, 1), {.search = {.beam = 3}});
  const Translation found = translator.translate(text, {.search = {.beam = 3}}).front();
  EXPECT_EQ(found.text, translator.target_tokenizer().decode(direct[0][0].ids));
  EXPECT_EQ(found.score, direct[0][0].score);
  EXPECT_EQ(found.log_probs, direct[0][0].log_probs);
}

// The penalty of the folder is for those who name none; 1 is a penalty like any other.
TEST(Translator, TheLengthPenaltyIsTheFoldersUnlessOneIsGiven) {
  const Folder folder;
  const auto model = make_model(folder.path(), Architecture::encoder_decoder);
  std::ofstream(model / "generation_config.json") << R"({"length_penalty": 2.0})";
  const Translator translator = Translator::load(model);
  const auto penalty_of = [](const Translation& found) {
    const double sum = std::accumulate(found.log_probs.begin(), found.log_probs.end(), 0.0);
    return std::log(sum / found.score) / std::log(static_cast<double>(found.log_probs.size()));
  };
  const std::string text = "where is the train";
  EXPECT_NEAR(penalty_of(translator.translate(text).front()), 2, 1e-6);
  for (const double given : {0.5, 1.0, 2.0})
    EXPECT_NEAR(penalty_of(translator.translate(text, {.search = {.length_penalty = given}}).front()), given, 1e-6);
}

TEST(Translator, ManyTextsAreTranslatedAsEachAloneAndInOrder) {
  const Folder folder;
  const Translator translator = Translator::load(make_model(folder.path(), Architecture::encoder_decoder));
  const std::vector<std::string> texts = some_texts(100);  // of several groups
  const TranslatorOptions options{.search = {.beam = 2, .n_best = 2, .max_length = 8}, .batch_tokens = 64};
  const auto all = translator.translate(texts, options);
  ASSERT_EQ(all.size(), texts.size());
  int64_t next = 0;
  const int64_t count = translator.translate(texts, options, [&](int64_t text, std::vector<Translation> translations) {
    EXPECT_EQ(text, next++);
    expect_equal(translations, all[static_cast<size_t>(text)]);
  });
  EXPECT_EQ(count, 100);
  EXPECT_EQ(next, 100);
  for (const size_t i : {size_t{1}, size_t{17}, size_t{99}})
    expect_equal(translator.translate(texts[i], options), all[i]);
  ASSERT_EQ(all[0].size(), 1u) << "an empty text has one empty translation";
  EXPECT_EQ(all[0][0].text, "");
  EXPECT_TRUE(translator.translate(std::vector<std::string>{}, options).empty());
  const auto two = translator.translate({"where is", "the train"});  // (no text that lies between two pointers)
  ASSERT_EQ(two.size(), 2u);
  expect_equal(two[1], translator.translate("the train"));
}

// From 64 rows on a step may be taken in two parts. Where every source's rows stay in place, nothing is moved between
// two steps.
TEST(Translator, EqualTextsAreTranslatedAsEachAlone) {
  const Translator translator = Translator::load(kDemo);
  for (const char* const text : {"Follow me.", "I like it.", "Where is the station?", "Wait."}) {
    const std::vector<Translation> alone = translator.translate(text);
    for (const size_t count : {13, 17, 50}) {
      const std::vector<std::string> texts(count, text);
      for (const auto& found : translator.translate(texts)) expect_equal(found, alone);
    }
  }
}

// "early_stopping" of a folder holds for any beam that is asked for.
TEST(Translator, EndsAsTheFolderSaysWithoutItsBeam) {
  const test::Scratch scratch;
  const std::filesystem::path folder = test::with_words(scratch, "marian");
  const std::vector<std::string> texts = {"paris is", "the capital of france", "a city is the query", "of of"};
  const auto translated = [&](std::optional<generate::StopWhen> stop_when) {
    TranslatorOptions options{.search = {.beam = 4, .n_best = 4, .max_length = 12}};
    options.search.stop_when = stop_when;
    std::vector<std::string> all;
    for (const auto& found : Translator::load(folder).translate(texts, options))
      for (const Translation& one : found) all.push_back(std::to_string(one.score) + one.text);
    return all;
  };
  std::set<std::vector<std::string>> different;
  auto settings = nlohmann::json::parse(test::contents_of(folder / "generation_config.json"));
  settings.erase("num_beams");
  settings["length_penalty"] = 2;  // long hypotheses may still win
  const std::pair<const char*, generate::StopWhen> cases[] = {{"false", generate::StopWhen::worst},
                                                              {"true", generate::StopWhen::full},
                                                              {"\"never\"", generate::StopWhen::possible}};
  for (const auto& [value, stop_when] : cases) {
    settings["early_stopping"] = nlohmann::json::parse(value);
    scratch.file("marian/generation_config.json", settings.dump());
    different.insert(translated({}));
    EXPECT_EQ(translated({}), translated(stop_when)) << value;
  }
  EXPECT_GT(different.size(), 1u);
}

// Twice the source and 20 tokens are a habit of heed's own models; transformers has no such limit.
TEST(Translator, ModelsOfOthersWriteAsMuchAsAsked) {
  const test::Scratch scratch;
  const auto tokens = [](const Translator& translator, const generate::BeamOptions& search) {
    TranslatorOptions options{.search = search};
    return std::ssize(translator.translate("paris", options).at(0).tokens);
  };
  const Translator others = Translator::load(test::with_words(scratch, "marian"));
  EXPECT_GE(tokens(others, {.beam = 1, .max_length = 40, .min_length = 38}), 38);
  EXPECT_LE(tokens(others, {.beam = 1, .max_length = 40, .min_length = 38, .length_factor = 1, .length_extra = 0}), 38);
  EXPECT_LT(tokens(others, {.beam = 1, .max_length = 40, .length_factor = 1, .length_extra = 0}), 5);
  const Translator own = Translator::load(std::filesystem::path(HEED_SOURCE_DIR) / "demo" / "en-zh");
  EXPECT_GE(tokens(own, {.beam = 1, .min_length = 50}), 50) << "asked for";
}

// What generation_config.json forces stands before a given output, too: the model never says one without it.
TEST(Translator, RecordsAnOutputBehindWhatIsForced) {
  const test::Scratch scratch;
  const std::filesystem::path folder = test::with_words(scratch, "marian");
  auto settings = nlohmann::json::parse(test::contents_of(folder / "generation_config.json"));
  settings["forced_bos_token_id"] = 7;
  scratch.file("marian/generation_config.json", settings.dump());
  const Translator translator = Translator::load(folder);
  const RecordOptions options{.target = "paris"};
  const inspect::Record record = translator.record("paris", options), own = translator.record("paris", {});
  ASSERT_EQ(record.target_tokens.size(), 3U);
  EXPECT_EQ(record.target_tokens[1], own.target_tokens[1]);
  EXPECT_EQ(record.output_tokens[0], own.output_tokens[0]);
  EXPECT_EQ(record.output, "paris");
}

// A vocabulary of others takes seconds and hundreds of megabytes when it is large.
TEST(Translator, HasOneTokenizerWhereTheFolderHasOne) {
  const test::Scratch scratch;
  const Translator words = Translator::load(test::with_words(scratch, "marian"));
  EXPECT_EQ(&words.source_tokenizer(), &words.target_tokenizer());
  const Translator shipped = Translator::load(kDemo);
  EXPECT_NE(&shipped.source_tokenizer(), &shipped.target_tokenizer());
  // Marian has two, and one vocabulary.
  pipelines::save(shipped, kDemo, scratch / "two", pipelines::Layout::huggingface);
  const Translator marian = Translator::load(scratch / "two");
  EXPECT_NE(&marian.source_tokenizer(), &marian.target_tokenizer());
  EXPECT_EQ(marian.source_tokenizer().encode("the station"), shipped.source_tokenizer().encode("the station"));
  EXPECT_NE(marian.target_tokenizer().encode("the station"), shipped.source_tokenizer().encode("the station"));
  // One of them alone is written with the files of both, without which nobody would know a Marian.
  std::filesystem::create_directory(scratch / "source");
  text::Tokenizer::load(scratch / "two", text::Side::source)->save(scratch / "source", text::Side::source);
  const auto again = text::Tokenizer::load(scratch / "source", text::Side::source);
  EXPECT_EQ(again->encode("the station"), shipped.source_tokenizer().encode("the station"));
}

TEST(Translator, SpecialTokensAreTextUnlessAsked) {
  const test::Scratch scratch;
  const Translator translator = Translator::load(test::with_words(scratch, "marian"));
  const int32_t mask = translator.source_tokenizer().id_of("[MASK]").value();
  const auto masks_of = [&](bool parse_special) {
    return std::ranges::count(translator.encode("paris [MASK] is", {.parse_special = parse_special}), mask);
  };
  EXPECT_EQ(masks_of(false), 0);
  EXPECT_EQ(masks_of(true), 1);
  const std::vector<std::string> texts = {"paris [MASK] is", "[MASK]"};  // by themselves and together
  const TranslatorOptions parsed{.search = {.beam = 2, .max_length = 6}, .parse_special = true};
  const auto together = translator.translate(texts, parsed);
  const auto as_text = translator.translate(texts, {.search = parsed.search});
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(together[i].at(0).score, translator.translate(texts[i], parsed).at(0).score);
    EXPECT_NE(together[i].at(0).score, as_text[i].at(0).score);
  }
  const Translator own = Translator::load(kDemo);
  EXPECT_NE(message_of([&] { (void)own.translate("a", parsed); }).find("cannot do"), std::string::npos);
}

TEST(Translator, ThreadsShareOne) {
  const Folder folder;
  const Translator translator = Translator::load(make_model(folder.path(), Architecture::encoder_decoder));
  const std::vector<std::string> texts = some_texts(20);
  const auto expected = translator.translate(texts);
  std::vector<std::vector<std::vector<Translation>>> found(3);
  std::vector<std::thread> threads;
  for (auto& result : found) threads.emplace_back([&] { result = translator.translate(texts); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : found)
    for (size_t i = 0; i < texts.size(); ++i) expect_equal(result[i], expected[i]);
}

TEST(Translator, StopsWhenAsked) {
  const Folder folder;
  const Translator translator = Translator::load(make_model(folder.path(), Architecture::encoder_decoder));
  const std::vector<std::string> texts = some_texts(60);
  int64_t delivered = 0;
  TranslatorOptions options{.search = {.beam = 2}};
  options.search.stop = [&] { return delivered >= 16; };  // the first group is done
  const int64_t count = translator.translate(texts, options, [&](int64_t, const auto&) { ++delivered; });
  EXPECT_EQ(count, 16);
  EXPECT_EQ(delivered, 16);
  delivered = 16;
  const auto none = translator.translate(texts, options);
  ASSERT_EQ(none.size(), texts.size());
  EXPECT_TRUE(none[1].empty());
}

TEST(Translator, WhatStandsBeforeABadTextIsDelivered) {
  const Folder folder;
  const Translator translator = Translator::load(make_model(folder.path(), Architecture::encoder_decoder));
  std::vector<std::string> texts = some_texts(30);
  texts[20] = "the \xC3(";
  int64_t delivered = 0;
  const auto translate = [&] { translator.translate(texts, {}, [&](int64_t, const auto&) { ++delivered; }); };
  EXPECT_EQ(message_of(translate), "[translate] text 21: valid UTF-8; found byte 0xc3 at position 5");
  EXPECT_EQ(delivered, 20);
  const TranslatorOptions named{.text = {.name = [](int64_t text) { return "line " + std::to_string(text + 1); }}};
  EXPECT_NE(message_of([&] { (void)translator.translate(texts, named); }).find("line 21"), std::string::npos);
}

TEST(Translator, LongTextsAreRefusedOrCut) {
  const Folder folder;
  const Translator translator = Translator::load(make_model(folder.path(), Architecture::encoder_decoder));
  std::string text;
  for (int i = 0; i < 30; ++i) text += "the ";
  EXPECT_EQ(message_of([&] { (void)translator.translate(text); }),
            "[translate] text 1: at most the 23 tokens that the model reads; found 30");
  std::vector<TextWarning> warnings;
  const TranslatorOptions cut{
      .text = {.too_long = TooLong::cut, .on_warning = [&](const TextWarning& w) { warnings.push_back(w); }}};
  const std::vector<Translation> found = translator.translate(text, cut);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(to_string(warnings[0]), "30 tokens, cut to 23");
  expect_equal(found, translator.translate(text.substr(0, 23 * 4 - 1)));
}

TEST(Translator, WarnsOfUnknownText) {
  const Folder folder;
  const Translator translator = Translator::load(make_model(folder.path(), Architecture::encoder_decoder));
  std::vector<std::string> warnings;
  const TranslatorOptions options{.text = {.on_warning = [&](const TextWarning& w) {
                                    warnings.push_back(std::to_string(w.text) + ": " + to_string(w));
                                  }}};
  const std::vector<std::string> texts = {
      "where is the train", "wo ist der Zug", "the Bahnhof", "is the train x", "", "车站 the"};
  (void)translator.translate(texts, options);
  EXPECT_EQ(warnings,
            (std::vector<std::string>{
                "1: 11 of 11 characters are unknown to the model; is the text in the language that it reads?",
                "2: 7 of 10 characters are unknown to the model; is the text in the language that it reads?"}));
  // SentencePiece: one unknown token may stand for many characters.
  const Translator demo = Translator::load(kDemo);
  warnings.clear();
  (void)demo.translate("车站在哪里？", options);
  EXPECT_EQ(warnings.size(), 1u);
  (void)demo.translate("Where is the café?", options);
  EXPECT_EQ(warnings.size(), 1u);
}

TEST(Translator, RefusesWhatDoesNotFit) {
  const Folder folder;
  make_model(folder.path() / "gpt", Architecture::decoder_only);
  EXPECT_EQ(
      message_of([&] { (void)Translator::load(folder.path() / "gpt"); }),
      "[Translator::load] " + (folder.path() / "gpt").string() + ": an encoder-decoder; found a decoder-only model");
  const auto path = make_model(folder.path() / "model", Architecture::encoder_decoder);
  text::train_characters(test::kTarget)->save(path, text::Side::source);
  EXPECT_NE(message_of([&] { (void)Translator::load(path); }).find("a source tokenizer of "), std::string::npos);
  const auto other = make_model(folder.path() / "other", Architecture::encoder_decoder);
  text::train_characters(test::kSource)->save(other, text::Side::target);
  EXPECT_NE(message_of([&] { (void)Translator::load(other); }).find("a target tokenizer of "), std::string::npos);
  EXPECT_EQ(message_of([&] { (void)Encoder::load(kDemo); }),
            "[Encoder::load] " + kDemo.string() + ": an encoder-only model; found an encoder-decoder");
  EXPECT_NE(message_of([&] { (void)Translator::load(folder.path() / "none"); }), "");
  const Translator translator = Translator::load(kDemo);
  const auto refused = [&](const generate::BeamOptions& search) {
    return message_of([&] { (void)translator.translate("Help!", {.search = search}); });
  };
  EXPECT_EQ(refused({.max_length = 0}), "[translate] a max_length of 1 token or more; found 0");
  EXPECT_EQ(refused({.max_length = -1}), "[translate] a max_length of 1 token or more; found -1");
  EXPECT_EQ(refused({.min_length = -1}), "[translate] a min_length of 0 tokens or more; found -1");
}

int64_t weights_of(const inspect::Record& record) {
  int64_t count = 0;
  for (const auto* maps : {&record.encoder, &record.decoder, &record.cross})
    for (const inspect::Map& map : *maps) count += map.weights.numel();
  return count;
}

TEST(Translator, RecordsItsAttention) {
  const Folder folder;
  const Translator translator = Translator::load(make_model(folder.path(), Architecture::encoder_decoder));
  int64_t announced = 0, announced_masked = 0;
  const RecordOptions options{.target = "车站", .on_size = [&](int64_t weights, int64_t masked) {
                                announced = weights;
                                announced_masked = masked;
                              }};
  const inspect::Record record = translator.record("where is the", options);
  EXPECT_EQ(record.source, "where is the");
  EXPECT_EQ(record.output, "车站");
  EXPECT_EQ(record.source_tokens, (std::vector<std::string>{"where", "is", "the", "</s>"}));
  EXPECT_EQ(record.target_tokens, (std::vector<std::string>{"<s>", "车", "站"}));
  EXPECT_EQ(record.output_tokens, (std::vector<std::string>{"车", "站", "</s>"}));
  ASSERT_EQ(record.encoder.size(), 2u);
  ASSERT_EQ(record.decoder.size(), 3u);
  ASSERT_EQ(record.cross.size(), 3u);
  EXPECT_EQ(record.cross[2].weights.shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(announced, weights_of(record));
  EXPECT_EQ(announced_masked, 3 * 2 * 3);  // layers, heads, and keys after a query of three
  const inspect::Record own = translator.record("where is the");
  EXPECT_EQ(own.output, translator.translate("where is the").front().text);
  EXPECT_THROW((void)translator.record(" "), Error);
  EXPECT_EQ(message_of([&] { (void)translator.record("the", {.target = "\xFF"}); }),
            "[Translator::record] the target: valid UTF-8; found byte 0xff at position 1");
  const RecordOptions refuses{.on_size = [](int64_t, int64_t) { throw Error("too many"); }};
  EXPECT_EQ(message_of([&] { (void)translator.record("the", refuses); }), "too many");
  // The folder alone says which class it is.
  EXPECT_EQ(architecture_of(folder.path()), Architecture::encoder_decoder);
  EXPECT_EQ(inspect::to_json(record_attention(folder.path(), "where is the", {.target = "车站"})),
            inspect::to_json(record));
}

}  // namespace
}  // namespace heed
