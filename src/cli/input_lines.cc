#include "cli/input_lines.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/console.h"
#include "heed/error.h"

namespace heed::cli {
namespace {

constexpr size_t kLongestLine = size_t{1} << 26;  // bytes; no sentence is longer

}  // namespace

InputLines::InputLines(const std::filesystem::path& file) : name_("standard input") {
  if (file.empty() || file == "-") return;
  name_ = file.string();
  descriptor_ = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) throw Error(fmt::format("{} cannot be read: {}", in_quotes(name_), std::strerror(errno)));
}

InputLines::~InputLines() {
  if (descriptor_ != 0) close(descriptor_);
}

bool InputLines::is_terminal() const { return isatty(descriptor_) != 0; }

bool InputLines::fill(bool wait) {
  if (ended_) return false;
  while (true) {
    if (stop_requested().load()) return false;
    pollfd ready = {descriptor_, POLLIN, 0};
    const int polled = poll(&ready, 1, wait ? -1 : 0);
    if (polled < 0 && errno == EINTR) continue;
    if (polled == 0) return false;
    char bytes[1 << 16];
    const ssize_t count = read(descriptor_, bytes, sizeof bytes);
    if (count < 0) {
      if (errno == EINTR) continue;
      throw Error(fmt::format("{} cannot be read: {}", name_, std::strerror(errno)));
    }
    if (count == 0) {
      ended_ = true;
      return false;
    }
    buffer_.erase(0, begin_);
    begin_ = 0;
    buffer_.append(bytes, static_cast<size_t>(count));
    if (buffer_.size() > kLongestLine && buffer_.find('\n') == std::string::npos)
      throw Error(fmt::format("{}: expected lines of at most {} bytes; found a longer one", name_, kLongestLine));
    return true;
  }
}

std::optional<std::string> InputLines::take_line() {
  const size_t end = buffer_.find('\n', begin_);
  if (end == std::string::npos && (!ended_ || begin_ == buffer_.size())) return std::nullopt;
  const size_t stop = end == std::string::npos ? buffer_.size() : end;
  std::string line = buffer_.substr(begin_, stop - begin_);
  begin_ = end == std::string::npos ? buffer_.size() : end + 1;
  if (!line.empty() && line.back() == '\r') line.pop_back();
  if (first_ && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
  first_ = false;
  return line;
}

std::vector<std::string> InputLines::next(size_t most, bool wait) {
  std::vector<std::string> lines;
  while (lines.size() < most && !stop_requested().load()) {
    if (auto line = take_line()) {
      lines.push_back(std::move(*line));
    } else if (!fill(wait && lines.empty())) {
      if (!lines.empty() || ended_ || !wait) {
        if (auto last = take_line()) {
          lines.push_back(std::move(*last));
          continue;
        }
        break;
      }
    }
  }
  return lines;
}

}  // namespace heed::cli
