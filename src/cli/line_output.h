// Where results go, a line for each: standard output, or a file that an earlier run has begun (--resume-output).
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace heed::cli {

class LineOutput {
 public:
  // An empty name is standard output. A file is opened, locked and read; it is made where there is none. Throws Error
  // where that cannot be done or where another process writes it, and UsageError where a file is not empty and has no
  // whole line.
  explicit LineOutput(const std::string& file);
  ~LineOutput();
  LineOutput(const LineOutput&) = delete;
  LineOutput& operator=(const LineOutput&) = delete;

  [[nodiscard]] bool is_file() const { return descriptor_ >= 0; }
  [[nodiscard]] const std::string& name() const { return file_; }
  // The lines that the file had, and the last of them.
  [[nodiscard]] int64_t lines_before() const { return lines_; }
  [[nodiscard]] const std::deque<std::string>& last_lines() const { return last_; }

  // Cuts off the half of a line that a file may end with. write() does so too. Until then the file stays as it was: it
  // may be another than was meant.
  void accept();
  // Lines, with their ends. They are with the system when this returns: they stay if the process dies.
  void write(std::string_view lines);

 private:
  void read_lines();

  std::string file_;
  int descriptor_ = -1;
  bool accepted_ = false;
  int64_t lines_ = 0, whole_bytes_ = 0;  // of the file as it was
  std::deque<std::string> last_;
};

}  // namespace heed::cli
