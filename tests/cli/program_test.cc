// The program without a model: help, usage, what it says of the machine, and how it fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/program.h"

namespace heed::cli::test {
namespace {

const std::vector<std::string> kCommands = {"train", "translate", "generate", "evaluate", "attend", "inspect",
                                            "serve", "average",   "tokenize", "convert",  "info",   "bench",
                                            "plot",  "embed",     "classify", "fill"};

// One line, beginning with the program's name and the command's.
void expect_one_line(const Result& r, int status, const std::string& part) {
  EXPECT_EQ(r.status, status) << r.err;
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  EXPECT_TRUE(r.err.starts_with("heed")) << r.err;
  EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  EXPECT_EQ(r.err.find('['), std::string::npos) << "no name of a function: " << r.err;
  EXPECT_EQ(r.out, "");
}

// The whole line.
void expect_message(const std::vector<std::string>& arguments, int status, const std::string& line) {
  const Result r = run(arguments);
  EXPECT_EQ(r.status, status) << r.err;
  EXPECT_EQ(r.err, line + "\n");
  EXPECT_EQ(r.out, "");
}

TEST(Program, HelpListsTheCommands) {
  const Result r = run({"--help"});
  EXPECT_EQ(r.status, 0);
  EXPECT_EQ(r.err, "");
  for (const std::string& command : kCommands)
    EXPECT_NE(r.out.find("\n  " + command + " "), std::string::npos) << command;
}

TEST(Program, EachCommandHasHelpWithExamples) {
  for (const std::string& command : kCommands) {
    const Result r = run({command, "--help"});
    EXPECT_EQ(r.status, 0) << command;
    EXPECT_EQ(r.err, "") << command;
    EXPECT_NE(r.out.find("Example"), std::string::npos) << command;
    EXPECT_NE(r.out.find("heed " + command), std::string::npos) << command;
    EXPECT_NE(r.out.find("--threads"), std::string::npos) << command;
  }
}

TEST(Program, Version) {
  const Result r = run({"--version"});
  EXPECT_EQ(r.status, 0);
  EXPECT_TRUE(r.out.starts_with("heed "));
  EXPECT_EQ(run({"version"}).out, r.out);
  EXPECT_EQ(run({"-V"}).out, r.out);
}

TEST(Program, HelpIsACommandToo) {
  EXPECT_EQ(run({"help"}).out, run({"--help"}).out);
  EXPECT_EQ(run({"help", "translate"}).out, run({"translate", "--help"}).out);
  EXPECT_EQ(run({"help", "bench", "decode"}).out, run({"bench", "decode", "-h"}).out);
  const Result r = run({"help", "translate"});
  EXPECT_EQ(r.status, 0);
  EXPECT_NE(r.out.find("Usage: heed translate MODEL [TEXT] [options]\n"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("--beam N"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("(1 to 1000;"), std::string::npos) << "the range";
  EXPECT_NE(r.out.find("default: 5)"), std::string::npos) << "the default";
  expect_message({"help", "trian"}, 2, "heed: there is no command 'trian'; did you mean train?");
}

TEST(Program, WithoutACommandItListsThem) {
  for (const std::vector<std::string>& command : {std::vector<std::string>{}, {"bench"}}) {
    std::vector<std::string> help = command;
    help.emplace_back("--help");
    const Result r = run(command);
    EXPECT_EQ(r.status, 2);
    EXPECT_EQ(r.out, "");
    EXPECT_EQ(r.err, run(help).out);
  }
}

TEST(Program, HelpFitsATerminal) {
  for (const std::string& command : kCommands) {
    std::istringstream lines(run({"help", command}).out);
    for (std::string line; std::getline(lines, line);)
      if (!line.starts_with("  heed ")) {  // examples are kept whole
        EXPECT_LE(line.size(), 110u) << command << ": " << line;
      }
  }
}

TEST(Program, ErrorsHaveOneForm) {
  expect_message({"xyzzy"}, 2, "heed: there is no command 'xyzzy'; heed --help lists them");
  expect_message({"translate", "m", "--beam", "abc"}, 2,
                 "heed translate: --beam takes a whole number from 1 to 1000; found 'abc'");
  expect_message({"translate", "m", "--beam", "1001"}, 2,
                 "heed translate: --beam takes a whole number from 1 to 1000; found '1001'");
  expect_message({"translate", "m", "--beam", "2.5"}, 2,
                 "heed translate: --beam takes a whole number from 1 to 1000; found '2.5'");
  expect_message({"translate", "m", "--beam="}, 2,
                 "heed translate: --beam takes a whole number from 1 to 1000; found ''");
  expect_message({"translate", "m", "--beam"}, 2,
                 "heed translate: --beam takes a whole number from 1 to 1000; found nothing");
  expect_message({"translate", "m", "--beam", "--scores"}, 2,
                 "heed translate: --beam takes a whole number from 1 to 1000; found the option --scores (write "
                 "--beam=VALUE for a value that begins with --)");
  expect_message({"translate", "m", "--beam", "3", "--beam", "4"}, 2,
                 "heed translate: --beam is given once; found it again, with '4'");
  expect_message({"translate", "m", "--bean", "3"}, 2,
                 "heed translate: there is no option --bean; did you mean --beam?");
  expect_message({"--hlep"}, 2, "heed: there is no option --hlep; did you mean --help?");
  expect_message({"--versoin"}, 2, "heed: there is no option --versoin; did you mean --version?");
  expect_message({"translate", "m", "--hepl"}, 2, "heed translate: there is no option --hepl; did you mean --help?");
  expect_message({"--layer", "2", "inspect", "m"}, 2, "heed: --layer stands after the command: heed inspect --layer");
  expect_message({"--beam", "3", "evaluate", "m"}, 2, "heed: --beam stands after the command: heed evaluate --beam");
  expect_message({"--shape", "1,2", "bench", "decode"}, 2,
                 "heed: --shape stands after the command: heed bench decode --shape");
  expect_message({"translate", "m", "--frobnicate"}, 2,
                 "heed translate: there is no option --frobnicate; heed translate --help lists them");
  expect_message({"translate", "m", "--scores=yes"}, 2, "heed translate: --scores takes no value; found --scores=yes");
  expect_message(
      {"translate"}, 2,
      "heed translate: MODEL is missing: folder of an encoder-decoder model, or its name in Hugging Face's cache");
  expect_message({"translate", "m", "where", "is"}, 2,
                 "heed translate: only options can follow TEXT; found 'is' (put a text of several words in quotes)");
  expect_message({"info", "m", "n"}, 2, "heed info: only options can follow MODEL; found 'n'");
  expect_message({"generate", "m", "--temperature", "nan"}, 2,
                 "heed generate: --temperature takes a number from 0 to 1000000; found 'nan'");
  expect_message({"attend", "x.npz", "--causal", "sideways"}, 2,
                 "heed attend: --causal takes none, top-left or bottom-right; found 'sideways'");
  expect_message({"inspect", "m", "t", "--part", "crss"}, 2,
                 "heed inspect: --part takes encoder, decoder or cross; found 'crss'");
  expect_message({"--threads", "abc", "info"}, 2, "heed: --threads takes a whole number from 1 to 1024; found 'abc'");
  expect_message({"info", "--seed", "-1"}, 2, "heed info: --seed takes a whole number, 0 or more; found '-1'");
  expect_message({"plot", "x", "--json"}, 2, "heed plot: --json: this command has no results in JSON");
  expect_message({"info", "\x1b[31m"}, 1,
                 "heed info: expected the folder of a model, its name in Hugging Face's cache, a config.json or a "
                 "preset (tiny, small, base, big); found "
                 "'␛[31m'");
  expect_message(
      {"info", "bert-base-uncased"}, 1,
      "heed info: expected the folder of a model, its name in Hugging Face's cache, a config.json or a "
      "preset (tiny, small, base, big); found 'bert-base-uncased'. Download it with: hf download bert-base-uncased (or "
      "ORG/bert-base-uncased, if it belongs to an organisation such as sentence-transformers)");
  expect_message({"translate", "m", "--input", ""}, 2, "heed translate: --input takes the name of a file; found ''");
  expect_message({"translate", "", "x"}, 2, "heed translate: MODEL takes the name of a folder; found ''");
  expect_message({"average", "m", "--output", "-"}, 2,
                 "heed average: --output takes the name of a folder; found '-' (standard output holds no folder)");
  expect_message({"attend", "/no/such.npz"}, 1,
                 "heed attend: '/no/such.npz' cannot be read: No such file or directory");
  expect_message({"translate", "/no/such", "x"}, 1,
                 "heed translate: expected a model folder at /no/such; found nothing");
}

// One wrong input at each entrance of each command: a line in one form, nothing on standard output.
TEST(Program, EveryEntranceRefusesWrongInput) {
  const Folder folder;
  const std::string demo = (fs::path(HEED_SOURCE_DIR) / "demo" / "en-zh").string();
  const std::string two = folder.write("two.txt", "Where is it?\nHelp!\n"), one = folder.write("one.txt", "Help!\n");
  const std::string bad = folder.write("bad.txt", "\xff\xfe\n"), empty = folder.write("empty.txt", "");
  const std::string junk = folder.write("junk.npz", "x"), none = folder / "none", out = folder / "out";
  const std::string dir = folder / "dir";
  fs::create_directory(dir);
  const std::vector<std::vector<std::string>> failures = {
      {"translate", dir, "x"},
      {"translate", demo, "\xff"},
      {"translate", demo, "--input", dir},
      {"translate", demo, "--input", bad},
      {"generate", demo, "x"},
      {"generate", demo, "--prompt-file", none},
      {"evaluate", demo, "--source", two, "--target", one},
      {"evaluate", demo, "--source", none, "--target", one},
      {"evaluate", demo, "--pairs", two},
      {"evaluate", demo, "--source", empty, "--target", empty},
      {"evaluate", "--hypotheses", two, "--target", one},
      {"attend", junk},
      {"attend", dir},
      {"attend", two},
      {"inspect", demo, "x", "--target", "\xff", "--output", out + ".html"},
      {"inspect", none, "x", "--output", out + ".html"},
      {"average", none, "--output", out},
      {"average", demo, "--last", "3", "--output", out},
      {"convert", none, out},
      {"convert", dir, out},
      {"embed", none, "x"},
      {"embed", dir, "x"},
      {"embed", demo, "x"},
      {"classify", dir, "x"},
      {"fill", dir, "x"},
      {"info", none},
      {"info", dir},
      {"bench", "attention", "--shape", "1,2"},
      {"bench", "attention", "--shape", "1,3,2,4,4,8"},
      {"bench", "matmul", "--shape", "a"},
      {"plot", none, "--output", out + ".html"},
      {"plot", two, "--output", out + ".html"},
      {"plot", dir, "--output", out + ".html"},
      {"train", "--output", out, "--config", none + ".toml"},
      {"train", "--output", out, "--config", two},
      {"train", "--output", out, "--pairs", none},
      {"train", "--output", out, "--pairs", two},
      {"train", "--output", none, "--resume"},
      {"train", "--output", out, "--task", "language_model", "--train-source", empty},
  };
  for (const auto& arguments : failures) {
    SCOPED_TRACE(testing::PrintToString(arguments));
    expect_one_line(run(arguments), 1, arguments[0] + (arguments[0] == "bench" ? " " + arguments[1] + ": " : ": "));
    EXPECT_FALSE(fs::exists(out));
  }
  const std::vector<std::vector<std::string>> misuses = {
      {"translate", demo, "--max-length", "0"},
      {"translate", demo, "--length-penalty", "inf"},
      {"translate", demo, "--length-reward", "nan"},
      {"generate", demo, "--top-p", "0"},
      {"generate", demo, "--count", "0"},
      {"evaluate", demo, "--source", two},
      {"evaluate", demo, "--text", two},
      {"evaluate", demo, "--pairs", one, "--text", two},
      {"evaluate", demo, "--source", two, "--target", two, "--tokenize", "zhh"},
      {"evaluate", demo, "--hypotheses", two, "--target", two},
      {"attend"},
      {"evaluate", demo, "--text", two, "--beam", "3"},
      {"evaluate", demo, "--pairs", two, "--context", "5"},
      {"inspect", demo, "x", "--target", "y", "--beam", "3"},
      {"tokenize", demo, "x", "--json-input"},
      {"embed", demo, "x", "--top", "3"},
      {"info", "--batch", "3"},
      {"attend", two, "--force"},
      {"convert", demo, two},
      {"convert", demo, "-"},
      {"inspect", demo},
      {"inspect", demo, "x", "--svg", ""},
      {"inspect", demo, "x", "--output", out},
      {"inspect", demo, "x", "--layer", "none", "--text"},
      {"inspect", demo, "x", "--text", "--force"},
      {"average", "--output", out},
      {"average", demo, "--output", demo},
      {"average", demo, demo, "--last", "2", "--output", out},
      {"average", demo, "--dtype", "f8", "--output", out},
      {"convert", demo, demo},
      {"convert", demo, out, "--weights", "int4"},
      {"embed", demo, "x", "--input", two},
      {"embed", demo, one},
      {"embed", demo, "--format", "npy"},
      {"classify", demo, "x", "--pairs", "--tokens"},
      {"fill", demo, "x", "--top", "0"},
      {"info", "base", "--batch", "0"},
      {"bench", "training", "--model", "none"},
      {"bench", "scaling", "--longest", "1"},
      {"plot", two, "--output", "x.png"},
      {"train", "--output", out, "--batch-tokens", "-3"},
      {"train", "--output", out, "--precision", "f8"},
  };
  for (const auto& arguments : misuses) {
    SCOPED_TRACE(testing::PrintToString(arguments));
    expect_one_line(run(arguments), 2, arguments[0]);
    EXPECT_FALSE(fs::exists(out));
  }
}

TEST(Program, AdvisesWhatHelps) {
  const Folder folder;
  const std::string model = folder / "model";
  fs::create_directory(model);
  (void)folder.write("model/model.safetensors", "");
  const auto error = [](const std::vector<std::string>& arguments) { return run(arguments).err; };
  EXPECT_EQ(error({"train", "--width", "3"}),
            "heed train: there is no option --width; did you mean --model.width or --schedule.width?\n");
  EXPECT_EQ(error({"train", "--epochs", "3"}),
            "heed train: there is no option --epochs; did you mean --max-epochs or --subword-sampling-epochs?\n");
  EXPECT_EQ(error({"train", "recipes/first.toml"}),
            "heed train: only options can follow; found 'recipes/first.toml' (--config reads a recipe)\n");
  EXPECT_EQ(error({"info", "--batch", "3"}), "heed info: --batch does nothing without MODEL\n");
  EXPECT_EQ(error({"inspect", model, "x", "--target", "y", "--beam", "3"}),
            "heed inspect: --beam does nothing with --target\n");
  // A model without a training cannot be continued, only trained further.
  const std::string pairs = folder.write("pairs.tsv", "a b\tc\nb\td\n");
  const std::string used = error({"train", "--pairs", pairs, "--output", model});
  EXPECT_NE(used.find("expected a folder without a model; found one (name another folder; --from trains that model "
                      "further)"),
            std::string::npos)
      << used;
  const std::string chinese = folder.write("zh", "火车准时到了。\n我喜欢 Tom。\n");
  const std::string hint = "--tokenize zh cuts Chinese for BLEU";
  EXPECT_NE(error({"evaluate", "--hypotheses", chinese, "--target", chinese}).find(hint), std::string::npos);
  EXPECT_EQ(error({"evaluate", "--hypotheses", chinese, "--target", chinese, "--tokenize", "zh"}), "");
  EXPECT_EQ(error({"evaluate", "--hypotheses", pairs, "--target", pairs}), "");
  const std::string none = error({"average", model, "--last", "2", "--output", folder / "mean"});
  EXPECT_NE(none.find("--last: expected the folder of a training, with checkpoints in it"), std::string::npos) << none;
}

TEST(Program, TheLibrarysMessagesAreSentences) {
  const Folder folder;
  const std::string toml = folder.write("recipe.toml", "task = \"translation\"\n[schedule]\npeak = \"much\"\n");
  const Result r = run({"train", "--config", toml, "--output", folder / "run"});
  EXPECT_EQ(r.err, "heed train: " + toml + ", line 3: schedule.peak: expected a number, more than 0; found 'much'\n");
  const std::string context = folder.write("context.toml", "task = \"language_model\"\ncontext = 0\n");
  const Result nested = run({"train", "--config", context, "--output", folder / "run"});
  EXPECT_EQ(nested.err,
            "heed train: " + context + ", line 2: context: expected a whole number, more than 0; found 0\n");
}

TEST(Program, AWrongConfigurationIsNamed) {
  const Folder folder;
  const std::string file = folder.write("config.json", "{");
  const Result json = run({"info", file});
  EXPECT_TRUE(
      json.err.starts_with("heed info: " + file + ": expected JSON; found the end of the text at line 1, column 2"))
      << json.err;
  const std::string recipe = folder.write("recipe.json", "{");
  const Result broken = run({"train", "--config", recipe, "--output", folder / "run"});
  EXPECT_TRUE(broken.err.starts_with("heed train: " + recipe + ": expected JSON; found the end of the text at line 1"))
      << broken.err;
  (void)folder.write("config.json", "{\"heads\": \"eight\"}");
  (void)folder.write("model.safetensors", "");
  const std::string path = fs::path(file).parent_path();
  const Result key = run({"translate", path, "x"});
  EXPECT_EQ(key.err, "heed translate: " + file + ": key 'heads': expected a whole number; found 'eight'\n");
}

TEST(Program, AWrongEnvironmentIsNamed) {
  const Result r = run({"info"}, {.environment = {"HEED_ISA=nonsense"}});
  EXPECT_EQ(r.status, 1);
  EXPECT_TRUE(r.err.starts_with("heed info: HEED_ISA: expected one of ")) << r.err;
  for (const std::string name : {"HEED_NUM_THREADS", "OMP_NUM_THREADS"}) {
    const Result threads = run({"info"}, {.environment = {"HEED_NUM_THREADS=", name + "=x"}});
    EXPECT_EQ(threads.status, 1);
    EXPECT_EQ(threads.err, "heed info: " + name + ": expected a whole number from 1 to 1024; found 'x'\n");
  }
}

TEST(Program, OptionsOfTheCommandLine) {
  // Underscores and dashes are the same; values may follow "="; behind "--" nothing is an option.
  const Result a = run({"info", "base", "--source_length=10", "--json"});
  EXPECT_EQ(a.out, run({"--json", "info", "--source-length", "10", "--", "base"}).out) << a.err;
  EXPECT_EQ(run({"info", "--", "--base"}).status, 1);
}

TEST(Program, UsageErrorsExitWith2) {
  expect_one_line(run({"translate", "m", "--beam", "2", "--n-best", "3"}), 2, "--n-best");
  expect_one_line(run({"translate", "m", "--too-long", "ignore"}), 2, "--too-long");
  expect_one_line(run({"translate", "m", "--min-length", "9", "--max-length", "3"}), 2, "--min-length");
  expect_one_line(run({"info", "--threads", "0"}), 2, "--threads");
  expect_one_line(run({"--threads", "0", "info"}), 2, "--threads");
  expect_one_line(run({"info", "--threads", "-3"}), 2, "--threads");
  expect_one_line(run({"train"}), 2, "--output");
  expect_one_line(run({"train", "--output", "x", "--set", "nonsense"}), 2, "key=value");
  expect_one_line(run({"train", "--output", "x", "--set", "no_such_key=1"}), 2, "no_such_key");
  expect_one_line(run({"train", "--output", "x", "--schedule.peak", "much"}), 2, "schedule.peak");
  expect_one_line(run({"evaluate", "m"}), 2, "--pairs");
}

TEST(Program, BenchmarksOfAttentionPrintTheirTables) {
  const auto lines = [&](const std::string& name, const std::string& shape) {
    const auto result = run({"bench", name, "--shape", shape, "--repeats", "1", "--threads", "1"});
    EXPECT_EQ(result.status, 0) << result.err;
    return static_cast<int>(std::count(result.out.begin(), result.out.end(), '\n'));
  };
  EXPECT_EQ(lines("attention", "1,2,1,40,40,8"), 2 + 4);
  EXPECT_EQ(lines("options", "1,2,1,40,40,8"), 2 + 19);
  EXPECT_EQ(lines("decode", "1,2,1,1,70,8"), 2 + 4);
  const auto engines = run({"bench", "attention", "--shape", "1,2,1,4,40,8", "--repeats", "1", "--threads", "1",
                            "--engine", "all", "--json"});
  ASSERT_EQ(engines.status, 0) << engines.err;
  std::vector<std::string> measured;  // pass and engine; other engines need bf16
  const auto document = nlohmann::json::parse(engines.out);
  for (const auto& line : document["lines"])
    measured.push_back(line["what"].get<std::string>() + ", " + line["engine"].get<std::string>());
  EXPECT_EQ(measured, (std::vector<std::string>{"forward, decode", "forward, f32 tiles", "backward, f32 tiles"}));
  const auto none = run({"bench", "attention", "--shape", "1,2,1,100,40,8", "--engine", "decode"});
  EXPECT_EQ(none.status, 1);
  EXPECT_TRUE(none.err.starts_with("heed bench attention: expected an engine that computes these shapes in f32"))
      << none.err;
  EXPECT_EQ(run({"bench", "attention", "--engine", "warp"}).status, 2);
  const auto half = run({"bench", "attention", "--shape", "1,2,1,40,40,8", "--repeats", "1", "--dtype", "bf16"});
  EXPECT_EQ(half.status, 0) << half.err;
  EXPECT_NE(half.out.find(", bf16: "), std::string::npos) << half.out;
  const auto scaling = run({"bench", "scaling", "--longest", "256", "--threads", "2"});
  EXPECT_EQ(scaling.status, 0) << scaling.err;
  EXPECT_EQ(std::count(scaling.out.begin(), scaling.out.end(), '\n'), 2 + 2 + 2 + 1 + 2) << scaling.out;
  expect_one_line(run({"bench", "scaling", "--longest", "100"}), 2, "--longest");
  expect_one_line(run({"bench", "attention", "--dtype", "f64"}), 2, "f64");
  expect_one_line(run({"bench", "rules", "--shape", "1,2,3"}), 1, "shape");  // its name before version 0.2
}

TEST(Program, WithoutItsBenchmarksItSaysHowToGetThem) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"bench"}, {"bench", "attention", "--shape", "1,2,3"}}) {
    const Result r = run(arguments, {.program = HEED_BARE});
    expect_one_line(r, 1, "-DHEED_BUILD_BENCH=ON");
  }
  const Result help = run({"help", "bench"}, {.program = HEED_BARE});
  EXPECT_EQ(help.status, 0);
  EXPECT_NE(help.out.find("built without its benchmarks"), std::string::npos) << help.out;
}

