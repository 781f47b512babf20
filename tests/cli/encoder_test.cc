// heed embed, classify and fill as a person meets them, with small models of Hugging Face.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "heed/io.h"

namespace heed::cli::test {
namespace {

// A copy of one of tests/data/families with a WordPiece vocabulary.
std::string model_in(const Folder& folder, const std::string& name) {
  fs::copy(fs::path(HEED_SOURCE_DIR) / "tests/data/families" / name, folder / name, fs::copy_options::recursive);
  (void)folder.write(name + "/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nparis\nis\nthe\ncapital\nof\nfrance\n");
  return folder / name;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Embed, AVectorForEachLineInThreeFormats) {
  const Folder folder;
  const std::string model = model_in(folder, "st-mean");
  const std::string input = "paris is the capital\n\nfrance\n";
  const Result text = run({"embed", model}, {.input = input});
  EXPECT_EQ(text.status, 0) << text.err;
  const std::vector<std::string> lines = lines_of(text.out);
  ASSERT_EQ(lines.size(), 3u);
  const std::vector<std::string> objects = lines_of(run({"embed", model, "--json"}, {.input = input}).out);
  ASSERT_EQ(objects.size(), 3u);
  const std::string file = folder / "vectors.npy";
  EXPECT_EQ(run({"embed", model, "--output", file}, {.input = input}).status, 0);
  const Tensor array = io::read_npy(file);
  ASSERT_EQ(array.shape(), (Shape{3, 16}));
  EXPECT_EQ(run({"embed", model, "--output", folder / "loud.NPY"}, {.input = input}).status, 0);
  EXPECT_EQ(read(folder / "loud.NPY"), read(file));
  for (size_t i = 0; i < 3; ++i) {
    std::istringstream numbers(lines[i]);
    const nlohmann::json object = nlohmann::json::parse(objects[i]);
    double squares = 0;
    for (size_t e = 0; e < 16; ++e) {
      float number = 0;
      numbers >> number;
      const float want = array.data<float>()[i * 16 + e];
      EXPECT_EQ(number, want);
      EXPECT_EQ(object["vector"][e].get<float>(), want);
      squares += static_cast<double>(want) * static_cast<double>(want);
    }
    EXPECT_NEAR(squares, 1, 1e-5);
  }
  EXPECT_EQ(nlohmann::json::parse(objects[0])["text"], "paris is the capital");
  EXPECT_EQ(run({"embed", model, "france"}).out, lines[2] + "\n");
  // A text of the command line may have several lines.
  EXPECT_EQ(nlohmann::json::parse(run({"embed", model, "--json", "paris\nis"}).out)["text"], "paris\nis");
  EXPECT_EQ(run({"embed", model, "--output", folder / "v.txt", "france"}).status, 0);
  EXPECT_EQ(read(folder / "v.txt"), lines[2] + "\n");
}

TEST(Embed, TheNearestLinesOfAFile) {
  const Folder folder;
  const std::string model = model_in(folder, "st-mean");
  const std::string library = folder.write("library.txt", "france\nparis is the capital of france\nthe\n");
  const Result r = run({"embed", model, "the", "--similar", library, "--top", "2"});
  EXPECT_EQ(r.status, 0) << r.err;
  const std::vector<std::string> lines = lines_of(r.out);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "1\t1.000000\tthe");
  const nlohmann::json object = nlohmann::json::parse(run({"embed", model, "the", "--similar", library, "--json"}).out);
  ASSERT_EQ(object["similar"].size(), 3u);
  EXPECT_EQ(object["similar"][0]["line"], 3);
  EXPECT_GE(object["similar"][0]["cosine"].get<double>(), object["similar"][1]["cosine"].get<double>());
}

TEST(Embed, RefusesLinesAndOptionsByName) {
  const Folder folder;
  const std::string model = model_in(folder, "st-mean");
  const Result bad = run({"embed", model}, {.input = "paris\n\xff\nfrance\n"});
  EXPECT_EQ(bad.status, 1);
  EXPECT_EQ(lines_of(bad.out).size(), 1u);  // the line before it
  EXPECT_EQ(bad.err, "heed embed: standard input, line 2: expected valid UTF-8; found byte 0xff at position 1\n");
  std::string words = "the";
  for (int i = 0; i < 30; ++i) words += " the";
  const Result refused = run({"embed", model}, {.input = "paris\n" + words + "\n"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_EQ(refused.err,
            "heed embed: standard input, line 2: expected at most the 24 tokens that the model reads; found 33 "
            "(--too-long cut reads the beginning)\n");
  const Result cut = run({"embed", model, "--too-long", "cut"}, {.input = "paris\n" + words + "\n"});
  EXPECT_EQ(cut.status, 0);
  EXPECT_EQ(cut.err, "heed embed: warning: standard input, line 2: 33 tokens, cut to 24\n");
  std::string many;
  for (int i = 0; i < 12; ++i) many += words + "\n";
  const std::vector<std::string> warnings = lines_of(run({"embed", model, "--too-long", "cut"}, {.input = many}).err);
  ASSERT_EQ(warnings.size(), 11u);  // ten of them, and how many there were
  EXPECT_EQ(warnings.back(), "heed embed: warning: 12 lines in all are longer than the model reads");
  EXPECT_NE(run({"embed", model, "wo ist der Bahnhof"}).err.find("are unknown to the model"), std::string::npos);
  const std::string text = folder.write("text", "paris\n");
  EXPECT_EQ(run({"embed", model, "--input", text, "--output", text}).status, 2);
  EXPECT_EQ(read(text), "paris\n");
  EXPECT_EQ(run({"embed", model, "--format", "npy"}).status, 2);
  EXPECT_EQ(run({"embed", model, "--format", "json", "--output", folder / "a.npy"}, {.input = "a\n"}).status, 2);
  EXPECT_EQ(run({"embed", model, "--json", "--output", folder / "a.npy"}, {.input = "a\n"}).status, 2);
  EXPECT_EQ(run({"embed", model, "x", "--input", "y"}).status, 2);
  EXPECT_EQ(run({"embed", model, "x", "--similar-prompt", "y"}).status, 2);
  const std::string file = folder / "no.npy";
  EXPECT_EQ(run({"embed", model, "--output", file}, {.input = "paris\n\xff\n"}).status, 1);
  EXPECT_FALSE(fs::exists(file));
  EXPECT_NE(run({"embed", model, "--prompt", "nope"}).err.find("a prompt of this model (document, query); found"),
            std::string::npos);
  const Result early = run({"embed", model, "--output", file + "/in/no/folder.npy"}, {.input = "\xff\n"});
  EXPECT_EQ(early.status, 1);
  EXPECT_NE(early.err.find("cannot be written"), std::string::npos) << early.err;  // found before the text is read
}

TEST(Classify, TextsPairsAndTokens) {
  const Folder folder;
  const std::string model = model_in(folder, "bert-classify");
  const Result r = run({"classify", model}, {.input = "paris\n\nthe capital\n"});
  EXPECT_EQ(r.status, 0) << r.err;
  const std::vector<std::string> lines = lines_of(r.out);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1], "");
  const std::vector<std::string> objects =
      lines_of(run({"classify", model, "--json"}, {.input = "paris\n\nthe capital\n"}).out);
  ASSERT_EQ(objects.size(), 3u);
  const nlohmann::json object = nlohmann::json::parse(objects[0]);
  double sum = 0;
  for (const auto& score : object["scores"]) sum += score.get<double>();
  EXPECT_NEAR(sum, 1, 1e-6);
  EXPECT_EQ(object["scores"][object["label"].get<std::string>()], object["score"]);
  EXPECT_EQ(lines[0].substr(0, lines[0].find('\t')), object["label"].get<std::string>());
  EXPECT_TRUE(nlohmann::json::parse(objects[1])["label"].is_null());

  const std::string pairs = model_in(folder, "bert-cross-encoder");
  const std::vector<std::string> scored =
      lines_of(run({"classify", pairs, "--pairs"}, {.input = "paris\tthe capital\nparis the\tcapital\n"}).out);
  ASSERT_EQ(scored.size(), 2u);
  EXPECT_NE(scored[0], scored[1]);
  const nlohmann::json blank =
      nlohmann::json::parse(run({"classify", pairs, "--pairs", "--json"}, {.input = "\t\n"}).out);
  EXPECT_EQ(blank["text"], "");
  EXPECT_EQ(blank["pair"], "");
  const Result no_tab = run({"classify", pairs, "--pairs"}, {.input = "paris\tfrance\nparis\n"});
  EXPECT_EQ(no_tab.status, 1);
  EXPECT_EQ(lines_of(no_tab.out).size(), 1u);
  EXPECT_EQ(no_tab.err,
            "heed classify: standard input, line 2: expected two texts with a tab between them; found no tab\n");

  const std::string names = model_in(folder, "bert-tokens");
  const nlohmann::json tokens = nlohmann::json::parse(run({"classify", names, "--tokens", " Paris  is"}).out);
  ASSERT_EQ(tokens["tokens"].size(), 2u);
  EXPECT_EQ(tokens["tokens"][1]["token"], "is");
  EXPECT_EQ(tokens["tokens"][1]["begin"], 8);
  EXPECT_EQ(tokens["tokens"][1]["end"], 10);
  EXPECT_EQ(run({"classify", names, "x"}).err,
            "heed classify: " + names +
                ": expected a model that tells classes of texts; found a model that tells classes of tokens (heed "
                "classify --tokens tells them)\n");
  const std::string answers = model_in(folder, "bert-answer");
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--tokens"}}) {
    std::vector<std::string> words = {"classify", answers, "paris"};
    words.insert(words.end(), more.begin(), more.end());
    const Result other = run(words);
    EXPECT_EQ(other.status, 1);
    EXPECT_NE(other.err.find("found a model that finds answers (heed answer finds them)\n"), std::string::npos)
        << other.err;
  }
}

