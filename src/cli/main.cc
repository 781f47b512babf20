// heed: the program. The table of commands, the options all of them have, and what becomes of errors.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <vector>

#include "cli/command.h"
#include "cli/progress.h"
#include "heed/cpu.h"
#include "heed/error.h"

namespace heed::cli {
namespace {

struct Command {
  const char* name;
  const char* help;
  void (*add)(CLI::App& command, Context& context);
};

constexpr Command kCommands[] = {
    {"train", "Train a model by a recipe", add_train_command},
    {"translate", "Translate standard input, one sentence a line", add_translate_command},
    {"generate", "Continue a text", add_generate_command},
    {"evaluate", "Loss, perplexity and BLEU", add_evaluate_command},
    {"attend", "Attention over arrays from files", add_attend_command},
    {"inspect", "A page that shows a model's attention", add_inspect_command},
    {"average", "The mean of several models", add_average_command},
    {"info", "This machine, or a model and what it costs", add_info_command},
    {"bench", "Measure the kernels against the processor's peak", add_bench_command},
    {"plot", "A page with the curves of a training", add_plot_command},
};

// Edits (insert, delete, exchange) between two words.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j)
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])}));
  }
  return row[b.size()];
}

void check_command_name(std::string_view word) {
  const Command* nearest = &kCommands[0];
  for (const Command& command : kCommands) {
    if (word == command.name) return;
    if (distance(word, command.name) < distance(word, nearest->name)) nearest = &command;
  }
  const bool near = distance(word, nearest->name) <= 2;
  throw UsageError(fmt::format("there is no command '{}'; {}", word,
                               near ? fmt::format("did you mean '{}'?", nearest->name) : "heed --help lists them"));
}

void add_common_options(CLI::App& app, Context& context) {
  const char* group = "Common options";
  app.add_option("--threads", context.threads, "Threads to work with; no result depends on it (default: all cores)")
      ->group(group);
  app.add_option("--seed", context.seed, "Seed of everything random")->group(group);
  app.add_flag("--quiet", context.quiet, "No messages and no progress bar")->group(group);
  app.add_flag("--json", context.json, "Results as JSON")->group(group);
}

// A closed standard stream would be given to the next file that is opened, and that file be written over.
void occupy_standard_streams() {
  for (int descriptor = 0; descriptor < 3; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) >= 0) continue;
    // Not writable for standard output: writing results there must fail.
    const int opened = open("/dev/null", descriptor == 2 ? O_WRONLY : O_RDONLY);
    if (opened >= 0 && opened != descriptor) close(opened);
  }
}

int report(int status, std::string_view text, std::string_view hint = {}) {
  hide_progress();
  std::string line(text);
  for (char& c : line)
    if (c == '\n' || c == '\r') c = ' ';  // one line, whatever the text
  while (!line.empty() && line.back() == ' ') line.pop_back();
  fmt::print(stderr, "heed: {}{}\n", line, hint.empty() ? "" : fmt::format(" ({})", hint));
  return status;
}

int run(int argc, char** argv) {
  CLI::App program("heed: attention, and the Transformer around it", "heed");
  Context context;
  program.set_version_flag("--version", std::string("heed ") + HEED_VERSION);
  program.require_subcommand(1);
  add_common_options(program, context);
  program.footer(
      "Examples:\n"
      "  heed train --config recipe.toml --output runs/first\n"
      "  echo 'Where is the station?' | heed translate demo/en-zh\n"
      "  heed inspect demo/en-zh --source 'Where is the station?' --output page.html\n"
      "  heed train --help\n");
  std::vector<CLI::App*> commands;
  for (const Command& command : kCommands) {
    CLI::App* app = program.add_subcommand(command.name, command.help);
    command.add(*app, context);
    add_common_options(*app, context);
    commands.push_back(app);
  }

  std::string command_name;
  try {
    for (int i = 1; i < argc; ++i) {
      const std::string_view word = argv[i];
      if (word == "--threads" || word == "--seed") {
        ++i;
      } else if (!word.empty() && word[0] != '-') {
        check_command_name(word);
        command_name = word;
        break;
      }
    }
    program.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    print(program.help());
    return kSuccess;
  } catch (const CLI::CallForVersion&) {
    print_line(std::string("heed ") + HEED_VERSION);
    return kSuccess;
  } catch (const CLI::ParseError& error) {
    const std::string full = command_name.empty() ? "heed" : "heed " + command_name;
    return report(kUsage, command_name.empty() && argc < 2 ? "a command is required" : error.what(),
                  full + " --help shows the usage");
  }
  if (context.threads) {
    if (*context.threads < 1 || *context.threads > 1024)
      throw UsageError(fmt::format("--threads takes a number from 1 to 1024; found {}", *context.threads));
    set_num_threads(static_cast<int>(*context.threads));
  }
  (void)active_isa();   // a wrong HEED_ISA
  (void)num_threads();  // or HEED_NUM_THREADS is said before any work
  return context.chosen(context);
}

// What to do about it, where that can be told from the message.
std::string_view hint_for(std::string_view text) {
  if (text.find("o space left") != std::string_view::npos && !text.starts_with("standard output"))
    return "free some space and use --resume to go on";
  if (text.find("HEED_ISA") != std::string_view::npos) return "heed info lists what this machine has";
  return {};
}

int guarded_main(int argc, char** argv) {
  try {
    const int status = run(argc, argv);
    flush_output();
    return status;
  } catch (const UsageError& error) {
    return report(kUsage, error.what());
  } catch (const Error& error) {
    return report(kFailure, error.what(), hint_for(error.what()));
  } catch (const std::bad_alloc&) {
    return report(kFailure, "not enough memory", "smaller batches need less: --batch-tokens");
  } catch (const std::exception& error) {
    return report(kFailure, error.what());
  }
}

}  // namespace
}  // namespace heed::cli

int main(int argc, char** argv) {
  heed::cli::occupy_standard_streams();
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error like others, not a silent death
  return heed::cli::guarded_main(argc, argv);
}