TEST(Program, UnknownInstructionSet) {
  expect_one_line(run({"info"}, {.environment = {"HEED_ISA=nonsense"}}), 1, "nonsense");
}

TEST(Program, MissingModel) {
  for (const std::string command : {"translate", "generate"})
    expect_one_line(run({command, "/no/such"}), 1, "/no/such");
  expect_one_line(run({"info", "/no/such"}), 1, "/no/such");
  expect_one_line(run({"average", "/no/such", "--output", "/no/where"}), 1, "/no/such");
  expect_one_line(run({"train", "--config", "/no/such.toml", "--output", "/no/where"}), 1, "/no/such.toml");
}

// A folder without a model is named in one form, whatever the command.
TEST(Program, AFolderWithoutAModel) {
  const Folder folder;
  const std::string dir = folder / "dir", none = folder / "none", file = folder.write("file", "x");
  fs::create_directory(dir);
  const std::vector<std::vector<std::string>> commands = {
      {"translate", "", "x"},
      {"generate", "", "x"},
      {"inspect", "", "x", "--output", folder / "page.html"},
      {"info", ""},
      {"inspect", "", "x", "--target", "y", "--output", folder / "page.html"},
      {"evaluate", "", "--pairs", folder.write("pairs.tsv", "a\tb\n")},
      {"evaluate", "", "--text", file},
      {"average", "", "--output", folder / "mean"}};
  for (const auto& command : commands) {
    const auto expect = [&](const std::string& model, const std::string& found) {
      std::vector<std::string> arguments = command;
      arguments[1] = model;
      expect_message(arguments, 1, "heed " + command[0] + ": expected a model folder at " + model + "; found " + found);
    };
    if (command[0] != "info") {  // it takes presets and configuration files, too
      expect(none, "nothing");
      expect(file, "a file");
    }
    expect(dir, "no config.json there");
    (void)folder.write("dir/config.json", "{}");
    expect(dir, "no model.safetensors there");
    fs::remove(fs::path(dir) / "config.json");
  }
}

