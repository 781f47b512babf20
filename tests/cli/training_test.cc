// A model from its training to its translations, by the program alone.
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "cli/program.h"

namespace heed::cli::test {
namespace {

const char* const kNumbers[] = {"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"};

// "3 7" -> "three seven": what a small network learns in seconds.
struct Corpus {
  explicit Corpus(const Folder& folder) {
    std::mt19937 random(1);
    std::string source, target;
    for (int i = 0; i < 600; ++i) {
      const unsigned length = 1 + static_cast<unsigned>(random() % 4);
      for (unsigned k = 0; k < length; ++k) {
        const unsigned digit = static_cast<unsigned>(random() % 10);
        source += (k == 0 ? "" : " ") + std::to_string(digit);
        target += std::string(k == 0 ? "" : " ") + kNumbers[digit];
      }
      source += '\n';
      target += '\n';
    }
    source_file = folder.write("source", source);
    target_file = folder.write("target", target);
  }
  [[nodiscard]] std::vector<std::string> train(const std::string& output, const std::string& updates) const {
    return {"train",
            "--threads",
            "1",
            "--train-source",
            source_file,
            "--train_target",
            target_file,
            "--valid_source",
            source_file,
            "--valid_target",
            target_file,
            "--tokenizer",
            "pieces",
            "--preset",
            "tiny",
            "--set",
            "model.encoder_layers=1",
            "--set",
            "model.decoder_layers=1",
            "--set",
            "model.width=32",
            "--set",
            "model.feed_forward=64",
            "--set",
            "model.dropout=0",
            "--schedule.peak",
            "0.01",
            "--schedule.warmup",
            "20",
            "--batch_tokens",
            "400",
            "--max_updates",
            updates,
            "--validate_every",
            "100",
            "--log_every",
            "10",
            "--output",
            output};
  }
  std::string source_file, target_file;
};

std::vector<std::string> with(std::vector<std::string> arguments, const std::string& another) {
  arguments.push_back(another);
  return arguments;
}

// One training serves all checks: each test is a process of its own, and training takes the time.
TEST(Training, FromTextToTranslations) {
  const Folder folder;
  const Corpus corpus(folder);
  const std::string model = (folder / "model").string();
  {
    SCOPED_TRACE("train");
    const Result r = run(with(corpus.train(model, "300"), "--json"));
    ASSERT_EQ(r.status, 0) << r.err;
    EXPECT_NE(r.err.find("validation"), std::string::npos) << r.err;
    const std::string last = "validation loss of the model: ";
    const size_t at = r.err.find(last);
    ASSERT_NE(at, std::string::npos) << r.err;
    EXPECT_EQ(r.err.find('\n', at) - at, last.size() + 6) << "four decimals: " << r.err.substr(at);
    EXPECT_EQ(r.err.find('\x1b'), std::string::npos) << "no terminal, no colours";
    const auto json = nlohmann::json::parse(r.out);
    EXPECT_EQ(json["outcome"], "finished");
    EXPECT_EQ(json["updates"], 300);
    for (const char* file : {"config.json", "model.safetensors", "recipe.json", "log.jsonl"})
      EXPECT_TRUE(fs::exists(folder / "model" / file)) << file;
  }
  {
    SCOPED_TRACE("a folder in use");
    const Result r = run(corpus.train(model, "300"));
    EXPECT_EQ(r.status, 1);
  }
  {
    SCOPED_TRACE("translate");
    const Result r = run({"translate", model}, {.input = "3 7\n\n1 2 3\n   \n9"});
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(r.out, "three seven\n\none two three\n\nnine\n");
    EXPECT_EQ(r.err, "");
    EXPECT_EQ(run({"translate", model}, {.input = ""}).out, "");
    EXPECT_EQ(run({"translate", model, "--beam", "1", "--batch-tokens", "1"}, {.input = "3 7\r\n1 2 3\r\n"}).out,
              "three seven\none two three\n");
    EXPECT_EQ(run({"translate", model, "--input", folder.write("one", "4\n")}).out, "four\n");
  }
  {
    SCOPED_TRACE("answers before the input ends, and leaves when interrupted");
    int to[2], from[2];
    ASSERT_EQ(pipe2(to, O_CLOEXEC), 0);
    ASSERT_EQ(pipe2(from, O_CLOEXEC), 0);
    const pid_t child = fork();
    if (child == 0) {
      dup2(to[0], 0);
      dup2(from[1], 1);
      execl(HEED_PROGRAM, HEED_PROGRAM, "translate", model.c_str(), nullptr);
      _exit(127);
    }
    for (const auto& [line, want] : {std::pair("3 7\n", "three seven\n"), std::pair("4\n", "four\n")}) {
      ASSERT_GT(write(to[1], line, std::strlen(line)), 0);
      char answer[64] = {};
      ASSERT_GT(::read(from[0], answer, sizeof answer - 1), 0);
      EXPECT_STREQ(answer, want);
    }
    kill(child, SIGINT);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 130);
    for (const int end : {to[0], to[1], from[0], from[1]}) close(end);
  }
  {
    SCOPED_TRACE("n-best and scores");
    const Result r = run({"translate", model, "--n-best", "2", "--beam", "4"}, {.input = "3 7\n"});
    EXPECT_TRUE(r.out.starts_with("1\t-")) << r.out;
    EXPECT_NE(r.out.find("\tthree seven\n2\t-"), std::string::npos) << r.out;
    const auto json = nlohmann::json::parse(run({"translate", model, "--json"}, {.input = "3 7\n"}).out);
    EXPECT_EQ(json["source"], "3 7");
    EXPECT_EQ(json["translations"][0]["text"], "three seven");
    EXPECT_EQ(json["translations"][0]["log_probs"].size(), 3u);
    EXPECT_TRUE(json["translations"][0]["finished"].get<bool>());
  }
  {
    SCOPED_TRACE("the same translations by any number of threads");
    const Setting input = {.input = read(corpus.source_file)};
    const std::string one = run({"translate", model, "--scores", "--threads", "1"}, input).out;
    EXPECT_EQ(one, run({"translate", model, "--scores", "--threads", "3", "--batch-tokens", "333"}, input).out);
  }
  {
    SCOPED_TRACE("bad input");
    const Result r = run({"translate", model}, {.input = "3 7\n1 \xC3(\n"});
    EXPECT_EQ(r.status, 1);
    EXPECT_EQ(r.out, "three seven\n") << "what comes before is translated";
    EXPECT_NE(r.err.find("standard input, line 2"), std::string::npos) << r.err;
    std::string longest;
    for (int i = 0; i < 2000; ++i) longest += "5 ";
    const Result refused = run({"translate", model, "--too-long", "refuse"}, {.input = "1\n" + longest + "\n"});
    EXPECT_EQ(refused.status, 1);
    EXPECT_NE(refused.err.find("line 2"), std::string::npos) << refused.err;
    const Result cut =
        run({"translate", model, "--too-long", "cut", "--max-length", "5"}, {.input = longest + "\n1\n"});
    EXPECT_EQ(cut.status, 0) << cut.err;
    EXPECT_TRUE(cut.out.ends_with("\none\n"));
    EXPECT_NE(cut.err.find("line 1"), std::string::npos) << cut.err;
    const Result full = run({"translate", model}, {.input = "1\n", .output_file = "/dev/full"});
    EXPECT_EQ(full.status, 1);
  }
  {
    SCOPED_TRACE("evaluate");
    const Result r = run({"evaluate", model, "--source", corpus.source_file, "--target", corpus.target_file,
                          "--tokenize", "none", "--json", "--output", (folder / "hyp").string()});
    ASSERT_EQ(r.status, 0) << r.err;
    const auto json = nlohmann::json::parse(r.out);
    EXPECT_LT(json["loss"].get<double>(), 0.5);
    EXPECT_NEAR(json["perplexity"].get<double>(), std::exp(json["loss"].get<double>()), 1e-6);
    EXPECT_EQ(json["sentences"], 600);
    EXPECT_GT(json["bleu"]["score"].get<double>(), 60);
    const auto scored = nlohmann::json::parse(run({"evaluate", "--hypotheses", (folder / "hyp").string(), "--target",
                                                   corpus.target_file, "--tokenize", "none", "--json"})
                                                  .out);
    EXPECT_EQ(scored["bleu"], json["bleu"]);
    const Result printed = run({"evaluate", model, "--source", corpus.source_file, "--target", corpus.target_file,
                                "--tokenize", "none", "--output", "-"});
    EXPECT_EQ(printed.out, read(folder / "hyp"));
    EXPECT_NE(printed.err.find("perplexity"), std::string::npos) << printed.err;
    EXPECT_EQ(run({"evaluate", model, "--source", corpus.source_file, "--target", corpus.target_file, "--no-bleu",
                   "--output", "-"})
                  .status,
              2);
    const std::string pairs = folder.write("pairs", "3 7\tthree seven\n3 7\tthree and seven\n4\tfour\n");
    const Result of_pairs = run({"evaluate", model, "--pairs", pairs});
    EXPECT_EQ(of_pairs.status, 0) << of_pairs.err;
    EXPECT_EQ(of_pairs.err, "");
    const std::string without = folder.write("without", "3 7\tthree seven\n4\t\n");  // a line without a reference
    const auto left = nlohmann::json::parse(run({"evaluate", model, "--pairs", without, "--no-bleu", "--json"}).out);
    EXPECT_EQ(left["left_out"], 1);
    const Result swapped = run({"evaluate", model, "--pairs", folder.write("swapped", "three seven\t3 7\n")});
    EXPECT_NE(swapped.err.find("swapped: 10 of 10 characters are unknown to the model"), std::string::npos)
        << swapped.err;
    const Result unequal = run({"evaluate", model, "--source", corpus.source_file, "--target", pairs});
    EXPECT_EQ(unequal.status, 1);
    EXPECT_NE(unequal.err.find(pairs), std::string::npos) << unequal.err;
  }
  {
    SCOPED_TRACE("average and info");
    const std::string mean = (folder / "mean").string();
    const Result r = run({"average", model, "--last", "2", "--output", mean});
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(run({"translate", mean}, {.input = "3 7\n"}).status, 0);
    EXPECT_EQ(run({"average", model, "--last", "99", "--output", mean + "2"}).status, 1);
    EXPECT_NE(r.err.find("wrote the mean of 2 models to " + mean + "\n"), std::string::npos) << r.err;
    const Result one = run({"average", model, "--output", mean + "3"});
    EXPECT_EQ(one.status, 0) << one.err;
    EXPECT_EQ(one.err, "wrote a copy of one model to " + mean + "3\n");
    const Result again = run({"average", model, "--output", mean + "3"});
    EXPECT_EQ(again.status, 2);
    EXPECT_EQ(again.err, "heed average: a new or empty folder is expected; found files in '" + mean +
                             "3' (--force writes over them)\n");
    const auto json = nlohmann::json::parse(run({"info", model, "--json"}).out);
    EXPECT_EQ(json["config"]["width"], 32);
  }
  {
    SCOPED_TRACE("a model of another kind");
    EXPECT_EQ(run({"generate", model, "--prompt", "x"}).status, 1);
  }
  {
    SCOPED_TRACE("a damaged model");
    const std::string weights = (folder / "model" / "model.safetensors").string();
    fs::resize_file(weights, fs::file_size(weights) / 2);
    const Result r = run({"translate", model}, {.input = "1\n"});
    EXPECT_EQ(r.status, 1);
    EXPECT_NE(r.err.find("model.safetensors"), std::string::npos) << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  }
}

TEST(Training, InterruptedSavesAndGoesOn) {
  const Folder folder;
  const Corpus corpus(folder);
  for (const auto& [signal, status] : {std::pair(SIGINT, 130), std::pair(SIGTERM, 143), std::pair(SIGHUP, 129)}) {
    const std::string model = (folder / std::to_string(signal)).string();
    const Result stopped = run(corpus.train(model, "100000"), {.signal = signal, .when = "update"});
    EXPECT_EQ(stopped.status, status) << stopped.err;
    EXPECT_NE(stopped.err.find("interrupted"), std::string::npos) << stopped.err;
    ASSERT_TRUE(fs::exists(fs::path(model) / "checkpoints")) << stopped.err;
    EXPECT_FALSE(fs::is_empty(fs::path(model) / "checkpoints"));
    const Result resumed = run({"train", "--output", model, "--resume"}, {.signal = signal, .when = "update"});
    EXPECT_EQ(resumed.status, status) << resumed.err;
  }
}

// What training makes, inspect shows: the model has one token, the mask, that its tokenizer has not.
TEST(Training, AMaskedLanguageModelIsInspected) {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 100; ++i) text += "the cat sat on the mat\nthe dog ran\n";
  const std::string model = (folder / "model").string(), page = (folder / "page.html").string();
  const Result trained = run({"train",
                              "--task",
                              "masked_language_model",
                              "--train-source",
                              folder.write("text", text),
                              "--tokenizer",
                              "pieces",
                              "--preset",
                              "tiny",
                              "--set",
                              "model.encoder_layers=1",
                              "--set",
                              "model.width=32",
                              "--set",
                              "model.feed_forward=64",
                              "--max-updates",
                              "3",
                              "--log-every",
                              "2",
                              "--threads",
                              "1",
                              "--output",
                              model});
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_NE(trained.err.find("finished after 3 updates"), std::string::npos) << trained.err;
  const Result r = run({"inspect", model, "the cat", "--output", page});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_TRUE(fs::exists(page));

