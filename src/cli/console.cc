// Standard output and standard error, signals, and numbers as text.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cli/command.h"
#include "cli/progress.h"
#include "heed/error.h"

namespace heed::cli {
namespace {

std::atomic<bool> g_stop{false};
std::atomic<int> g_signal{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

extern "C" void on_signal(int number) {
  if (g_stop.load()) _exit(128 + number);  // the second one: leave at once
  g_signal.store(number);
  g_stop.store(true);
}

[[noreturn]] void output_failed(int error) {
  if (error == EPIPE || error == EBADF) throw Error("standard output is closed");
  throw Error(std::string("standard output cannot be written: ") + std::strerror(error));
}

}  // namespace

void Context::on_run(CLI::App& command, std::function<int(Context&)> function) {
  command.callback([this, function = std::move(function)] { chosen = function; });
}

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

void message(const Context& context, std::string_view text) {
  if (context.quiet) return;
  hide_progress();
  std::string line(text);
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void warn(std::string_view text) {
  hide_progress();
  const std::string line = fmt::format("heed: warning: {}\n", text);
  std::fwrite(line.data(), 1, line.size(), stderr);
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

void install_signal_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // no SA_RESTART: a read that waits for input must return
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

const std::atomic<bool>& stop_requested() { return g_stop; }

int interrupted_status() { return g_signal.load() == SIGTERM ? kTerminated : kInterrupted; }

std::string with_commas(int64_t number) {
  std::string digits = std::to_string(number);
  const size_t first = digits[0] == '-' ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string bytes_text(int64_t bytes) {
  const double b = static_cast<double>(bytes);
  if (bytes >= 1'000'000'000) return fmt::format("{:.2f} GB", b / 1e9);
  if (bytes >= 1'000'000) return fmt::format("{:.1f} MB", b / 1e6);
  if (bytes >= 1'000) return fmt::format("{:.1f} kB", b / 1e3);
  return fmt::format("{} bytes", bytes);
}

std::string duration_text(double seconds) {
  const int64_t total = seconds > 0 ? static_cast<int64_t>(seconds + 0.5) : 0;
  const int64_t hours = total / 3600, minutes = total / 60 % 60, rest = total % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, rest) : fmt::format("{}:{:02}", minutes, rest);
}

}  // namespace heed::cli
