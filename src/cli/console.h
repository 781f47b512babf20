// Standard output for results, standard error for messages, and the signals that end a command.
#pragma once

#include <atomic>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/error.h"

namespace heed::cli {

struct Context;

enum ExitStatus : int {
  kSuccess = 0,
  kFailure = 1,
  kUsage = 2,
  kInterrupted = 130,
  kBrokenPipe = 141,
  kTerminated = 143
};

// Standard output is a pipe whose reader has gone. The command ends without a message, as other programs do.
class BrokenPipe : public Error {
 public:
  using Error::Error;
};

// The command that messages name, "heed translate"; "heed" until it is set.
void set_command_name(std::string name);
[[nodiscard]] const std::string& command_name();

// Standard output, for results only. Throws Error when it cannot be written (closed, full disk), and BrokenPipe when
// its reader has gone.
void print(std::string_view text);
void print_line(std::string_view text);  // with a line end
void flush_output();
// Whether standard output is a pipe whose reader has gone: nobody wants more results.
[[nodiscard]] bool output_is_abandoned();

// Writes results into a file atomically; "-" is standard output.
void write_result(const std::string& file, std::string_view contents);
// Options that may name a file for results, with what was given; "" is none. Throws UsageError where two name the same
// file, or are both "-": their results would run into each other.
using NamedFiles = std::initializer_list<std::pair<const char*, std::string_view>>;
void require_apart(NamedFiles results);
// Throws UsageError where one of these results would take the place of one of the files that are read.
void require_inputs_kept(const std::vector<std::string>& inputs, NamedFiles results);
// Throws Error, before anything is computed, where write_result() could not write one of these; "" is no file.
void require_writable(std::initializer_list<std::string_view> files);
// Throws UsageError where the folder has files in it, unless they may be written over.
void require_new_folder(const std::string& folder, bool force);

// Standard error. message() is silent with --quiet; both add the line end and clear the progress bar first.
void message(const Context& context, std::string_view text);
void warn(std::string_view text);  // "heed translate: warning: <text>"
// "heed translate: <text>", on one line.
void complain(std::string_view text);

[[nodiscard]] bool stderr_is_terminal();
[[nodiscard]] bool use_colour();  // a terminal, and NO_COLOR is not set

// The handlers of SIGINT and SIGTERM only set a flag; a second signal leaves at once. Not so one of several processes:
// Ctrl-C reaches it from the terminal and once more from mpirun, which ends it anyway if it takes long.
void install_signal_handlers(bool one_of_several = false);
[[nodiscard]] const std::atomic<bool>& stop_requested();
// 130 or 143 once a signal has come.
[[nodiscard]] int interrupted_status();

// Text from outside as it can be shown: control characters made visible; in quotes.
[[nodiscard]] std::string escaped(std::string_view text);
[[nodiscard]] std::string in_quotes(std::string_view text);
// A word as a shell reads it back: in quotes if it needs them.
[[nodiscard]] std::string for_shell(const std::string& word);
// Text that stays on its line, whatever it holds: line ends become spaces.
[[nodiscard]] std::string one_line(std::string text);
// The same for a field of a line whose fields have tabs between them.
[[nodiscard]] std::string one_field(std::string text);

}  // namespace heed::cli
