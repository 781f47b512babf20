// Models of several languages: what is read and written is what Translator makes of a text in these languages.
#include <gtest/gtest.h>

#include <set>

#include "heed/pipelines.h"
#include "serve/api_fixture.h"
#include "train/foreign.h"

namespace heed::serve {
namespace {

namespace fs = std::filesystem;
using text::Ids;
using train::copy_family;
using train::template_of;
using train::write_word_tokenizer;

const char* const kLetters = "a b c d e";

class LanguagesTest : public ApiTest {
 protected:
  // Ids 57 and 58 are languages; the post-processor says what stands around a text.
  fs::path write(const std::string& family, const std::string& first, const std::string& second, const json& around) {
    fs::path to = folder_.path() / (family + first);
    copy_family(family, to);
    write_word_tokenizer(to, {{0, "<s>"}, {1, "<pad>"}, {2, "</s>"}, {3, "<unk>"}, {57, first}, {58, second}}, around);
    return to;
  }
  // A text between one language and the end, or with the end and one language behind it.
  static json around_with(const std::string& language, bool behind) {
    const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
    const json end = {{"SpecialToken", {{"id", "</s>"}, {"type_id", 0}}}};
    const json name = {{"SpecialToken", {{"id", language}, {"type_id", 0}}}};
    const json single = behind ? json{text, end, name} : json{name, text, end};
    return {{"type", "TemplateProcessing"},
            {"single", single},
            {"pair", single},
            {"special_tokens",
             {{"</s>", {{"id", "</s>"}, {"ids", {2}}, {"tokens", {"</s>"}}}},
              {language, {{"id", language}, {"ids", {57}}, {"tokens", {language}}}}}}};
  }
  fs::path write_behind() {  // mBART's first models: the decoder begins with the language that it writes
    const fs::path to = write("mbart", "en_XX", "fr_XX", around_with("en_XX", true));
    json settings = json::parse(train::read_text(to / "generation_config.json"));
    settings["decoder_start_token_id"] = 58;
    train::write_text(to / "generation_config.json", settings.dump());
    return to;
  }
  void serve(const std::vector<fs::path>& folders) { api_ = std::make_unique<Api>(folders); }
  json languages(size_t model) {
    return json::parse(api_->call("models", json::object(), {}).body)["models"][model]["languages"];
  }

