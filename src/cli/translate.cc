// heed translate: one line of output for each line of input.
#include <fmt/core.h>

#include <filesystem>

#include "cli/command.h"
#include "cli/encoder_job.h"
#include "cli/float_types.h"
#include "cli/json.h"
#include "cli/ranks.h"
#include "cli/translation_job.h"
#include "heed/error.h"
#include "heed/pipelines.h"

namespace heed::cli {
namespace {

struct TranslateCommand {
  std::string model, input;
  std::optional<std::string> text;
  TranslatorOptions translate;
  bool scores = false;
  TooLong too_long = TooLong::split;
  WeightFormat weights = WeightFormat::f32;
  LineOptions lines;
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

// Lines for one source: a line for each of its n best.
std::string as_lines(const TranslateCommand& o, const std::vector<Translation>& translations) {
  const bool ranks = o.translate.search.n_best > 1;
  std::string lines;
  int64_t rank = 0;
  for (const Translation& translation : translations) {
    if (ranks) lines += fmt::format("{}\t", ++rank);
    if (o.scores || ranks) lines += fmt::format("{:.6f}\t", translation.score);
    lines += one_line(translation.text) + '\n';
  }
  return lines;
}

void check_options(const TranslateCommand& o, bool json) {
  const auto& search = o.translate.search;
  if (search.n_best > search.beam)
    throw UsageError(fmt::format("--n-best takes at most the beam of {}; found {}", search.beam, search.n_best));
  if (search.min_length > search.max_length)
    throw UsageError(fmt::format("--min-length takes at most the --max-length of {}; found {}", search.max_length,
                                 search.min_length));
  if (!o.lines.resume_output.empty() && search.n_best > 1 && !json)
    throw UsageError(
        fmt::format("--resume-output counts a line a sentence; found --n-best {} (--json writes one)", search.n_best));
  if (!o.text) return;
  if (!o.input.empty()) throw UsageError("a text or --input can be given; found both");
  std::error_code ignored;
  if (std::filesystem::is_regular_file(*o.text, ignored))
    throw UsageError(fmt::format("a text is expected after MODEL; found the file {} (--input {} translates its lines)",
                                 in_quotes(*o.text), escaped(*o.text)));
}

int run_translate(const TranslateCommand& o, Context& context) {
  check_options(o, context.json);
  const Translator translator = Translator::load(o.model, o.weights);
  if (leads()) warn_of_samples(o.model);
  require_same_work(translator.model(), {&translator.source_tokenizer(), &translator.target_tokenizer()}, o.lines,
                    context);
  TranslatorOptions translate = o.translate;
  translate.search.scores = o.scores || context.json || translate.search.n_best > 1;
  LineJob job = translation_job(
      translator, translate, [&](const std::string& source, const std::vector<Translation>& translations) {
        return context.json ? as_json(source, translations) + '\n' : as_lines(o, translations);
      });
  job.input = o.input;
  if (o.text) job.text = one_line(*o.text);  // as one line of a file: models that heed trained know no line ends
  job.tells = "Reading text from standard input, one sentence a line; Ctrl-D ends it.";
  job.too_long = o.too_long;
  return run_lines(job, o.lines, context);
}

}  // namespace

void add_translate_command(Options& options) {
  auto o = std::make_shared<TranslateCommand>();
  generate::BeamOptions& search = o->translate.search;
  options.add("MODEL", o->model, "Folder of an encoder-decoder model, or its name in Hugging Face's cache")
      .takes("DIR")
      .required();
  options.add("TEXT", o->text, "The text to translate; without it, the lines of standard input");
  options.add("--input", o->input, "Read this file instead of standard input").takes("FILE");
  options.add("--beam", search.beam, "Hypotheses to keep; 1 is greedy search").range(1, 1000);
  options.add("--n-best", search.n_best, "Write this many translations of each line: rank, score and text, with tabs")
      .range(1, 1000);
  options.flag("--scores", o->scores, "Write the score before the text, with a tab");
  options.add("--length-penalty", search.length_penalty, "Divide scores by length^NUMBER")
      .shows("1, or what the model's folder says");
  options.add("--length-reward", search.length_reward,
              "Add NUMBER to scores for each token: above 0 for longer translations, below 0 for shorter ones");
  options.flag("--gnmt", search.gnmt, "Divide scores by ((5 + length) / 6)^NUMBER instead");
  options.add("--max-length", search.max_length, "Most tokens in a translation").range(1);
  options.add("--min-length", search.min_length, "Fewest tokens in a translation").range(0);
  options
      .add("--length-factor", search.length_factor,
           "Most tokens for each token of the source, beside 20 more; 0 is no limit")
      .range(0, 1e6)
      .shows("2, or 0 for a model of others");
  options
      .add("--source-language", o->translate.source_language,
           "The language of the text, for models of several languages, as the vocabulary spells it")
      .takes("CODE");
  options.add("--target-language", o->translate.target_language, "The language of the translation").takes("CODE");
  options.flag("--parse-special", o->translate.parse_special, kParseSpecialHelp);
  options
      .add("--batch-tokens", o->translate.batch_tokens,
           "Tokens in a batch at most, padding and beam included; 0 is 2048, or 1024 if the model is wide (512 or "
           "more), or 512 with int8 weights if the processor multiplies int8")
      .range(0);
  options.choose("--cache", o->translate.cache.dtype, kCacheTypes, kCacheHelp);
  options.choose("--weights", o->weights, kWeightFormats, kWeightsHelp);
  options.choose("--too-long", o->too_long,
                 {{"split", TooLong::split}, {"cut", TooLong::cut}, {"refuse", TooLong::refuse}},
                 "What to do with a line that is longer than the model can read: split cuts it where sentences end, "
                 "or else at commas, spaces or tokens, and joins the translations of the parts");
  add_line_options(options, o->lines);
  options.footer(
      "Lines are written in their order as they are done. Empty lines stay empty.\n"
      "With --json, each line is an object with tokens and log probabilities.\n"
      "With mpirun, process 0 reads and writes, and all of them translate: the output\n"
      "has the bytes of one process. --resume-output removes half a line at the end of\n"
      "FILE, and translates the last lines again: FILE must belong to this command.\n"
      "Examples:\n"
      "  heed translate demo/en-zh 'Where is the station?'\n"
      "  heed translate demo/en-zh --beam 1 < english.txt > chinese.txt\n"
      "  heed translate demo/en-zh --n-best 5 --input english.txt\n"
      "  mpirun -n 4 heed translate demo/en-zh --resume-output chinese.txt < english.txt\n");
  options.has_json();
  options.on_run([o](Context& c) { return run_translate(*o, c); });
}

}  // namespace heed::cli
