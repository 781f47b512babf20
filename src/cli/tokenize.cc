// heed tokenize: the tokens of each line, as a tokenizer gives them.
#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <filesystem>

#include "base/threads.h"
#include "cli/command.h"
#include "cli/encoder_job.h"
#include "cli/input_lines.h"
#include "cli/json.h"
#include "formats/json.h"
#include "heed/error.h"
#include "heed/io.h"
#include "heed/text.h"
#include "text/utf8.h"

namespace heed::cli {
namespace {

enum class Side { automatic, source, target };

struct TokenizeCommand {
  std::string tokenizer, input;
  std::optional<std::string> text;
  Side side = Side::automatic;
  bool pieces = false, plain = false, parse_special = false, pair_by_tab = false, json_input = false;
  int64_t limit = 0;
};

std::shared_ptr<const text::Tokenizer> load(const TokenizeCommand& o) {
  std::error_code ignored;
  std::filesystem::path folder = o.tokenizer;
  // (a file that is missing is no name of a model)
  if (folder.extension() != ".json") folder = io::find_model_folder(o.tokenizer);
  if (!std::filesystem::is_directory(folder, ignored)) return text::load_tokenizer_json(folder);
  const auto has = [&](const char* name) { return std::filesystem::exists(folder / name, ignored); };
  const bool target_alone =
      !has("source.model") && !has("source.vocab") && (has("target.model") || has("target.vocab"));
  const bool target = o.side == Side::target || (o.side == Side::automatic && target_alone);
  return text::Tokenizer::load(folder, target ? text::Side::target : text::Side::source);
}

// A line that is a JSON text: "a\nb".
std::string text_of_json(const std::string& line, const std::string& name) {
  const io::ParsedJson parsed = io::parse_json(line);
  require(parsed.problem.empty(), "tokenize", name, ": a text in JSON; found something else");
  require(parsed.value.is_string(), "tokenize", name, ": a text in JSON; found another value");
  return parsed.value.get<std::string>();
}

std::string as_json(const text::Tokenizer& tokenizer, const text::Tokens& tokens) {
  std::vector<std::string> pieces;
  std::vector<std::vector<int64_t>> spans;
  std::vector<int> special(tokens.special.begin(), tokens.special.end());
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    pieces.push_back(tokenizer.piece(tokens.ids[i]));
    spans.push_back({tokens.spans[i].begin, tokens.spans[i].end});
  }
  JsonObject object;
  object.add("ids", tokens.ids).add("tokens", pieces).add("spans", spans).add("segments", tokens.segments);
  return object.add("special", special).add("left_out", tokens.left_out).text();
}

std::string as_line(const TokenizeCommand& o, const text::Tokenizer& tokenizer, const text::Tokens& tokens) {
  std::string line;
  for (const int32_t id : tokens.ids) {
    if (!line.empty()) line += ' ';
    line += o.pieces ? one_line(tokenizer.piece(id)) : std::to_string(id);
  }
  return line;
}

std::string tokenized(const TokenizeCommand& o, const text::Tokenizer& tokenizer, const std::string& line,
                      const std::string& name, const Context& context) {
  text::require_utf8(line, "tokenize", name);
  text::TokensOptions options{.add_special = !o.plain, .limit = o.limit, .parse_special = o.parse_special};
  std::string_view text = line;
  if (const size_t tab = line.find('\t'); o.pair_by_tab && tab != std::string::npos) {
    options.pair = text.substr(tab + 1);
    text = text.substr(0, tab);
  }
  const text::Tokens tokens = tokenizer.tokens(text, options);
  return context.json ? as_json(tokenizer, tokens) : as_line(o, tokenizer, tokens);
}

struct Answers {
  std::vector<std::string> lines;      // up to the first one with an error
  std::exception_ptr error = nullptr;  // of that one
};

// What is written for each of these lines. All threads share them. `before` lines were read earlier.
Answers answers_to(const TokenizeCommand& o, const text::Tokenizer& tokenizer, const std::vector<std::string>& lines,
                   int64_t before, const std::string& input, const Context& context) {
  constexpr int64_t kGrain = 16;  // lines at least for each thread: to wake one takes longer than a line
  Answers made{.lines = std::vector<std::string>(lines.size())};
  std::vector<std::exception_ptr> errors(lines.size());
  parallel_for(std::ssize(lines), kGrain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      try {
        const std::string& line = lines[i];
        const std::string name = fmt::format("{}, line {}", input, before + static_cast<int64_t>(i) + 1);
        made.lines[i] = tokenized(o, tokenizer, o.json_input ? text_of_json(line, name) : line, name, context);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  });
  const auto first = std::ranges::find_if(errors, [](const std::exception_ptr& error) { return error != nullptr; });
  if (first == errors.end()) return made;
  made.error = *first;
  made.lines.resize(static_cast<size_t>(first - errors.begin()));
  return made;
}

int run_tokenize(const TokenizeCommand& o, Context& context) {
  if (o.text && !o.input.empty()) throw UsageError("a text or --input can be given; found both");
  const auto tokenizer = load(o);
  if (o.text) {
    print_line(tokenized(o, *tokenizer, *o.text, "TEXT", context));
    return kSuccess;
  }
  InputLines input(o.input);
  if (input.is_terminal()) message(context, "Reading text from standard input, one text a line; Ctrl-D ends it.");
  int64_t number = 0;
  while (!input.ended()) {
    constexpr size_t kMostLines = 1000;
    const std::vector<std::string> lines = input.next(kMostLines);
    if (lines.empty()) break;
    const Answers answers = answers_to(o, *tokenizer, lines, number, input.name(), context);
    for (const std::string& line : answers.lines) print_line(line);
    if (answers.error) std::rethrow_exception(answers.error);
    number += std::ssize(lines);
    flush_output();  // a program may wait for the answer to each line
  }
  return stop_requested() ? interrupted_status() : static_cast<int>(kSuccess);
}

}  // namespace

void add_tokenize_command(Options& options) {
  auto o = std::make_shared<TokenizeCommand>();
  options
      .add("TOKENIZER", o->tokenizer,
           "Folder with a tokenizer, a tokenizer.json, or the name of a model in Hugging Face's cache")
      .takes("PATH")
      .required();
  options.add("TEXT", o->text, "The text to cut; without it, the lines of standard input");
  options.add("--input", o->input, "Read this file instead of standard input").takes("FILE");
  options
      .choose("--side", o->side, {{"source", Side::source}, {"target", Side::target}},
              "Which tokenizer of a folder that has two")
      .shows("source; target where it is the only one");
  options.flag("--pieces", o->pieces, "Write the tokens instead of their ids");
  options.flag("--plain", o->plain, "Without the special tokens around the text");
  options.flag("--parse-special", o->parse_special, kParseSpecialHelp);
  options.flag("--pair-by-tab", o->pair_by_tab, "What stands behind a tab is a second text");
  options.flag("--json-input", o->json_input, "Each line is a text in JSON, which may have line ends in it")
      .excludes({"TEXT"});
  options.add("--limit", o->limit, "Most tokens for a line, special ones included; 0 is no limit").range(0);
  options.footer(
      "With --json, each line is an object with ids, tokens, the bytes of the text that\n"
      "each token stands for, segments, and which tokens were added around the text.\n"
      "Examples:\n"
      "  heed tokenize demo/en-zh 'Where is the station?' --pieces\n"
      "  heed tokenize models/minilm/tokenizer.json --json < lines.txt\n");
  options.has_json();
  options.on_run([o](Context& c) { return run_tokenize(*o, c); });
}

}  // namespace heed::cli
