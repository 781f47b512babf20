#include "cli/line_output.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "cli/console.h"
#include "cli/options.h"
#include "heed/error.h"

namespace heed::cli {
namespace {

constexpr size_t kLastLines = 4;

[[noreturn]] void output_file_failed(const std::string& file, const char* doing) {
  throw Error(fmt::format("{} cannot be {}: {}", in_quotes(file), doing, std::strerror(errno)));
}

}  // namespace

LineOutput::LineOutput(const std::string& file) : file_(file) {
  if (file.empty()) return;
  descriptor_ = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
  if (descriptor_ < 0) output_file_failed(file, "written");
  try {
    struct stat status = {};
    if (fstat(descriptor_, &status) != 0) output_file_failed(file, "read");
    if (!S_ISREG(status.st_mode)) throw Error(fmt::format("{}: expected a regular file", in_quotes(file)));
    if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) throw Error(fmt::format("{}: another process is writing it", in_quotes(file)));
      if (errno != ENOTSUP && errno != ENOLCK) output_file_failed(file, "locked");  // some file systems have no locks
    }
    read_lines();
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

LineOutput::~LineOutput() {
  if (descriptor_ >= 0) close(descriptor_);
}

void LineOutput::read_lines() {
  std::string line;
  int64_t bytes_before = 0;
  std::vector<char> bytes(size_t{1} << 20);
  while (true) {
    const ssize_t count = ::read(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) output_file_failed(file_, "read");
    if (count == 0) break;
    bytes_before += count;
    for (std::string_view rest(bytes.data(), static_cast<size_t>(count)); !rest.empty();) {
      const size_t end = rest.find('\n');
      line += rest.substr(0, end);
      if (end == std::string_view::npos) break;
      rest.remove_prefix(end + 1);
      whole_bytes_ += static_cast<int64_t>(line.size() + 1);
      ++lines_;
      last_.push_back(std::move(line) + "\n");
      line.clear();
      if (last_.size() > kLastLines) last_.pop_front();
    }
  }
  if (lines_ == 0 && bytes_before > 0)
    throw UsageError(fmt::format(
        "--resume-output takes a file that this command has begun; found no whole line in {} (remove it to begin anew)",
        in_quotes(file_)));
}

void LineOutput::accept() {
  if (!is_file() || std::exchange(accepted_, true)) return;
  const auto end = static_cast<off_t>(whole_bytes_);
  if (ftruncate(descriptor_, end) != 0) output_file_failed(file_, "written");
  if (lseek(descriptor_, end, SEEK_SET) != end) output_file_failed(file_, "written");
}

void LineOutput::write(std::string_view lines) {
  if (!is_file()) {
    print(lines);
    flush_output();
    return;
  }
  accept();
  while (!lines.empty()) {
    const ssize_t count = ::write(descriptor_, lines.data(), lines.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) output_file_failed(file_, "written");
    lines.remove_prefix(static_cast<size_t>(count));
  }
}

}  // namespace heed::cli