  // In the layout of Hugging Face it still has a mask and a tokenizer, and can be trained further.
  const std::string bert = (folder / "bert").string(), gap = "the [MASK] sat [MASK]";
  const Result converted = run({"convert", model, bert, "--layout", "huggingface"});
  ASSERT_EQ(converted.status, 0);
  EXPECT_EQ(converted.err.find("tokenizer"), std::string::npos) << converted.err;
  const auto settings = nlohmann::json::parse(read(fs::path(bert) / "tokenizer_config.json"));
  EXPECT_EQ(settings["tokenizer_class"], "PreTrainedTokenizerFast");
  EXPECT_EQ(settings["mask_token"], "[MASK]");
  EXPECT_EQ(settings["model_max_length"], nlohmann::json::parse(read(fs::path(model) / "config.json"))["max_length"]);
  const auto before = nlohmann::json::parse(run({"fill", model, gap, "--json"}).out)["masks"];
  const auto after = nlohmann::json::parse(run({"fill", bert, gap, "--json"}).out)["masks"];
  ASSERT_EQ(after.size(), 2U);
  for (size_t place = 0; place < 2; ++place) {
    ASSERT_EQ(after[place].size(), before[place].size());
    for (size_t i = 0; i < after[place].size(); ++i) {
      EXPECT_EQ(after[place][i]["token"], before[place][i]["token"]);
      EXPECT_NEAR(after[place][i]["probability"].get<double>(), before[place][i]["probability"].get<double>(), 1e-6);
    }
  }
  const std::string more = (folder / "more").string();
  const Result further = run({"train", "--task", "masked_language_model", "--from", bert, "--train-source",
                              (folder / "text").string(), "--max-updates", "1", "--output", more});
  ASSERT_EQ(further.status, 0) << further.err;
  EXPECT_EQ(run({"fill", more, gap}).status, 0);