TEST(Classify, ClassesOfOneNameHaveNumbersAmongTheScores) {
  const Folder folder;
  const std::string model = model_in(folder, "bert-classify");
  auto config = nlohmann::json::parse(read(fs::path(model) / "config.json"));
  config["id2label"] = {{"0", "a"}, {"1", "b"}, {"2", "a"}};
  config.erase("label2id");
  (void)folder.write("bert-classify/config.json", config.dump());
  const nlohmann::json found = nlohmann::json::parse(run({"classify", model, "--json", "paris"}).out);
  double sum = 0;
  for (const char* const key : {"a (class 0)", "b", "a (class 2)"}) sum += found["scores"].at(key).get<double>();
  EXPECT_NEAR(sum, 1, 1e-6);
  const Result both = run({"classify", model, "--tokens", "--prompt", "query", "paris"});
  EXPECT_EQ(both.status, 2);
  EXPECT_NE(both.err.find("--prompt or --tokens can be given"), std::string::npos) << both.err;
  EXPECT_NE(run({"classify", model, "--prompt", "query"}).err.find("a prompt of this model (it has none)"),
            std::string::npos);
}

TEST(Classify, TrainingTextsAreNotTakenForTexts) {
  const Folder folder;
  const std::string pairs = model_in(folder, "bert-cross-encoder"), classes = model_in(folder, "bert-classify");
  const Result two = run({"classify", pairs, "--pairs"}, {.input = "paris\tfrance\nparis\tfrance\tcity\n"});
  EXPECT_EQ(two.status, 1);
  EXPECT_EQ(lines_of(two.out).size(), 1u);
  EXPECT_EQ(two.err,
            "heed classify: standard input, line 2: expected two texts with a tab between them; found a second tab, as "
            "in a training text with classes\n");
  const Result one = run({"classify", classes}, {.input = "paris\nthe\tcapital\nfrance\tcapital\n"});
  EXPECT_EQ(one.status, 0);
  EXPECT_EQ(lines_of(one.out).size(), 3u);
  EXPECT_EQ(one.err,
            "heed classify: warning: standard input, line 2: the tab and what stands behind it are read as part of the "
            "text (--pairs reads two texts)\n");
}