TEST(Program, AFolderThatCannotBeMade) {
  const Folder folder;
  const std::string pairs = folder.write("two.tsv", "a\tb\nc\td\n");
  const std::string demo = (fs::path(HEED_SOURCE_DIR) / "demo" / "en-zh").string();
  expect_message({"train", "--pairs", pairs, "--output", pairs}, 2,
                 "heed train: --output " + pairs + ": a file has that name; give a folder");
  expect_message({"average", demo, "--output", pairs}, 2,
                 "heed average: --output " + pairs + ": a file has that name; give a folder");
  expect_message({"train", "--pairs", pairs, "--output", pairs + "/x"}, 1,
                 "heed train: '" + pairs + "/x' cannot be made: Not a directory (name another folder with --output)");
  expect_message({"average", demo, "--output", pairs + "/x"}, 1,
                 "heed average: '" + pairs + "/x' cannot be made: Not a directory (name another folder with --output)");
}

TEST(Program, OutputThatCannotBeWritten) {
  if (fs::exists("/dev/full")) {
    const Result full = run({"info"}, {.output_file = "/dev/full"});
    EXPECT_EQ(full.status, 1);
    EXPECT_NE(full.err.find("o space left"), std::string::npos) << full.err;
    EXPECT_EQ(run({"--help"}, {.output_file = "/dev/full"}).status, 1);
  }
  const Result closed = run({"info"}, {.output_file = "closed"});
  EXPECT_EQ(closed.status, 1);
  EXPECT_NE(closed.err.find("standard output is closed"), std::string::npos) << closed.err;
}