  const std::string own = (folder / "own").string();
  ASSERT_EQ(run({"convert", bert, own, "--layout", "heed"}).status, 0);
  EXPECT_EQ(nlohmann::json::parse(run({"fill", own, gap, "--json"}).out)["masks"], before);
  const std::string corpus = (folder / "text").string();
  const Result score = run({"evaluate", model, "--text", corpus}),
               score_of_own = run({"evaluate", own, "--text", corpus});
  ASSERT_EQ(score.status, 0) << score.err;
  EXPECT_EQ(score_of_own.out, score.out);

  fs::remove(fs::path(bert) / "source.vocab");  // tokenizer.json alone does as well
  const auto by_others = nlohmann::json::parse(run({"fill", bert, gap, "--json"}).out)["masks"];
  EXPECT_EQ(by_others[0], after[0]);
  EXPECT_EQ(by_others[1][0], after[1][0]);  // [MASK] itself is a token like others there

  // A word that is spelled like a special token: tokenizer.json has each token once.
  std::string vocabulary = read(fs::path(model) / "source.vocab");
  vocabulary.replace(vocabulary.find("\ndog\n"), 5, "\n<s>\n");
  (void)folder.write("model/source.vocab", vocabulary);
  const Result refused = run({"convert", model, bert, "--layout", "huggingface", "--force"});
  ASSERT_EQ(refused.status, 0) << refused.err;
  EXPECT_NE(refused.err.find("but not its tokenizer"), std::string::npos) << refused.err;
  EXPECT_FALSE(fs::exists(fs::path(bert) / "tokenizer.json"));
  EXPECT_EQ(nlohmann::json::parse(read(fs::path(bert) / "tokenizer_config.json"))["tokenizer_class"], "HeedTokenizer");
}