  // Everything that reads or writes a text, beside Translator. Returns the ids that were written, and how probable they
  // were.
  json expect_as_translator(const fs::path& folder, const json& spoken) {
    const Translator translator = Translator::load(folder);
    TranslatorOptions options{.source_language = spoken.value("source_language", ""),
                              .target_language = spoken.value("target_language", "")};
    const json text = with({{"model", 0}, {"text", kLetters}}, spoken);
    EXPECT_EQ(call("tokenize", with(text, {{"side", "source"}}))["ids"], json(translator.encode(kLetters, options)));
    json written = json::array();
    for (const int64_t beam : {1, 3}) {
      options.search = {.beam = beam, .n_best = beam, .max_length = 8};
      const std::vector<Translation> expected = translator.translate(kLetters, options);
      const json done = run(with(text, {{"beam", beam}, {"max_tokens", 8}}));
      EXPECT_EQ(done["text"], expected[0].text) << spoken << ", beam " << beam;
      EXPECT_EQ(done["source"], json(translator.encode(kLetters, options)));
      written.push_back({done["output"], done["log_probs"]});
      if (beam == 1) {
        const json body = with(with(reading(0, done), spoken), {{"changes", json::array()}});
        const json same = call("experiment", with(body, {{"search", {{"max_tokens", 8}}}}));
        EXPECT_EQ(same["output"]["output"], done["output"]) << spoken;
        const json plain = with(reading(0, done), {{"position", 0}});
        EXPECT_EQ(call("next", with(plain, spoken)), call("next", plain)) << "ids have their languages already";
        continue;
      }
      const json tree = call("beam", with(text, {{"beam", beam}, {"max_tokens", 8}}));
      EXPECT_EQ(tree["hypotheses"].size(), expected.size());
      for (size_t k = 0; k < expected.size(); ++k) EXPECT_EQ(tree["hypotheses"][k]["text"], expected[k].text);
    }
    return written;
  }
};

TEST_F(LanguagesTest, AreListed) {
  serve({write("m2m100", "__en__", "__fr__", template_of(true, 2)),
         write("nllb", "eng_Latn", "fra_Latn", around_with("eng_Latn", false)), write_behind(),
         folder_.path() / "translates", folder_.path() / "continues"});
  EXPECT_EQ(languages(0), json::parse(R"({"source": ["en", "fr"], "target": ["en", "fr"],
                                          "usual_source": "", "usual_target": "en",
                                          "first_target": ""})"));  // forced_bos_token_id is 57
  EXPECT_EQ(languages(1), json::parse(R"({"source": ["eng_Latn", "fra_Latn"], "target": ["eng_Latn", "fra_Latn"],
                                          "usual_source": "eng_Latn", "usual_target": "",
                                          "first_target": "fra_Latn"})"));
  EXPECT_EQ(languages(2), json::parse(R"({"source": ["en_XX", "fr_XX"], "target": ["en_XX", "fr_XX"],
                                          "usual_source": "en_XX", "usual_target": "fr_XX",
                                          "first_target": ""})"));
  EXPECT_EQ(languages(3), json());
  EXPECT_EQ(languages(4), json());
}

TEST_F(LanguagesTest, WhatIsReadAndWrittenIsWhatTranslatorMakesOfIt) {
  const std::vector<fs::path> folders = {write("m2m100", "__en__", "__fr__", template_of(true, 2)),
                                         write("nllb", "eng_Latn", "fra_Latn", around_with("eng_Latn", false)),
                                         write_behind()};
  for (const fs::path& folder : folders) {
    SCOPED_TRACE(folder.filename());
    serve({folder});
    const json all = languages(0);
    std::set<json> written;
    for (const json& source : all["source"])
      for (const json& target : all["target"])
        written.insert(expect_as_translator(folder, {{"source_language", source}, {"target_language", target}}));
    EXPECT_EQ(written.size(), all["source"].size() * all["target"].size()) << "each pair must show";
    if (all["first_target"] != "") {
      EXPECT_EQ(error_of("beam", {{"model", 0}, {"text", "a"}}),
                "[translate] a target_language, because the model writes several (eng_Latn fra_Latn); found none");
      continue;
    }
    const json usual = expect_as_translator(folder, json::object());
    json named = json::object();
    if (all["usual_source"] != "") named["source_language"] = all["usual_source"];
    if (all["usual_target"] != "") named["target_language"] = all["usual_target"];
    EXPECT_EQ(usual, expect_as_translator(folder, named)) << "what is listed as usual is what happens";
    EXPECT_EQ(usual, expect_as_translator(folder, {{"source_language", ""}, {"target_language", ""}}));
  }
}

// Marian's models of several target languages read a token that names it.
TEST_F(LanguagesTest, OfAMarian) {
  const fs::path folder = folder_.path() / "marian";
  copy_family("marian", folder);
  write_word_tokenizer(folder, {{0, "</s>"}, {1, "<unk>"}, {57, ">>deu<<"}, {58, ">>fra<<"}, {60, "<pad>"}},
                       template_of(false, 0));
  serve({folder});
  EXPECT_EQ(languages(0),
            json::parse(R"({"source": [], "target": ["deu", "fra"], "usual_source": "", "usual_target": "",
                            "first_target": ""})"));
  for (const char* const language : {"deu", "fra"}) {
    (void)expect_as_translator(folder, {{"target_language", language}});
    const json tokens = call("tokenize", {{"model", 0}, {"text", "a"}, {"target_language", language}});
    EXPECT_EQ(tokens["tokens"], json({">>" + std::string(language) + "<<", "a", "</s>"}));
  }
}

TEST_F(LanguagesTest, AGivenTranslationBeginsWithItsLanguage) {
  serve({write("m2m100", "__en__", "__fr__", template_of(true, 2))});
  for (const auto& [name, id] : {std::pair("en", 57), std::pair("fr", 58)}) {
    const json done = run({{"model", 0}, {"text", kLetters}, {"target_text", "c d"}, {"target_language", name}});
    EXPECT_EQ(done["output"][0], id);
    EXPECT_EQ(done["text"], "c d");
  }
}

TEST_F(LanguagesTest, TheOfflinePageSaysThem) {
  const fs::path folder = write("nllb", "eng_Latn", "fra_Latn", around_with("eng_Latn", false));
  serve({folder});
  const json done = run({{"model", 0}, {"text", kLetters}, {"target_language", "fra_Latn"}});
  const auto page = [&](const json& spoken) { return api_->call("page", with(reading(0, done), spoken), {}).body; };
  EXPECT_NE(page({{"target_language", "fra_Latn"}}).find("nllbeng_Latn, from eng_Latn to fra_Latn"), std::string::npos);
  EXPECT_NE(page(json::object()).find("nllbeng_Latn, from eng_Latn\""), std::string::npos);
}

TEST_F(LanguagesTest, OthersAreRefused) {
  serve({write("m2m100", "__en__", "__fr__", template_of(true, 2)), write_behind(), folder_.path() / "translates",
         folder_.path() / "continues"});
  const auto error = [&](int64_t model, const char* member, const json& value) {
    return error_of("tokenize", {{"model", model}, {"text", "a"}, {member, value}});
  };
  EXPECT_EQ(error(0, "source_language", "xx"), R"(source_language: expected one of en fr; found "xx")");
  EXPECT_EQ(error(0, "target_language", "a"), R"(target_language: expected one of en fr; found "a")");
  EXPECT_EQ(error(0, "target_language", 7), "target_language: expected a text; found 7");
  EXPECT_EQ(error(1, "target_language", "fr"), R"(target_language: expected one of en_XX fr_XX; found "fr")");
  EXPECT_EQ(error(2, "source_language", "fr"),
            R"(source_language: expected none, because this model names no languages; found "fr")");
  EXPECT_EQ(error(3, "target_language", "fr"),
            R"(target_language: expected none, because this model does not translate; found "fr")");
  const json done = run({{"model", 0}, {"text", kLetters}, {"max_tokens", 4}});
  const json body = with(reading(0, done), {{"target_language", "xx"}});
  for (const char* const name : {"attention", "layers", "experiment", "page"})
    EXPECT_EQ(error_of(name, body), R"(target_language: expected one of en fr; found "xx")") << name;
  EXPECT_EQ(error_of("beam", {{"model", 0}, {"text", "a"}, {"source_language", "xx"}}),
            R"(source_language: expected one of en fr; found "xx")");
  EXPECT_THROW((void)run({{"model", 0}, {"text", "a"}, {"source_language", "xx"}}), Error);
}

}  // namespace
}  // namespace heed::serve
