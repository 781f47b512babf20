// heed translate: one line of output for each line of input.
#include <fmt/core.h>

#include <filesystem>

#include "cli/command.h"
#include "cli/float_types.h"
#include "cli/input_lines.h"
#include "cli/json.h"
#include "cli/progress.h"
#include "cli/warnings.h"
#include "heed/error.h"
#include "heed/pipelines.h"

namespace heed::cli {
namespace {

struct TranslateCommand {
  std::string model, input;
  std::optional<std::string> text;
  TranslatorOptions translate;
  bool scores = false;
  TooLong too_long = TooLong::refuse;
};

std::string as_json(const std::string& source, const std::vector<Translation>& translations) {
  std::vector<JsonObject> list;
  for (const Translation& t : translations) {
    JsonObject object;
    object.add("text", t.text).add("score", t.score).add("finished", t.finished);
    list.push_back(object.add("tokens", t.tokens).add("log_probs", t.log_probs));
  }
  return JsonObject().add("source", source).add("translations", list).text();
}

void print_translations(const TranslateCommand& o, const std::vector<Translation>& translations) {
  const bool ranks = o.translate.search.n_best > 1;
  int64_t rank = 0;
  for (const Translation& translation : translations) {
    std::string line;
    if (ranks) line += fmt::format("{}\t", ++rank);
    if (o.scores || ranks) line += fmt::format("{:.6f}\t", translation.score);
    print_line(line + one_line(translation.text));
  }
}

void check_options(const TranslateCommand& o) {
  const auto& search = o.translate.search;
  if (search.n_best > search.beam)
    throw UsageError(fmt::format("--n-best takes at most the beam of {}; found {}", search.beam, search.n_best));
  if (search.min_length > search.max_length)
    throw UsageError(fmt::format("--min-length takes at most the --max-length of {}; found {}", search.max_length,
                                 search.min_length));
  if (!o.text) return;
  if (!o.input.empty()) throw UsageError("a text or --input can be given; found both");
  std::error_code ignored;
  if (std::filesystem::is_regular_file(*o.text, ignored))
    throw UsageError(fmt::format("a text is expected after MODEL; found the file {} (--input {} translates its lines)",
                                 in_quotes(*o.text), escaped(*o.text)));
}

// Translates the lines and writes each when it is done. False where a signal or a closed pipe ended the work early.
bool translate_lines(const TranslateCommand& o, const Translator& translator, const std::vector<std::string>& lines,
                     const TextOptions& text, Context& context) {
  ProgressBar bar(static_cast<int64_t>(lines.size()), context.quiet);
  TranslatorOptions options = o.translate;
  options.text = text;
  options.search.stop = [] { return stop_requested().load() || output_is_abandoned(); };
  options.progress = [&](int64_t done) {
    if (lines.size() > 1) bar.update(done, "sentences");
  };
  const int64_t done =
      translator.translate(lines, options, [&](int64_t place, const std::vector<Translation>& translations) {
        if (context.json) {
          print_line(as_json(lines[static_cast<size_t>(place)], translations));
        } else {
          print_translations(o, translations);
        }
        flush_output();
      });
  return done == static_cast<int64_t>(lines.size());
}

int run_translate(const TranslateCommand& o, Context& context) {
  // Lines taken together, so that those of equal length can share batches. A slow writer is answered line by line.
  constexpr size_t kLinesAtOnce = 4096;
  check_options(o);
  const Translator translator = Translator::load(o.model);
  install_signal_handlers();
  int64_t lines_before = 0;
  bool complete = true;
  if (o.text) {
    TextWarnings warnings([](int64_t) { return std::string("TEXT"); });
    complete = translate_lines(o, translator, {one_line(*o.text)}, warnings.options(o.too_long), context);
  } else {
    InputLines input(o.input);
    if (input.is_terminal()) message(context, "Reading text from standard input, one sentence a line; Ctrl-D ends it.");
    TextWarnings warnings(
        [&](int64_t line) { return fmt::format("{}, line {}", input.name(), lines_before + line + 1); });
    while (complete) {
      const std::vector<std::string> lines = input.next(kLinesAtOnce);
      if (lines.empty()) break;
      complete = translate_lines(o, translator, lines, warnings.options(o.too_long), context);
      lines_before += static_cast<int64_t>(lines.size());
    }
  }
  if (stop_requested().load()) return interrupted_status();
  return complete ? kSuccess : kBrokenPipe;
}

}  // namespace

void add_translate_command(Options& options) {
  auto o = std::make_shared<TranslateCommand>();
  generate::BeamOptions& search = o->translate.search;
  options.add("MODEL", o->model, "Folder of an encoder-decoder model").takes("DIR").required();
  options.add("TEXT", o->text, "The text to translate; without it, the lines of standard input");
  options.add("--input", o->input, "Read this file instead of standard input").takes("FILE");
  options.add("--beam", search.beam, "Hypotheses to keep; 1 is greedy search").range(1, 1000);
  options.add("--n-best", search.n_best, "Write this many translations of each line: rank, score and text, with tabs")
      .range(1, 1000);
  options.flag("--scores", o->scores, "Write the score before the text, with a tab");
  options.add("--length-penalty", search.length_penalty, "Divide scores by length^NUMBER");
  options.flag("--gnmt", search.gnmt, "Divide scores by ((5 + length) / 6)^NUMBER instead");
  options.add("--max-length", search.max_length, "Most tokens in a translation").range(1);
  options.add("--min-length", search.min_length, "Fewest tokens in a translation").range(0);
  options
      .add("--length-factor", search.length_factor,
           "Most tokens for each token of the source, beside 20 more; 0 is no limit")
      .range(0, 1e6);
  options.add("--batch-tokens", o->translate.batch_tokens, "Tokens in a batch, padding and beam included").range(1);
  options.choose("--cache", o->translate.cache.dtype, kCacheTypes, kCacheHelp);
  options.choose("--too-long", o->too_long, {{"cut", TooLong::cut}, {"refuse", TooLong::refuse}},
                 "What to do with a line that is longer than the model can read");
  options.footer(
      "Lines are written in their order as they are done. Empty lines stay empty.\n"
      "With --json, each line is an object with tokens and log probabilities.\n"
      "Examples:\n"
      "  heed translate demo/en-zh 'Where is the station?'\n"
      "  heed translate demo/en-zh --beam 1 < english.txt > chinese.txt\n"
      "  heed translate demo/en-zh --n-best 5 --input english.txt\n");
  options.has_json();
  options.on_run([o](Context& c) { return run_translate(*o, c); });
}

}  // namespace heed::cli