// A model of others in heed's own layout keeps its tokenizer, and has no row for a mask of heed's.
TEST(Training, StartsFromABertInHeedsOwnLayout) {
  const Folder folder;
  const fs::path bert = folder / "bert";
  fs::copy(fs::path(HEED_SOURCE_DIR) / "tests/data/families/st-mean", bert, fs::copy_options::recursive);
  std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", pairs;
  for (int i = 5; i < 61; ++i) words += "w" + std::to_string(i) + "\n";
  (void)folder.write("bert/vocab.txt", words);
  for (int i = 5; i < 45; ++i) pairs += "w" + std::to_string(i) + "\tw" + std::to_string(i + 8) + " w5\n";
  const std::string own = (folder / "own").string();
  ASSERT_EQ(run({"convert", bert.string(), own, "--layout", "heed"}).status, 0);
  std::string losses[2];
  for (const bool is_own : {false, true}) {
    const std::string to = (folder / (is_own ? "of own" : "of bert")).string();
    const Result trained =
        run({"train", "--task", "sentence_embedding", "--from", is_own ? own : bert.string(), "--pairs",
             folder.write("pairs.tsv", pairs), "--valid-fraction", "0.2", "--max-updates", "3", "--output", to});
    ASSERT_EQ(trained.status, 0) << trained.err;
    std::istringstream log(read(fs::path(to) / "log.jsonl"));
    for (std::string line; std::getline(log, line);) {
      const auto entry = nlohmann::json::parse(line);
      if (entry["type"] == "end") losses[is_own ? 1 : 0] = entry["loss"].dump();
    }
    EXPECT_EQ(run({"embed", to, "w7 w9"}).status, 0);
  }
  EXPECT_FALSE(losses[0].empty());
  EXPECT_EQ(losses[1], losses[0]);
}

