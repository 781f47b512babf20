// heed generate: continues a text, and writes it as it is made.
#include "cli/command.h"
#include "cli/float_types.h"
#include "cli/json.h"
#include "cli/warnings.h"
#include "heed/io.h"
#include "heed/pipelines.h"

namespace heed::cli {
namespace {

struct GenerateCommand {
  std::string model, prompt, prompt_file;
  std::optional<std::string> text;
  GeneratorOptions generate;
  int64_t count = 1;
};

std::string prompt_of(const GenerateCommand& o) {
  if ((o.text ? 1 : 0) + (o.prompt.empty() ? 0 : 1) + (o.prompt_file.empty() ? 0 : 1) > 1)
    throw UsageError("one of TEXT, --prompt and --prompt-file can be given; found several");
  if (!o.prompt_file.empty()) return io::read_file(o.prompt_file, int64_t{1} << 26);
  return o.text.value_or(o.prompt);
}

int run_generate(const GenerateCommand& o, Context& context) {
  const std::string prompt = prompt_of(o);
  const Generator generator = Generator::load(o.model);
  install_signal_handlers();
  TextWarnings warnings([](int64_t) { return std::string("the prompt"); });
  GeneratorOptions options = o.generate;
  options.text = warnings.options(TooLong::refuse);
  const auto goes_on = [] { return !stop_requested().load(); };
  for (int64_t n = 0; n < o.count && goes_on(); ++n) {
    options.sampling.seed = context.seed.value_or(0) + static_cast<uint64_t>(n);
    options.on_text = [&](std::string_view piece) {
      if (!context.json) {
        print(piece);
        flush_output();
      }
      return goes_on();
    };
    if (!context.json) print(prompt);
    const Generation made = generator.generate(prompt, options);
    if (context.json) {
      JsonObject object;
      object.add("prompt", prompt).add("text", made.text).add("tokens", made.tokens).add("log_probs", made.log_probs);
      print(object.add("finished", made.finished).add("seed", options.sampling.seed).text());
    }
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
  options.add("--max-tokens", s.max_tokens, "Most tokens to add").range(0);
  options.add("--temperature", s.temperature, "Below 1 prefers likely tokens; 0 always takes the likeliest")
      .range(0, 1e6);
  options.add("--top-k", s.top_k, "Choose among this many of the likeliest tokens; 0 is all").range(0);
  options.add("--top-p", s.top_p, "Choose among the likeliest tokens that have this probability together")
      .range(1e-12, 1);
  options.add("--min-p", s.min_p, "Choose among tokens with at least this share of the likeliest one's probability")
      .range(0, 1);
  options.add("--count", o->count, "Texts to make; each has the next seed").range(1);
  options.choose("--cache", s.cache.dtype, kCacheTypes, kCacheHelp);
  options.flag("--ignore-end", o->generate.ignore_end, "Go on where the model ends the text");
  options.footer(
      "The same seed (0 if none is given) gives the same text.\n"
      "Examples:\n"
      "  heed generate runs/shakespeare 'ROMEO:' --max-tokens 500 --temperature 0.8\n"
      "  heed generate runs/shakespeare --top-k 20 --seed 7 --count 3 --json\n");
  options.has_json();
  options.on_run([o](Context& c) { return run_generate(*o, c); });
}

}  // namespace heed::cli
