// What the commands of the program share: the table of commands, and the context they run in.
//
// A command is one file with one function, named in the table of main.cc:
//
//   void add_attend_command(Options& options) {
//     auto o = std::make_shared<AttendCommand>();
//     options.add("ARRAYS", o->arrays, "Query, key and value: .npz or .safetensors").required();
//     options.footer("Examples:\n  heed attend arrays.npz --causal bottom-right\n");
//     options.on_run([o](Context& context) { return attend(*o, context); });
//   }
//
// `options` is made with the command's name and its one line of help. The function given to on_run() returns the exit
// status; Error becomes status 1 and UsageError status 2, one line each, in main().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/numbers.h"
#include "cli/options.h"

namespace heed::cli {

// The options every command has, set before the command runs (threads are already applied).
struct Context {
  std::optional<int64_t> threads;
  std::optional<uint64_t> seed;
  bool quiet = false;
  bool json = false;               // results as JSON, where the command has them
  std::vector<std::string> words;  // of the command line, without the program's name
};

// The commands, each in a file of its own.
void add_train_command(Options& options);
void add_translate_command(Options& options);
void add_generate_command(Options& options);
void add_evaluate_command(Options& options);
void add_embed_command(Options& options);
void add_classify_command(Options& options);
void add_fill_command(Options& options);
void add_answer_command(Options& options);
void add_attend_command(Options& options);
void add_inspect_command(Options& options);
void add_average_command(Options& options);
void add_convert_command(Options& options);
void add_serve_command(Options& options);
void add_tokenize_command(Options& options);
void add_info_command(Options& options);
void add_bench_command(Options& options);
void add_plot_command(Options& options);

}  // namespace heed::cli
