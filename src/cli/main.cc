// The program: its commands, the options that all of them have, and how errors end it.
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <csignal>
#include <new>

#include "cli/command.h"
#include "cli/errors.h"
#include "cli/ranks.h"
#include "heed/cpu.h"
#include "heed/error.h"
#include "heed/train.h"

namespace heed::cli {
namespace {

struct Command {
  const char* name;
  const char* help;
  void (*add)(Options& options);
};

constexpr Command kCommands[] = {
    {"train", "Train a model as a recipe says", add_train_command},
    {"translate", "Translate text, one sentence a line", add_translate_command},
    {"generate", "Continue a text", add_generate_command},
    {"embed", "Turn text into vectors, and find similar lines", add_embed_command},
    {"classify", "Tell the class of texts, pairs or tokens", add_classify_command},
    {"fill", "Guess the words that are missing in a text", add_fill_command},
    {"answer", "Find the answer to a question in a text", add_answer_command},
    {"evaluate", "How good a model is: loss, BLEU, accuracy", add_evaluate_command},
    {"attend", "Attention over arrays from files", add_attend_command},
    {"inspect", "A page that shows a model's attention", add_inspect_command},
    {"serve", "The live page: see heads, and switch them off", add_serve_command},
    {"average", "The mean of several models", add_average_command},
    {"tokenize", "Cut text into tokens, one text a line", add_tokenize_command},
    {"convert", "A model with its weights in another format", add_convert_command},
    {"info", "This machine, or a model and what it costs", add_info_command},
    {"bench", "Measure the kernels against the processor's peak", add_bench_command},
    {"plot", "A page with the curves of a training", add_plot_command},
};

void add_common_options(Options& options, Context& context) {
  options.group("Common options");
  options.add("--threads", context.threads, "Threads to use; no result depends on it")
      .range(1, 1024)
      .shows("all cores");
  options.add("--seed", context.seed, "Seed of everything random");
  options.flag("--quiet", context.quiet, "No messages and no progress bar");
  options.flag("--json", context.json, "Results as JSON");
}

// Without this, the next file that is opened would take the place of a closed standard stream, and messages would be
// written into it.
void occupy_standard_streams() {
  for (int descriptor = 0; descriptor < 3; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) >= 0) continue;
    // Read-only for standard output: writing results there must fail.
    const int opened = open("/dev/null", descriptor == 2 ? O_WRONLY : O_RDONLY);
    if (opened >= 0 && opened != descriptor) close(opened);
  }
}

// "help" and "version" work as commands too: heed help translate.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "help") {
    words.erase(words.begin());
    if (!words.empty() && (words[0] == "help" || words[0] == "version")) words.erase(words.begin());
    words.emplace_back("--help");
  } else if (!words.empty() && words[0] == "version") {
    words[0] = "--version";
  }
  return words;
}

// A wrong environment variable is reported before any work is done.
void check_environment() {
  try {
    (void)active_isa();
  } catch (const Error& error) {
    throw Error("HEED_ISA: " + plain_message(error.what()));
  }
  (void)num_threads();
}

int run(int argc, char** argv) {
  Options program("heed", "heed: attention, and the Transformer around it");
  Context context;
  add_common_options(program, context);
  program.footer(
      "Examples:\n"
      "  heed train --config recipe.toml --output runs/first\n"
      "  heed translate demo/en-zh 'Where is the station?'\n"
      "  heed inspect demo/en-zh 'Where is the station?' --output page.html\n"
      "  heed help train\n");
  for (const Command& command : kCommands) command.add(program.subcommand(command.name, command.help));

  context.words = words_of(argc, argv);
  const Options::Parsed parsed =
      program.parse(context.words, [](const Options& command) { set_command_name(command.full_name()); });
  if (parsed.wants_help || parsed.wants_version) {
    if (leads()) print(parsed.wants_help ? parsed.command->help() : std::string("heed ") + HEED_VERSION + "\n");
    return kSuccess;
  }
  if (parsed.lacks_command) {
    std::string help = parsed.command->help();
    help.pop_back();  // message() adds the line end
    message({}, help);
    return kUsage;
  }
  if (context.json && !parsed.command->writes_json()) throw UsageError("--json: this command has no results in JSON");
  if (context.threads) set_num_threads(static_cast<int>(*context.threads));
  check_environment();
  if (parsed.command->works_in_ranks()) {
    share_cores(context.threads);
  } else {
    require_one_process();
  }
  return parsed.command->run(context);
}

int fail(int status, const std::string& text, std::string_view hint = {},
         const distributed::PeerError* lost = nullptr) {
  return end_with(status, hint.empty() ? text : fmt::format("{} ({})", text, hint), lost);
}

int guarded_main(int argc, char** argv) {
  try {
    const int status = run(argc, argv);
    flush_output();
    return status;
  } catch (const UsageError& error) {
    return fail(kUsage, plain_message(error.what()));
  } catch (const BrokenPipe&) {
    return kBrokenPipe;
  } catch (const distributed::PeerError& error) {
    return fail(kFailure, plain_message(error.what()), way_to_go_on(), &error);
  } catch (const train::Interrupted& error) {
    return fail(interrupted_status(), error.what());
  } catch (const Error& error) {
    return fail(kFailure, plain_message(error.what()), hint_for(command_name(), error.what()));
  } catch (const std::bad_alloc&) {
    return fail(kFailure, "not enough memory", hint_for_memory(command_name()));
  } catch (const std::exception& error) {
    return fail(kFailure, error.what());
  }
}

}  // namespace
}  // namespace heed::cli

int main(int argc, char** argv) {
  heed::cli::occupy_standard_streams();
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe becomes an error, so that files are left whole
  const int status = heed::cli::guarded_main(argc, argv);
  heed::cli::set_exit_status(status);
  return status;
}
