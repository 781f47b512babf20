#include "cli/progress.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cli/console.h"
#include "cli/numbers.h"

namespace heed::cli {
namespace {

bool g_drawn = false;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

int64_t terminal_width() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace

std::string progress_line(int64_t done, int64_t total, std::string_view details, double seconds_left, int64_t width) {
  const std::string count =
      total > 0 ? fmt::format(" {}/{}", with_commas(done), with_commas(total)) : with_commas(done);
  const std::string left = seconds_left >= 0 ? fmt::format("  {} left", duration_text(seconds_left)) : std::string();
  const auto line = [&] { return count + (details.empty() ? "" : fmt::format("  {}", details)) + left; };
  std::string text = line();
  // The last details are the first to go where the line is too narrow: the time left matters more.
  while (static_cast<int64_t>(text.size()) > width - 1 && !details.empty()) {
    const size_t gap = details.rfind("  ");
    details = details.substr(0, gap == std::string_view::npos ? 0 : gap);
    text = line();
  }
  // The bar takes the rest of the line but one column: a full line would wrap.
  const int64_t room = std::min<int64_t>(width - 1 - static_cast<int64_t>(text.size()) - 2, 30);
  if (total > 0 && room >= 5) {
    const double share = std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
    const auto filled = static_cast<size_t>(share * static_cast<double>(room));
    text = "[" + std::string(filled, '#') + std::string(static_cast<size_t>(room) - filled, '.') + "]" + text;
  }
  if (static_cast<int64_t>(text.size()) > width - 1) text.resize(static_cast<size_t>(std::max<int64_t>(width - 1, 0)));
  return text;
}

ProgressBar::ProgressBar(int64_t total, const bool& quiet) : total_(total), shown_(!quiet && stderr_is_terminal()) {}

ProgressBar::~ProgressBar() { hide_progress(); }

void ProgressBar::update(int64_t done, std::string_view details) {
  if (!shown_) return;
  const double time = now();
  if (first_ < 0) {
    first_ = done;
    started_ = time;
  }
  if (g_drawn && time - last_drawn_ < 0.1 && (done < total_ || total_ == 0)) return;  // ten times a second is enough
  last_drawn_ = time;
  const int64_t since = done - first_;
  const double left = since > 0 && total_ > done
                          ? (time - started_) / static_cast<double>(since) * static_cast<double>(total_ - done)
                          : -1;
  const std::string line = progress_line(done, total_, details, left, terminal_width());
  const bool colour = use_colour();
  fmt::print(stderr, "\r{}{}{}\x1b[K", colour ? "\x1b[36m" : "", line, colour ? "\x1b[0m" : "");
  std::fflush(stderr);
  g_drawn = true;
}

void hide_progress() {
  if (!g_drawn) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  g_drawn = false;
}

}  // namespace heed::cli