TEST(Training, ALanguageModelGenerates) {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 300; ++i) text += "the cat sat. 猫坐着。\n";
  const std::string file = folder.write("text", text), model = (folder / "model").string();
  const Result trained = run({"train",
                              "--task",
                              "language_model",
                              "--train-source",
                              file,
                              "--valid_fraction",
                              "0.1",
                              "--tokenizer",
                              "characters",
                              "--preset",
                              "tiny",
                              "--set",
                              "model.decoder_layers=1",
                              "--set",
                              "model.width=32",
                              "--set",
                              "model.feed_forward=64",
                              "--set",
                              "model.dropout=0",
                              "--context",
                              "32",
                              "--batch_sentences",
                              "8",
                              "--schedule.peak",
                              "0.01",
                              "--schedule.warmup",
                              "20",
                              "--max_updates",
                              "150",
                              "--output",
                              model,
                              "--quiet"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_EQ(trained.err, "");
  const Result cold = run({"generate", model, "--prompt", "the cat", "--max-tokens", "11", "--temperature", "0"});
  EXPECT_EQ(cold.status, 0) << cold.err;
  EXPECT_EQ(cold.out, "the cat sat. 猫坐着。\n\n") << "the text, and the line end that ends the output";
  const Result warm = run({"generate", model, "--prompt", "the", "--max-tokens", "60", "--seed", "3"});
  EXPECT_EQ(warm.out, run({"generate", model, "--prompt", "the", "--max-tokens", "60", "--seed", "3"}).out);
  const auto json =
      nlohmann::json::parse(run({"generate", model, "--prompt", "猫", "--json", "--max-tokens", "5"}).out);
  EXPECT_EQ(json["tokens"].size(), 5u);
  EXPECT_EQ(run({"generate", model, "--prompt", "\xFF"}).status, 1);
  EXPECT_EQ(run({"generate", model, "--max-tokens", "3"}).status, 0);
  EXPECT_EQ(run({"translate", model}, {.input = "x\n"}).status, 1);
  const Result evaluated = run({"evaluate", model, "--text", file, "--json"});
  ASSERT_EQ(evaluated.status, 0) << evaluated.err;
  EXPECT_LT(nlohmann::json::parse(evaluated.out)["loss"].get<double>(), 1.0);
}

// --quiet leaves warnings alone, as of every command.
TEST(Evaluate, WarnsOfMissingSpacesAsOtherCommandsDo) {
  const Folder folder;
  const std::string lines = folder.write("zh", "你好嗎\n你在哪裡\n");
  for (const char* const option : {"--quiet", "--json"}) {
    const Result r = run({"evaluate", "--hypotheses", lines, "--target", lines, option});
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_TRUE(r.err.starts_with("heed evaluate: warning: the references have no spaces between words")) << r.err;
  }
}

TEST(Evaluate, SaysWhichHeadThereIs) {
  const Folder folder;
  const std::string text = folder.write("text", "a b\n");
  for (const auto& [name, found] : {std::pair("st-mean", "a model that gives states only"),
                                    {"bert-tokens", "a model that tells classes of tokens"},
                                    {"bert-answer", "a model that finds answers"}}) {
    const std::string model = folder / name;
    fs::copy(fs::path(HEED_SOURCE_DIR) / "tests/data/families" / name, model, fs::copy_options::recursive);
    (void)folder.write(name + std::string("/vocab.txt"), "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n");
    const Result r = run({"evaluate", model, "--text", text});
    EXPECT_EQ(r.status, 1);
    EXPECT_NE(r.err.find(std::string("or tells classes of texts; found ") + found), std::string::npos) << r.err;
  }
}

// A key of the recipe's file may need an option.
TEST(Training, AnOptionCompletesARecipe) {
  const Folder folder;
  const std::string recipe = folder.write("r.toml", "best_by = \"bleu\"\nmax_updates = 2\n");
  const Corpus corpus(folder);
  std::vector<std::string> command = corpus.train(folder / "out", "2");
  command.insert(command.end(), {"--config", recipe});
  const Result alone = run(command);
  EXPECT_NE(alone.status, 0);
  EXPECT_NE(alone.err.find("r.toml: best_by: expected 'loss' unless valid_beam"), std::string::npos) << alone.err;
  command.insert(command.end(), {"--valid-beam", "2"});
  const Result together = run(command);
  EXPECT_EQ(together.status, 0) << together.err;
  command.insert(command.end(), {"--best-by", "accuracy"});
  const Result wrong = run(command);
  EXPECT_EQ(wrong.status, 2);
  EXPECT_NE(wrong.err.find("--best-by: expected loss or bleu"), std::string::npos) << wrong.err;
}

}  // namespace
}  // namespace heed::cli::test