TEST(Program, InfoOfTheMachine) {
  const Result text = run({"info", "--threads", "3"});
  EXPECT_EQ(text.status, 0);
  EXPECT_NE(text.out.find("threads     3\n"), std::string::npos) << text.out;
  const auto json = nlohmann::json::parse(run({"--json", "info"}, {.environment = {"HEED_ISA=portable"}}).out);
  EXPECT_EQ(json["kernels"], "portable");
  EXPECT_FALSE(json["versions"]["heed"].get<std::string>().empty());
  EXPECT_FALSE(json["versions"]["highway"].get<std::string>().empty());
}

TEST(Program, InfoOfAPreset) {
  const auto json = nlohmann::json::parse(
      run({"info", "base", "--json", "--vocabulary", "37000", "--batch", "2", "--source-length", "10"}).out);
  EXPECT_EQ(json["config"]["width"], 512);
  EXPECT_GT(json["parameters"].get<int64_t>(), 60'000'000);
  const Result text = run({"info", "base"});
  EXPECT_EQ(text.status, 0);
  EXPECT_NE(text.out.find("parameters"), std::string::npos);
}

TEST(Program, InfoOfAFileOfHuggingFace) {
  const std::string folder = std::string(HEED_SOURCE_DIR) + "/tests/data/families/bert-classify";
  const Result of_folder = run({"info", folder});
  EXPECT_EQ(of_folder.status, 0) << of_folder.err;
  EXPECT_EQ(run({"info", folder + "/config.json"}).out, of_folder.out);  // the weights beside it say the rest
  const Folder alone;
  const std::string config = alone.write("config.json", R"({"model_type": "bert"})");
  const Result no_weights = run({"info", config});
  EXPECT_EQ(no_weights.status, 1);
  EXPECT_NE(no_weights.err.find("'" + config + "': expected the config.json of a folder with its weights"),
            std::string::npos)
      << no_weights.err;
  const Result side = run({"info", folder, "--target-length", "9"});
  EXPECT_EQ(side.status, 2);
  EXPECT_EQ(side.err, "heed info: --target-length is for models that write; an encoder reads --source-length tokens\n");
  const Result words = run({"info", folder, "--vocabulary", "9"});
  EXPECT_EQ(words.status, 2);
  EXPECT_NE(words.err.find("--vocabulary is for a preset"), std::string::npos) << words.err;
}