TEST(Evaluate, RefusesScoresThatAreNoClasses) {
  const Folder folder;
  const std::string model = model_in(folder, "bert-classify");
  auto config = nlohmann::json::parse(read(model + "/config.json"));
  const std::string label = config["id2label"]["0"], file = folder.write("texts.tsv", "paris\t" + label + "\n");
  EXPECT_EQ(run({"evaluate", model, "--text", file}).status, 0);
  for (const char* const problem : {"regression", "multi_label_classification"}) {
    config["problem_type"] = problem;
    (void)folder.write("bert-classify/config.json", config.dump());
    const Result refused = run({"evaluate", model, "--text", file});
    EXPECT_EQ(refused.status, 1);
    EXPECT_NE(refused.err.find("expected a model that tells one class of each text, or gives one score; found "
                               "'problem_type' '" +
                               std::string(problem) + "' and 3 labels"),
              std::string::npos)
        << refused.err;
  }
}

// As many tokens as `heed classify` reads.
TEST(Evaluate, CutsTextsAsClassifyDoes) {
  const Folder folder;
  const std::string model = model_in(folder, "bert-classify");
  const std::string cut = folder.write("cut.tsv", "paris is\tcalm\n"),
                    whole = folder.write("whole.tsv", "paris is the capital\tcalm\n");
  const auto loss_of = [&](const std::string& file) { return run({"evaluate", model, "--text", file}).out; };
  EXPECT_NE(loss_of(whole), loss_of(cut));
  (void)folder.write("bert-classify/tokenizer_config.json", R"({"model_max_length": 4})");
  EXPECT_EQ(loss_of(whole), loss_of(cut));
  const std::string two = folder.write("two.tsv", "paris is the capital\tcalm\nis the capital of\tsad\n");
  const Result trained = run({"train", "--from", model, "--task", "sequence_classification", "--train-source", two,
                              "--valid-source", two, "--max-updates", "1", "--output", folder / "trained"});
  EXPECT_EQ(trained.status, 0) << trained.err;
  EXPECT_NE((trained.out + trained.err).find("cut to 4 tokens"), std::string::npos) << trained.out << trained.err;
  // What was trained cuts as the training did, whatever file says so, and the training can go on.
  for (const char* const file : {"tokenizer_config.json", "sentence_roberta_config.json"}) {
    SCOPED_TRACE(file);
    fs::remove(fs::path(model) / "tokenizer_config.json");
    const char* const key = file[0] == 't' ? "model_max_length" : "max_seq_length";
    (void)folder.write(std::string("bert-classify/") + file, "{\"" + std::string(key) + "\": 4}");
    const std::string to = folder / ("of " + std::string(file)), mean = folder / ("mean of " + std::string(file));
    ASSERT_EQ(run({"train", "--from", model, "--task", "sequence_classification", "--train-source", two,
                   "--valid-source", two, "--max-updates", "1", "--output", to})
                  .status,
              0);
    const Result more = run({"train", "--resume", "--max-updates", "2", "--output", to});
    EXPECT_EQ(more.status, 0) << more.err;
    ASSERT_EQ(run({"average", to, to, "--output", mean}).status, 0);
    for (const std::string& made : {to, mean})
      EXPECT_EQ(run({"evaluate", made, "--text", whole}).out, run({"evaluate", made, "--text", cut}).out) << made;
  }
  const std::string pairs = folder.write("pairs.tsv", "paris\tfrance\nis\tthe\n"),
                    vectors = model_in(folder, "st-mean");
  (void)folder.write("st-mean/sentence_bert_config.json", R"({"tokenizer_args": {"truncation_side": "left"}})");
  EXPECT_NE(run({"train", "--from", vectors, "--task", "sentence_embedding", "--pairs", pairs, "--max-updates", "1",
                 "--output", folder / "vectors"})
                .err.find("key 'truncation_side': expected a key that heed knows"),
            std::string::npos);
}

