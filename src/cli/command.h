// What the commands of the program share: the context they run in, and how they print, fail and are interrupted.
//
// A command is one file with one function, named in the table of main.cc:
//
//   void add_attend_command(CLI::App& command, Context& context);
//
// `command` is the sub-command, already made with its name and one-line help. The function adds options (bound to a
// shared struct of its own), `command.footer(examples)`, and says with `context.on_run(command, function)` what to run.
// The function returns the exit status; Error becomes status 1 and UsageError status 2, one line each, in main().
//
//   void add_attend_command(CLI::App& command, Context& context) {
//     auto options = std::make_shared<AttendOptions>();
//     command.add_option("arrays", options->arrays, "Arrays q, k, v: .npz or .safetensors")->required();
//     command.footer("Examples:\n  heed attend arrays.npz --causal\n");
//     context.on_run(command, [options](Context& c) { return attend(*options, c); });
//   }
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "heed/tensor.h"

namespace heed::cli {

enum ExitStatus : int { kSuccess = 0, kFailure = 1, kUsage = 2, kInterrupted = 130, kTerminated = 143 };

// A command line that cannot be meant: exit status 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The options every command has, set before the command runs (threads are already applied).
struct Context {
  std::optional<int64_t> threads;
  std::optional<uint64_t> seed;
  bool quiet = false;
  bool json = false;  // results as JSON where the command has such a form

  // Calls `function` after the command line has been parsed, if `command` was chosen.
  void on_run(CLI::App& command, std::function<int(Context&)> function);
  std::function<int(Context&)> chosen;
};

// Standard output, for results only. Throws Error when it cannot be written (closed pipe, full disk).
void print(std::string_view text);
void print_line(std::string_view text);  // with a line end
void flush_output();

// Standard error. message() is silent with --quiet; both add the line end and clear the progress bar first.
void message(const Context& context, std::string_view text);
void warn(std::string_view text);  // "heed: warning: <text>"

[[nodiscard]] bool stderr_is_terminal();
[[nodiscard]] bool use_colour();  // a terminal, and NO_COLOR is not set

// The handlers of SIGINT and SIGTERM only set this flag; a second signal leaves at once.
void install_signal_handlers();
[[nodiscard]] const std::atomic<bool>& stop_requested();
// 130 or 143 once a signal has come.
[[nodiscard]] int interrupted_status();

// A number from `least` to `most`; unlike CLI::Range it does not repeat that in the help.
template <class T>
[[nodiscard]] CLI::Validator between(T least, T most) {
  return CLI::Range(least, most).description("");
}
inline constexpr int64_t kMany = int64_t{1} << 30;  // more than anyone means

// "12,345,678"; "1.5 GB"; "2:03:04" or "3:04".
[[nodiscard]] std::string with_commas(int64_t number);
[[nodiscard]] std::string bytes_text(int64_t bytes);
[[nodiscard]] std::string duration_text(double seconds);

// What --dtype takes.
inline const std::map<std::string, DType> kFloatTypes = {
    {"f32", DType::f32}, {"f16", DType::f16}, {"bf16", DType::bf16}};

// The commands, each in a file of its own.
void add_train_command(CLI::App& command, Context& context);
void add_translate_command(CLI::App& command, Context& context);
void add_generate_command(CLI::App& command, Context& context);
void add_evaluate_command(CLI::App& command, Context& context);
void add_attend_command(CLI::App& command, Context& context);
void add_inspect_command(CLI::App& command, Context& context);
void add_average_command(CLI::App& command, Context& context);
void add_info_command(CLI::App& command, Context& context);
void add_bench_command(CLI::App& command, Context& context);
void add_plot_command(CLI::App& command, Context& context);

}  // namespace heed::cli