TEST(Program, InfoOfACostThatCannotBeCounted) {
  const Result large = run({"info", "base", "--batch", "1000000000", "--source-length", "1000000000"});
  EXPECT_EQ(large.status, 1);
  EXPECT_NE(large.err.find("fewer than 1e18 multiply-adds"), std::string::npos) << large.err;
  EXPECT_EQ(run({"info", "base", "--batch", "1073741825"}).err,
            "heed info: --batch takes a whole number from 1 to 1073741824; found '1073741825'\n");
  EXPECT_EQ(run({"info", "base", "--batch", ""}).err, "heed info: --batch takes a whole number, 1 or more; found ''\n");
  EXPECT_EQ(run({"info", "base", "--batch", "99999999999999999999"}).err,
            "heed info: --batch takes a whole number from 1 to 1073741824; found '99999999999999999999'\n");
}

TEST(Program, BleuOfGivenTranslations) {
  const Folder folder;
  const std::string hypotheses = folder.write("hyp", "the cat sat on the mat\nhello there my friend\n");
  const std::string references = folder.write("ref", "the cat sat on the mat\nhello there my friend\n");
  const Result perfect = run({"evaluate", "--hypotheses", hypotheses, "--target", references});
  EXPECT_EQ(perfect.status, 0) << perfect.err;
  EXPECT_NE(perfect.out.find("100.0"), std::string::npos) << perfect.out;
  const std::string pieces = folder.write("pieces", "the c@@ at sat on the mat\nhello the@@ re my friend\n");
  const auto json = nlohmann::json::parse(
      run({"evaluate", "--hypotheses", pieces, "--target", references, "--undo-pieces", "--json"}).out);
  EXPECT_NEAR(json["bleu"]["score"].get<double>(), 100, 1e-9);
}