TEST(Classify, ScoresThatATrainingLearnt) {
  const Folder folder;
  const std::string model = model_in(folder, "bert-model"), trained = folder / "trained";
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += i % 2 == 0 ? "paris is the capital\t3.5\n" : "france of the\t-1\n";
  const std::string file = folder.write("scores.tsv", lines);
  const Result training =
      run({"train", "--task", "sequence_regression", "--loss", "squared_error", "--from", model, "--train-source", file,
           "--valid-source", file, "--max-updates", "4", "--output", trained});
  EXPECT_EQ(training.status, 0) << training.err;
  EXPECT_NE(training.err.find("  Pearson "), std::string::npos) << training.err;
  EXPECT_NE(training.err.find("  Spearman "), std::string::npos);
  const std::vector<std::string> scored =
      lines_of(run({"classify", trained}, {.input = "paris is the capital\nfrance of the\n"}).out);
  ASSERT_EQ(scored.size(), 2u);
  ASSERT_EQ(scored[0].substr(0, 8), "LABEL_0\t");
  const double high = std::stod(scored[0].substr(8)) - 3.5, low = std::stod(scored[1].substr(8)) + 1;
  const nlohmann::json found = nlohmann::json::parse(run({"evaluate", trained, "--text", file, "--json"}).out);
  EXPECT_NEAR(found["loss"].get<double>(), (high * high + low * low) / 2, 1e-4);
  EXPECT_NEAR(std::abs(found["pearson"].get<double>()), 1, 1e-9);  // there are two texts only
  EXPECT_EQ(found["texts"], 40);
  EXPECT_FALSE(found.contains("perplexity"));
  const Result words = run({"evaluate", trained, "--text", folder.write("words.tsv", "paris\tgood\n")});
  EXPECT_EQ(words.status, 1);
  EXPECT_NE(words.err.find("words.tsv, line 1: expected a number as the score; found 'good'"), std::string::npos)
      << words.err;
}

