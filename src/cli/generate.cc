// heed generate: continues a text, and writes it as it is made.
#include <fmt/core.h>

#include "cli/command.h"
#include "cli/float_types.h"
#include "cli/json.h"
#include "cli/line_job.h"
#include "cli/ranks.h"
#include "cli/warnings.h"
#include "heed/io.h"
#include "heed/pipelines.h"

namespace heed::cli {
namespace {

struct GenerateCommand {
  std::string model, prompt, prompt_file, prompts;
  std::optional<std::string> text;
  GeneratorOptions generate;
  WeightFormat weights = WeightFormat::f32;
  int64_t count = 1;
  LineOptions lines;
};

std::string prompt_of(const GenerateCommand& o) {
  if ((o.text ? 1 : 0) + (o.prompt.empty() ? 0 : 1) + (o.prompt_file.empty() ? 0 : 1) > 1)
    throw UsageError("one of TEXT, --prompt and --prompt-file can be given; found several");
  if (!o.prompt_file.empty()) return io::read_file(o.prompt_file, int64_t{1} << 26);
  return o.text.value_or(o.prompt);
}

std::string as_json(const std::string& prompt, const Generation& made, uint64_t seed) {
  JsonObject object;
  object.add("prompt", prompt).add("text", made.text).add("tokens", made.tokens).add("log_probs", made.log_probs);
  return object.add("finished", made.finished).add("seed", seed).text();
}

void check_prompts(const GenerateCommand& o) {
  if (o.prompts.empty()) {
    if (several_processes()) throw UsageError("several processes share many prompts; --prompts FILE gives them");
    if (!o.lines.resume_output.empty()) throw UsageError("--resume-output goes with --prompts");
    return;
  }
  if (o.text || !o.prompt.empty() || !o.prompt_file.empty())
    throw UsageError("one of TEXT, --prompt, --prompt-file and --prompts can be given; found several");
  if (!o.lines.resume_output.empty() && o.count > 1)
    throw UsageError(fmt::format("--resume-output counts a line a prompt; found --count {}", o.count));
}

// Each prompt is a line, and so is what comes of it. Its seeds depend on its place in the file alone.
int run_prompts(const GenerateCommand& o, Context& context) {
  const Generator generator = Generator::load(o.model, o.weights);
  require_same_work(generator.model(), {&generator.tokenizer()}, o.lines, context);
  LineJob job{.input = o.prompts,
              .unit = "prompts",
              .tells = "Reading prompts from standard input, one a line; Ctrl-D ends it."};
  job.work = [&](const pipelines::LineBatch& batch, const std::function<void(std::string)>& hand_over) {
    for (size_t i = 0; i < batch.lines.size(); ++i) {
      const auto place = static_cast<int64_t>(i);
      GeneratorOptions options = o.generate;
      options.text = {.too_long = TooLong::refuse,
                      .on_warning =
                          [&](TextWarning warning) {
                            warning.text = place;
                            if (batch.text.on_warning) batch.text.on_warning(warning);
                          },
                      .name = [&](int64_t) { return batch.text.name(place); }};
      options.sampling.stop = batch.stop;
      std::string lines;
      for (int64_t n = 0; n < o.count; ++n) {
        options.sampling.seed = context.seed.value_or(0) + static_cast<uint64_t>((batch.first + place) * o.count + n);
        const Generation made = generator.generate(batch.lines[i], options);
        if (batch.stop()) return;
        lines += (context.json ? as_json(batch.lines[i], made, options.sampling.seed)
                               : one_line(batch.lines[i] + made.text)) +
                 '\n';
        options.text.on_warning = {};  // the prompt is the same
      }
      hand_over(std::move(lines));
    }
  };
  return run_lines(job, o.lines, context);
}

int run_generate(const GenerateCommand& o, Context& context) {
  check_prompts(o);
  if (!o.prompts.empty()) return run_prompts(o, context);
  const std::string prompt = prompt_of(o);
  const Generator generator = Generator::load(o.model, o.weights);
  install_signal_handlers();
  TextWarnings warnings([](int64_t) { return std::string("the prompt"); });
  GeneratorOptions options = o.generate;
  options.text = warnings.options(TooLong::refuse);
  options.sampling.stop = [] { return stop_requested().load(); };
  const auto goes_on = [] { return !stop_requested().load(); };
  for (int64_t n = 0; n < o.count && goes_on(); ++n) {
    options.sampling.seed = context.seed.value_or(0) + static_cast<uint64_t>(n);
    bool began = false;
    const auto write = [&](std::string_view piece) {  // after the prompt, once it has proved to be a text
      if (!began) print(prompt);
      began = true;
      print(piece);
      flush_output();
      return true;
    };
    if (!context.json) options.on_text = write;
    const Generation made = generator.generate(prompt, options);
    if (!context.json) (void)write("");
    if (context.json) print(as_json(prompt, made, options.sampling.seed));
    print("\n");
    flush_output();
  }
  return goes_on() ? kSuccess : interrupted_status();
}

}  // namespace

void add_generate_command(Options& options) {
  auto o = std::make_shared<GenerateCommand>();
  generate::SamplingOptions& s = o->generate.sampling;
  options.add("MODEL", o->model, "Folder of a decoder-only model").takes("DIR").required();
  options.add("TEXT", o->text, "The text to continue; without one, the model begins");
  options.add("--prompt", o->prompt, "The text to continue, as an option");
  options.add("--prompt-file", o->prompt_file, "A file with the text to continue").takes("FILE");
  options
      .add("--prompts", o->prompts,
           "A file with many prompts, one a line, or - for standard input; each text is one line")
      .takes("FILE");
  options.add("--max-tokens", s.max_tokens, "Most tokens to add").range(0);
  options.add("--temperature", s.temperature, "Below 1 prefers likely tokens; 0 always takes the likeliest")
      .range(0, 1e6);
  options.add("--top-k", s.top_k, "Choose among this many of the likeliest tokens; 0 is all").range(0);
  options.add("--top-p", s.top_p, "Choose among the likeliest tokens that have this probability together")
      .range(1e-12, 1);
  options.add("--min-p", s.min_p, "Choose among tokens with at least this share of the likeliest one's probability")
      .range(0, 1);
  options.add("--count", o->count, "Texts to make of each prompt; each has the next seed").range(1);
  options.choose("--cache", s.cache.dtype, kCacheTypes, kCacheHelp);
  options.choose("--weights", o->weights, kWeightFormats, kWeightsHelp);
  options.flag("--ignore-end", o->generate.ignore_end, "Go on where the model ends the text");
  add_line_options(options, o->lines);
  options.footer(
      "The same seed (0 if none is given) gives the same text. Of --prompts, each text\n"
      "has the next seed, also with mpirun: no text depends on the number of processes.\n"
      "Examples:\n"
      "  heed generate runs/shakespeare 'ROMEO:' --max-tokens 500 --temperature 0.8\n"
      "  heed generate runs/shakespeare --top-k 20 --seed 7 --count 3 --json\n"
      "  mpirun -n 4 heed generate runs/shakespeare --prompts names.txt > speeches.txt\n");
  options.has_json();
  options.on_run([o](Context& c) { return run_generate(*o, c); });
}

}  // namespace heed::cli