TEST(Program, BadTextNamesTheFileAndTheLine) {
  const Folder folder;
  const std::string two = folder.write("two", "a b c d\ne f g h\n"), three = folder.write("three", "a\nb\nc\n");
  expect_one_line(run({"evaluate", "--hypotheses", two, "--target", three}), 1, two);
  const std::string bad = folder.write("bad",
                                       "good\nb\xFF"
                                       "d\n");
  expect_one_line(run({"evaluate", "--hypotheses", bad, "--target", two}), 1, "line 2");
  const std::string empty = folder.write("empty", "");
  expect_one_line(run({"evaluate", "--hypotheses", empty, "--target", two}), 1, empty);
  expect_one_line(run({"evaluate", "--hypotheses", two, "--target", "/no/such"}), 1, "/no/such");
}

TEST(Program, PrintsTheRecipe) {
  const Result r = run({"train", "--print-recipe", "--set", "max_updates=77", "--schedule.peak", "0.25", "--seed", "9",
                        "--batch-tokens", "123", "--keep_last", "2", "--preset", "tiny"});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto json = nlohmann::json::parse(r.out);
  EXPECT_EQ(json["max_updates"], 77);
  EXPECT_EQ(json["schedule"]["peak"], 0.25);
  EXPECT_EQ(json["seed"], 9);
  EXPECT_EQ(json["batch_tokens"], 123);
  EXPECT_EQ(json["keep_last"], 2);
}

}  // namespace
}  // namespace heed::cli::test