TEST(Fill, TheLikeliestTokensOfEachMask) {
  const Folder folder;
  const std::string model = model_in(folder, "bert-masked");
  const Result one = run({"fill", model, "paris is the [MASK] of france", "--top", "3"});
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_EQ(lines_of(one.out).size(), 3u);
  const nlohmann::json object =
      nlohmann::json::parse(run({"fill", model, "[MASK] is [MASK]", "--top", "2", "--json"}).out);
  ASSERT_EQ(object["masks"].size(), 2u);
  EXPECT_EQ(object["masks"][1].size(), 2u);
  EXPECT_GE(object["masks"][1][0]["probability"].get<double>(), object["masks"][1][1]["probability"].get<double>());
  const std::vector<std::string> two = lines_of(run({"fill", model, "[MASK] is [MASK]", "--top", "1"}).out);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[1].substr(0, 2), "2\t");
  EXPECT_EQ(run({"fill", model, "paris"}).err,
            "heed fill: TEXT: expected a text with [MASK] where a word is missing; found none\n");
  const Result lines = run({"fill", model, "--top", "1"}, {.input = "the [MASK]\n\nparis is [MASK]\n"});
  EXPECT_EQ(lines.status, 0) << lines.err;
  ASSERT_EQ(lines_of(lines.out).size(), 3u);
  EXPECT_EQ(lines_of(lines.out)[1], "");
}

TEST(Answer, InATextOrInEachLine) {
  const Folder folder;
  const std::string model = model_in(folder, "bert-answer"), context = "paris is the capital of france";
  const Result one = run({"answer", model, "a city", "--context", context});
  EXPECT_EQ(one.status, 0) << one.err;
  const std::string file = folder.write("context.txt", context);
  EXPECT_EQ(run({"answer", model, "--context-file", file}, {.input = "a city\n"}).out, one.out);
  EXPECT_EQ(run({"answer", model}, {.input = "a city\t" + context + "\n\n"}).out, one.out + "\n");
  EXPECT_EQ(run({"answer", model, "--json"}, {.input = "\t\n"}).out, "{\"question\":\"\",\"answers\":[]}\n");
  const nlohmann::json object =
      nlohmann::json::parse(run({"answer", model, "a city", "--context", context, "--json", "--top", "3"}).out);
  EXPECT_EQ(object["question"], "a city");
  ASSERT_EQ(object["answers"].size(), 3u);
  for (const auto& answer : object["answers"]) {
    const size_t begin = answer["begin"], end = answer["end"];
    EXPECT_EQ(context.substr(begin, end - begin), answer["answer"]);
  }
  EXPECT_EQ(one.out.substr(0, one.out.find('\t')), object["answers"][0]["answer"].get<std::string>());
  EXPECT_EQ(
      run({"answer", model, "a city"}).err,
      "heed answer: QUESTION: expected a question and a text with a tab between them, or a question and --context; "
      "found no tab\n");
  EXPECT_EQ(run({"answer", model, "a city", "--context", ""}).err,
            "heed answer: the context: expected a text of at least one token; found an empty one\n");
  const auto error_of = [&](const std::string& line) { return run({"answer", model}, {.input = line}).err; };
  EXPECT_EQ(error_of(" \t" + context + "\n"),
            "heed answer: standard input, line 1, the question: expected a text of at least one token; found an empty "
            "one\n");
  EXPECT_EQ(
      error_of("\na city\t \n"),
      "heed answer: standard input, line 2, the text: expected a text of at least one token; found an empty one\n");
  EXPECT_EQ(run({"answer", model, "--context", context}, {.input = " \t\na city\n"}).out, "\n" + one.out);
  const std::string bad = folder.write("bad.txt", "a\n\xff");
  EXPECT_EQ(run({"answer", model, "a city", "--context-file", bad}).err,
            "heed answer: " + bad + ": expected valid UTF-8; found byte 0xff at position 3\n");
  EXPECT_EQ(run({"answer", model, "x", "--context", "y", "--context-file", file}).status, 2);
  EXPECT_EQ(run({"answer", model_in(folder, "bert-masked"), "x", "--context", "y"}).status, 1);
}

