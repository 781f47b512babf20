// heed translate as a person meets it: a text in the command, a terminal, an interrupt, a pipe that closes.
#include <gtest/gtest.h>

#include <pty.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/program.h"

namespace heed::cli::test {
namespace {

const std::string kTranslator = (fs::path(HEED_SOURCE_DIR) / "demo" / "en-zh").string();

// The demo's sentences again and again: far more than can be translated before somebody looks at the first.
std::string many_lines(int times) {
  const std::string twelve = read(fs::path(kTranslator).parent_path() / "sentences.txt");
  std::string text;
  for (int i = 0; i < times; ++i) text += twelve;
  return text;
}

TEST(Translate, ATextInTheCommand) {
  const Result r = run({"translate", kTranslator, "Where is the station?"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.out, "车站在哪里？\n");
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(run({"translate", kTranslator, "Where is\nthe station?"}).out, r.out) << "one text, one line";
  const auto json = nlohmann::json::parse(run({"translate", kTranslator, "Where is the station?", "--json"}).out);
  EXPECT_EQ(json["source"], "Where is the station?");
  EXPECT_EQ(json["translations"][0]["text"], "车站在哪里？");
}

TEST(Translate, ALanguageIsOneThatTheModelKnows) {
  EXPECT_EQ(run({"translate", kTranslator, "x", "--target-language", "fra_Latn"}).err,
            "heed translate: expected no source_language and no target_language, because this model knows no language "
            "by name; found 'fra_Latn'\n");
  const Folder folder;
  for (const char* const file : {"config.json", "generation_config.json", "model.safetensors"})
    fs::copy(fs::path(HEED_SOURCE_DIR) / "tests/data/families/nllb" / file, folder / file);
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\neng_Latn\nfra_Latn\n__de__\nde_DE\n";
  for (int id = 8; id < 61; ++id) vocabulary += "token" + std::to_string(id) + "\n";
  const std::string model = fs::path(folder.write("vocab.txt", vocabulary)).parent_path().string();
  EXPECT_EQ(run({"translate", model, "token9", "--target-language", "fra_Latn"}).status, 0);
  EXPECT_EQ(run({"translate", model, "token9", "--source-language", "de"}).status, 0);
  EXPECT_EQ(run({"translate", model, "token9", "--target-language", "token9"}).status, 1);  // a piece is no language
  const Result r = run({"translate", model, "token9", "--target-language", "French"});
  EXPECT_EQ(r.status, 1);
  EXPECT_EQ(r.err,
            "heed translate: expected a language that the model knows (eng_Latn fra_Latn de de_DE); found "
            "'French'\n");
}

// A copy of a family with special tokens for these languages, from id 57 on.
std::string model_of_languages(const Folder& folder, const std::string& name,
                               const std::vector<std::string>& languages) {
  for (const char* const file : {"config.json", "generation_config.json", "model.safetensors"})
    fs::copy(fs::path(HEED_SOURCE_DIR) / "tests/data/families" / name / file, folder / file);
  nlohmann::json vocabulary, added = nlohmann::json::array();
  for (int id = 0; id < 61; ++id) vocabulary["token" + std::to_string(id)] = id;
  int id = 57 - (static_cast<int>(languages.size()) > 4 ? static_cast<int>(languages.size()) - 4 : 0);
  for (const std::string& language : languages) {
    vocabulary.erase("token" + std::to_string(id));
    vocabulary[language] = id;
    added.push_back({{"id", id++},
                     {"content", language},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const nlohmann::json tokenizer = {{"added_tokens", added},
                                    {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
                                    {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "token3"}}}};
  return fs::path(folder.write("tokenizer.json", tokenizer.dump())).parent_path().string();
}

TEST(Translate, AModelOfSeveralLanguagesMustBeToldOne) {
  const Folder folder, marian;
  const std::string model = model_of_languages(folder, "nllb", {"eng_Latn", "fra_Latn", "deu_Latn"});
  const Result none = run({"translate", model, "token9"});
  EXPECT_EQ(none.status, 1);
  EXPECT_EQ(none.err,
            "heed translate: expected a target_language, because the model writes several (eng_Latn fra_Latn deu_Latn);"
            " found none (--target-language names it)\n");
  EXPECT_EQ(run({"translate", model, "token9", "--target-language", "deu_Latn"}).status, 0);
  EXPECT_EQ(run({"inspect", model, "token9"}).status, 1);
  auto settings = nlohmann::json::parse(std::ifstream(folder / "generation_config.json"));
  settings["forced_bos_token_id"] = 58;
  (void)folder.write("generation_config.json", settings.dump());
  const Result forced = run({"translate", model, "token9", "--json"});
  EXPECT_EQ(forced.out, run({"translate", model, "token9", "--json", "--target-language", "fra_Latn"}).out);
  // The token may stand in the text.
  const std::string arrows = model_of_languages(marian, "marian", {">>deu<<", ">>fra<<"});
  EXPECT_EQ(run({"translate", arrows, ">>deu<< token9"}).status, 0);
  const auto in_language = [&](const char* name) {
    return run({"translate", arrows, "token9", "--target-language", name});
  };
  EXPECT_NE(in_language("deu").out, in_language("fra").out);
  const Result spelled = in_language(">>deu<<");
  EXPECT_EQ(spelled.status, 0) << spelled.err;
  EXPECT_EQ(spelled.out, in_language("deu").out);
  EXPECT_EQ(run({"translate", arrows, "token9", "--target-language", "eng"}).err,
            "heed translate: expected a target_language that the model knows (deu fra); found 'eng'\n");
}

TEST(Translate, OfManyLanguagesTheFirstAreNamed) {
  const Folder folder;
  std::vector<std::string> languages;
  for (char c = 'a'; c < 'm'; ++c) languages.push_back(std::string("aa") + c + "_Latn");
  EXPECT_EQ(run({"translate", model_of_languages(folder, "nllb", languages), "token9"}).err,
            "heed translate: expected a target_language, because the model writes several (aaa_Latn aab_Latn aac_Latn "
            "aad_Latn aae_Latn aaf_Latn aag_Latn aah_Latn and 4 more); found none (--target-language names it)\n");
}

TEST(Translate, WarnsThatNothingIsDrawnAtRandom) {
  const Folder folder;
  const std::string model = model_of_languages(folder, "marian", {});
  const Result plain = run({"translate", model, "token9"});
  EXPECT_EQ(plain.err, "");
  auto settings = nlohmann::json::parse(std::ifstream(folder / "generation_config.json"));
  settings.update({{"do_sample", true}, {"temperature", 0.7}});
  (void)folder.write("generation_config.json", settings.dump());
  const Result sampled = run({"translate", model, "token9"});
  EXPECT_EQ(sampled.out, plain.out);
  EXPECT_EQ(sampled.err, "heed translate: warning: " + model +
                             " asks for tokens drawn at random (\"do_sample\"); heed searches for the best "
                             "translation\n");
}

TEST(Translate, AModelMayBeginWithTheLanguageThatItWrites) {  // mBART's first models
  const Folder folder;
  const fs::path family = fs::path(HEED_SOURCE_DIR) / "tests/data/families/mbart";
  for (const char* const file : {"config.json", "model.safetensors"}) fs::copy(family / file, folder / file);
  const auto begin_with = [&](int id, int forced = -1) {  // this file wins over config.json, which says 2
    auto settings = nlohmann::json::parse(std::ifstream(family / "generation_config.json"));
    settings["decoder_start_token_id"] = id;
    if (forced >= 0) settings["forced_bos_token_id"] = forced;
    (void)folder.write("generation_config.json", settings.dump());
  };
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nen_XX\nro_RO\n";
  for (int id = 6; id < 61; ++id) vocabulary += "token" + std::to_string(id) + "\n";
  const std::string model = fs::path(folder.write("vocab.txt", vocabulary)).parent_path().string();
  begin_with(4);
  const Result english = run({"translate", model, "token9", "--json"});
  begin_with(5);
  const Result romanian = run({"translate", model, "token9", "--json"});
  ASSERT_EQ(romanian.status, 0) << romanian.err;
  EXPECT_NE(english.out, romanian.out);
  EXPECT_EQ(run({"translate", model, "token9", "--json", "--target-language", "ro_RO"}).out, romanian.out);
  EXPECT_EQ(run({"translate", model, "token9", "--json", "--target-language", "en_XX"}).out, english.out);
  for (const int begin : {5, 2}) {  // the folder's own language is what it writes without a name, too
    begin_with(begin, 5);
    const Result forced = run({"translate", model, "token9", "--json"});
    EXPECT_EQ(run({"translate", model, "token9", "--json", "--target-language", "ro_RO"}).out, forced.out) << begin;
    EXPECT_NE(run({"translate", model, "token9", "--json", "--target-language", "en_XX"}).out, forced.out) << begin;
  }
}

TEST(Translate, ALongLineIsTranslatedSentenceBySentence) {
  std::string line, expected;
  for (int i = 0; i < 30; ++i) line += "Where is the station? ", expected += "车站在哪里？";
  const Result split = run({"translate", kTranslator}, {.input = "Where is the station?\n" + line + "\n"});
  EXPECT_EQ(split.status, 0);
  EXPECT_EQ(split.out, "车站在哪里？\n" + expected + "\n");
  EXPECT_EQ(split.err, "heed translate: warning: standard input, line 2: 150 tokens, translated in 30 parts\n");
  const Result refused = run({"translate", kTranslator, "--too-long", "refuse"}, {.input = line});
  EXPECT_EQ(refused.status, 1);
  EXPECT_EQ(refused.err,
            "heed translate: standard input, line 1: expected at most the 127 tokens that the model reads; found 150 "
            "(--too-long split translates it sentence by sentence)\n");
}

TEST(Translate, AFileIsNoText) {
  const Folder folder;
  const std::string file = folder.write("english.txt", "Where is the station?\n");
  const Result r = run({"translate", kTranslator, file});
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("--input " + file), std::string::npos) << r.err;
  EXPECT_EQ(run({"translate", kTranslator, "--input", file}).out, "车站在哪里？\n");
  EXPECT_EQ(run({"translate", kTranslator, "x", "--input", file}).status, 2);
  EXPECT_EQ(run({"translate", kTranslator, "--input", "-"}, {.input = "Where is the station?\n"}).out,
            "车站在哪里？\n");
  const Result missing = run({"translate", kTranslator, "--input", "/no/such"});
  EXPECT_EQ(missing.err, "heed translate: '/no/such' cannot be read: No such file or directory\n");
}

TEST(Translate, ATerminalIsToldWhatIsRead) {
  int terminal = 0, other_side = 0;
  ASSERT_EQ(openpty(&terminal, &other_side, nullptr, nullptr, nullptr), 0);
  std::vector<char> name(256);
  ASSERT_EQ(ttyname_r(other_side, name.data(), name.size()), 0);
  Conversation heed({"translate", kTranslator}, name.data());
  const std::string typed = "Where is the station?\n\x04";  // Ctrl-D
  ASSERT_GT(::write(terminal, typed.data(), typed.size()), 0);
  EXPECT_EQ(heed.hear(), "车站在哪里？");
  const Result r = heed.end();
  EXPECT_EQ(r.status, 0);
  EXPECT_NE(r.err.find("standard input"), std::string::npos) << r.err;
  close(terminal);
  close(other_side);
}

TEST(Translate, AnInterruptIsAnsweredAndWhatIsDoneIsWritten) {
  const Folder folder;
  const std::string input = many_lines(200);  // 2,400 lines
  const std::string file = folder.write("input", input);
  std::istringstream first(read(fs::path(kTranslator).parent_path() / "chinese.txt"));
  std::vector<std::string> chinese;
  for (std::string line; std::getline(first, line);) chinese.push_back(line);
  for (const auto& [signal, status] : {std::pair(SIGINT, 130), std::pair(SIGTERM, 143)}) {
    Conversation heed({"translate", kTranslator}, file);
    EXPECT_EQ(heed.hear(), chinese[0]) << "long before the end";
    heed.signal(signal);
    std::istringstream rest(heed.hear_all());
    size_t lines = 1;
    for (std::string line; std::getline(rest, line); ++lines) EXPECT_EQ(line, chinese[lines % chinese.size()]);
    EXPECT_LT(lines, 2400u);
    const Result r = heed.end();
    EXPECT_EQ(r.status, status);
    EXPECT_EQ(r.err, "");
  }
}

TEST(Translate, AFileThatIsNotItsOwnStaysAsItWas) {
  const Folder folder;
  const std::string output = (folder / "output").string();
  const std::string input = many_lines(1);
  const std::string whole = run({"translate", kTranslator}, {.input = input}).out;
  const std::string first = whole.substr(0, whole.find('\n') + 1);
  const auto go_on = [&](const std::string& begun) {
    (void)folder.write("output", begun);
    return run({"translate", kTranslator, "--resume-output", output}, {.input = input});
  };
  for (const std::string& other : {std::string("one line\nand half of one"), first + "other\nhalf",
                                   std::string("no end of a line"), std::string(3000000, 'x')}) {
    const Result r = go_on(other);
    EXPECT_EQ(r.status, 2);
    EXPECT_NE(
        r.err.find(other.find('\n') == std::string::npos ? "found no whole line in '" : "is not what this command"),
        std::string::npos)
        << r.err;
    EXPECT_TRUE(read(output) == other) << "it had " << other.substr(0, 100);
  }
  for (const std::string& begun : {std::string(), first, first + "half", whole + "half", whole}) {
    const Result r = go_on(begun);
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(read(output), whole) << "it had " << begun;
  }
}

TEST(Translate, AClosedPipeEndsItQuietly) {
  const Folder folder;
  Conversation heed({"translate", kTranslator}, folder.write("input", many_lines(200)));
  EXPECT_NE(heed.hear(), "");
  heed.stop_listening();  // as `| head -1` does
  const Result r = heed.end();
  EXPECT_EQ(r.status, 141);
  EXPECT_EQ(r.err, "");
}

TEST(Evaluate, TheReportStandsBesideTranslationsOnStandardOutput) {
  const Folder folder;
  const std::string source = folder.write("en", "Where is the station?\n"),
                    target = folder.write("zh", "车站在哪里？\n");
  for (const char* quiet : {"", "--quiet"}) {
    std::vector<std::string> arguments = {"evaluate", kTranslator, "--source", source,       "--target",
                                          target,     "--output",  "-",        "--tokenize", "zh"};
    if (*quiet != '\0') arguments.emplace_back(quiet);
    const Result r = run(arguments);
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(r.out, "车站在哪里？\n");
    EXPECT_NE(r.err.find("BLEU = 100"), std::string::npos) << quiet << r.err;
  }
}

TEST(Evaluate, TranslationsTakeThePlaceOfNoFileThatIsRead) {
  const Folder folder;
  const std::string source = folder.write("en", "Where is the station?\n"),
                    target = folder.write("zh", "车站在哪里？\n"), pairs = folder.write("pairs", "a\tb\n");
  for (const std::string& output : {source, target}) {
    const Result r = run({"evaluate", kTranslator, "--source", source, "--target", target, "--output", output});
    EXPECT_EQ(r.status, 2);
    EXPECT_EQ(r.err, "heed evaluate: --output takes another file than those that are read; found '" + output + "'\n");
  }
  EXPECT_EQ(run({"evaluate", kTranslator, "--pairs", pairs, "--output", pairs}).status, 2);
  EXPECT_EQ(read(source), "Where is the station?\n");
  EXPECT_EQ(read(target), "车站在哪里？\n");
  EXPECT_EQ(read(pairs), "a\tb\n");
}

TEST(Translate, ALineOfWhiteSpaceIsAnEmptyOne) {
  const Result r = run({"translate", kTranslator}, {.input = "\t\n \n\u00a0\u3000\nWhere is the station?\n"});
  EXPECT_EQ(r.out, "\n\n\n车站在哪里？\n");
  EXPECT_EQ(r.err, "");
}

TEST(Translate, KeysAndValuesAreKeptInTheTypeThatIsAskedFor) {
  const auto scores = [](const std::string& cache) {
    const Result r = run({"translate", kTranslator, "Where is the station?", "--json", "--cache", cache});
    EXPECT_EQ(r.status, 0) << r.err;
    return nlohmann::json::parse(r.out)["translations"][0];
  };
  const auto plain = scores("f32");
  EXPECT_EQ(plain, nlohmann::json::parse(
                       run({"translate", kTranslator, "Where is the station?", "--json"}).out)["translations"][0]);
  for (const char* cache : {"f16", "bf16", "int8"}) {
    const auto found = scores(cache);
    EXPECT_EQ(found["text"], "车站在哪里？") << cache;
    EXPECT_NE(found["log_probs"], plain["log_probs"]) << cache;
    EXPECT_NEAR(found["score"].get<double>(), plain["score"].get<double>(), 0.05) << cache;
  }
  const Result wrong = run({"translate", kTranslator, "x", "--cache", "i4"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_EQ(wrong.err, "heed translate: --cache takes f32, f16, bf16 or int8; found 'i4'\n");
}

TEST(Translate, WarnsOfTextThatTheModelDoesNotKnow) {
  const Result r = run({"translate", kTranslator}, {.input = "Where is the station?\n车站在哪里？\n火车来了。\n"});
  EXPECT_EQ(r.status, 0);
  EXPECT_EQ(std::count(r.out.begin(), r.out.end(), '\n'), 3);
  std::istringstream lines(r.err);
  std::string line;
  std::getline(lines, line);
  EXPECT_TRUE(line.starts_with("heed translate: warning: standard input, line 2: ")) << line;
  EXPECT_NE(line.find("unknown to the model"), std::string::npos) << line;
  std::getline(lines, line);
  EXPECT_EQ(line, "heed translate: warning: 2 lines in all are mostly unknown to the model");
  EXPECT_FALSE(std::getline(lines, line)) << line;
}

}  // namespace
}  // namespace heed::cli::test
