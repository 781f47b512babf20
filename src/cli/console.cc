// Standard output and standard error, and signals.
#include "cli/console.h"

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/files.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "heed/inspect.h"
#include "heed/io.h"

namespace heed::cli {
namespace {

std::atomic<bool> g_stop{false};
std::atomic<int> g_signal{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);
std::atomic<bool> g_others_too{false};
std::string g_command = "heed";

extern "C" void on_signal(int number) {
  if (g_stop.load() && !g_others_too.load()) _exit(128 + number);  // the second signal: leave at once
  g_signal.store(number);
  g_stop.store(true);
}

[[noreturn]] void output_failed(int error) {
  if (error == EPIPE) throw BrokenPipe("standard output is a closed pipe");
  if (error == EBADF) throw Error("standard output is closed");
  throw Error(std::string("standard output cannot be written: ") + std::strerror(error));
}

void write_error_line(const std::string& line) {
  hide_progress();
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

void set_command_name(std::string name) { g_command = std::move(name); }
const std::string& command_name() { return g_command; }

void print(std::string_view text) {
  hide_progress();
  if (!text.empty() && std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) output_failed(errno);
}

void print_line(std::string_view text) {
  print(text);
  print("\n");
}

void flush_output() {
  if (std::fflush(stdout) != 0) output_failed(errno);
}

bool output_is_abandoned() {
  pollfd output = {STDOUT_FILENO, 0, 0};  // no events: poll reports errors in any case
  return poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

void write_result(const std::string& file, std::string_view contents) {
  if (file == "-") {
    print(contents);
  } else {
    io::write_file_atomically(file, contents);
  }
}

namespace {

// One file, whether it is there or not.
bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code error;
  if (std::filesystem::equivalent(a, b, error)) return true;
  const auto path = [](const std::filesystem::path& file) {
    std::error_code failed;
    const auto whole = std::filesystem::absolute(files::behind_links(file, "write_file_atomically"), failed);
    const auto found = failed ? std::filesystem::path() : std::filesystem::weakly_canonical(whole, failed);
    return failed ? std::filesystem::path() : found;
  };
  const std::filesystem::path first = path(a);
  return !first.empty() && first == path(b);  // empty: no file has such a name
}

}  // namespace

void require_apart(NamedFiles results) {
  for (auto one = results.begin(); one != results.end(); ++one) {
    for (auto other = one + 1; other != results.end(); ++other) {
      const auto& [first, file] = *one;
      const auto& [second, other_file] = *other;
      if (file.empty() || other_file.empty() || (file == "-") != (other_file == "-")) continue;
      if (file == "-")
        throw UsageError(fmt::format("one of {} and {} can write to standard output; found both", first, second));
      if (is_same_file(file, other_file))
        throw UsageError(
            fmt::format("{} and {} take a file each; found {} for both", first, second, in_quotes(std::string(file))));
    }
  }
}

void require_inputs_kept(const std::vector<std::string>& inputs, NamedFiles results) {
  for (const auto& [option, file] : results) {
    if (file.empty() || file == "-") continue;
    for (const std::string& input : inputs) {
      if (!input.empty() && input != "-" && is_same_file(input, file))
        throw UsageError(fmt::format("{} takes another file than those that are read; found {}", option,
                                     in_quotes(std::string(file))));
    }
  }
}

void require_writable(std::initializer_list<std::string_view> files) {
  for (const std::string_view file : files)
    if (!file.empty() && file != "-") const files::AtomicFile unfinished(file, "write_file_atomically");
}

void require_new_folder(const std::string& folder, bool force) {
  std::error_code error;
  if (!force && !std::filesystem::is_empty(folder, error) && !error)
    throw UsageError(fmt::format("a new or empty folder is expected; found files in {} (--force writes over them)",
                                 in_quotes(folder)));
}

void message(const Context& context, std::string_view text) {
  if (!context.quiet) write_error_line(std::string(text) + "\n");
}

void warn(std::string_view text) { write_error_line(fmt::format("{}: warning: {}\n", g_command, text)); }

void complain(std::string_view text) {
  std::string line = one_line(std::string(text));
  while (!line.empty() && line.back() == ' ') line.pop_back();
  write_error_line(fmt::format("{}: {}\n", g_command, line));
}

bool stderr_is_terminal() {
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  return terminal;
}

bool use_colour() {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return stderr_is_terminal() && (no_colour == nullptr || *no_colour == '\0') &&
         (terminal == nullptr || std::string_view(terminal) != "dumb");
}

void install_signal_handlers(bool one_of_several) {
  g_others_too.store(one_of_several);
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // no SA_RESTART: a read that waits for input must return
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction before = {};
  sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // nohup ignores it
  action.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &action, nullptr);  // a write beyond a limit of the size of files is an error with a reason
}

const std::atomic<bool>& stop_requested() { return g_stop; }

int interrupted_status() { return g_signal.load() == 0 ? static_cast<int>(kInterrupted) : 128 + g_signal.load(); }

std::string escaped(std::string_view text) { return inspect::escape_terminal(text); }

std::string in_quotes(std::string_view text) { return "'" + escaped(text) + "'"; }

std::string for_shell(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_./=:,+@%").find(c) != std::string_view::npos;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return escaped(quoted + "'");
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  return text;
}

std::string one_field(std::string text) {
  text = one_line(std::move(text));
  std::ranges::replace(text, '\t', ' ');
  return text;
}

}  // namespace heed::cli