TEST(Answer, AnInterruptIsAnsweredWithinALongText) {
  const Folder folder;
  std::string book = "a city\tparis is the capital of france\na city\t";
  for (int i = 0; i < 200000; ++i) book += "the capital ";  // 30,000 windows
  Conversation heed({"answer", model_in(folder, "bert-answer"), "--top", "1"}, folder.write("input", book + "\n"));
  EXPECT_NE(heed.hear(), "");
  heed.signal(SIGINT);
  EXPECT_EQ(heed.hear_all(), "") << "nothing of the second text";
  const Result r = heed.end();
  EXPECT_EQ(r.status, 130);
  EXPECT_EQ(r.err, "");
}

TEST(Encoders, OtherKindsOfModelsAreNamedWithTheirCommand) {
  const std::string demo = (fs::path(HEED_SOURCE_DIR) / "demo" / "en-zh").string();
  for (const char* const command : {"embed", "classify", "fill", "answer"})
    EXPECT_EQ(run({command, demo, "x"}).err,
              std::string("heed ") + command + ": " + demo +
                  ": expected an encoder-only model; found an encoder-decoder (heed translate runs it)\n");
}

// Found with the model, before there is a line.
TEST(Encoders, AnotherHeadIsRefusedWithoutALine) {
  const Folder folder;
  const std::string masked = model_in(folder, "bert-masked"), classes = model_in(folder, "bert-classify");
  for (const auto& [words, message] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"classify", masked},
            masked + ": expected a model that tells classes of texts; found a model that guesses"},
           {{"classify", classes, "--tokens"},
            classes + ": expected a model that tells classes of tokens; found a model"},
           {{"fill", classes}, classes + ": expected a model that guesses masked tokens; found a model that tells"},
           {{"answer", masked}, masked + ": expected a model that finds answers; found a model that guesses"}}) {
    const Result r = run(words, {.input = ""});
    EXPECT_EQ(r.status, 1) << words[0];
    EXPECT_NE(r.err.find(message), std::string::npos) << r.err;
  }
  EXPECT_EQ(run({"classify", classes}, {.input = ""}).status, 0);
  EXPECT_EQ(run({"fill", masked}, {.input = ""}).status, 0);
  EXPECT_NE(run({"answer", masked, "a city"}).err.find("expected a model that finds answers"), std::string::npos);
}

TEST(Encoders, BlankLinesBecomeEmpty) {
  const Folder folder;
  const std::string blank = "\n \t\n\u3000\n";
  for (const auto& [command, model] : std::vector<std::pair<std::string, std::string>>{
           {"classify", "bert-classify"}, {"fill", "bert-masked"}, {"answer", "bert-answer"}}) {
    const std::string path = model_in(folder, model);
    const Result r = run({command, path}, {.input = blank});
    EXPECT_EQ(r.out, "\n\n\n") << command << r.err;
    const std::vector<std::string> objects = lines_of(run({command, path, "--json"}, {.input = blank}).out);
    ASSERT_EQ(objects.size(), 3u) << command;
    const bool answers = command == "answer";  // the question stands before the tab
    EXPECT_EQ(nlohmann::json::parse(objects[1]).value(answers ? "question" : "text", ""), answers ? " " : " \t");
  }
  const Result bad = run({"fill", folder / "bert-masked"}, {.input = "\xe3\n"});
  EXPECT_NE(bad.err.find("expected valid UTF-8"), std::string::npos) << bad.err;
}

TEST(Encoders, InspectAndInfoReadTheirFolders) {
  const Folder folder;
  const std::string model = model_in(folder, "st-mean");
  (void)folder.write("st-mean/README.md",
                     "---\nlanguage: en\nlicense:\n- apache-2.0\ntags: []\n---\n# A model\nlicense: no\n");
  const nlohmann::json info = nlohmann::json::parse(run({"info", model, "--json"}).out);
  EXPECT_EQ(info["family"], "bert");
  EXPECT_EQ(info["licence"], "apache-2.0");
  for (const auto& [written, read] : std::vector<std::pair<std::string, std::string>>{
           {"license: mit", "mit"},
           {"license: 'mit'  # or not", "mit"},
           {"license: [mit, \"gpl-3.0\"]", "mit, gpl-3.0"},
           {"license:\n- mit\n- gpl-3.0\nlanguage: en", "mit, gpl-3.0"},
           {"license:\n# of both parts\n- mit\n\n- gpl-3.0", "mit, gpl-3.0"},
           {"license: >-\n  other\n  licence\ntags: x", "other licence"},
           {"license:", ""},
           {"tags: x", ""}}) {
    (void)folder.write("st-mean/README.md", "---\nlanguage: en\n" + written + "\n---\nlicense: no\n");
    EXPECT_EQ(nlohmann::json::parse(run({"info", model, "--json"}).out).value("licence", ""), read) << written;
  }
  (void)folder.write("st-mean/README.md", "---\nlicense: m\x1b[31mit\xff\n---\n");
  EXPECT_EQ(run({"info", model}).out.find('\x1b'), std::string::npos);
  (void)folder.write("st-mean/model.safetensors.index.json", "{\"weight_map\": {\"a\": \"model-1.safetensors\"}}");
  EXPECT_EQ(run({"info", model}).status, 0) << "an index that is not used";
  fs::remove(fs::path(model) / "model.safetensors.index.json");
  EXPECT_EQ(info["weight_bytes"], nlohmann::json({{"f32", info["parameters"].get<int64_t>() * 4}}));
  const std::string int8 = (folder / "int8").string();
  ASSERT_EQ(run({"convert", (fs::path(HEED_SOURCE_DIR) / "demo" / "en-zh").string(), int8, "--weights", "int8"}).status,
            0);
  (void)folder.write("int8/README.md", "---\nlicense: mit\n---\n");
  const nlohmann::json of_int8 = nlohmann::json::parse(run({"info", int8, "--json"}).out);
  EXPECT_EQ(of_int8["licence"], "mit");
  EXPECT_GT(of_int8["weight_bytes"].value("int8", 0), 0) << of_int8["weight_bytes"];
  EXPECT_NE(run({"info", int8}).out.find("\nin the folder       "), std::string::npos);
  EXPECT_EQ(run({"info", model + "/model.safetensors"}).err,
            "heed info: expected the folder of a model or its config.json; found the weights '" + model +
                "/model.safetensors'\n");
  EXPECT_EQ(info["config"]["width"], 16);
  int64_t parameters = 0;
  for (const auto& [name, tensor] : io::read_safetensors(fs::path(model) / "model.safetensors").tensors)
    parameters += tensor.numel();
  EXPECT_EQ(info["parameters"], parameters);
  const std::string table = run({"info", model}).out;
  EXPECT_EQ(table.substr(0, 25), "family              bert\n");
  EXPECT_NE(table.find("\nencoder_layers "), std::string::npos);
  EXPECT_EQ(table.find("\ndecoder_layers "), std::string::npos) << "of a part that it does not have";
  EXPECT_NE(run({"info", model_in(folder, "bert-classify")}).out.find("\nlabels              sad, calm, glad\n"),
            std::string::npos);
  const std::string answers = model_in(folder, "bert-answer");
  EXPECT_NE(run({"info", answers}).out.find("\nhead                answers\n"), std::string::npos);
  EXPECT_TRUE(nlohmann::json::parse(run({"info", answers, "--json"}).out)["finds_answers"]);
  const nlohmann::json record = nlohmann::json::parse(run({"inspect", model, "Paris is", "--json"}).out);
  EXPECT_NE(record.dump().find("[CLS]"), std::string::npos);
}

}  // namespace
}  // namespace heed::cli::test
