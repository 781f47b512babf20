// Lines of standard input or a file, taken as they come: translation can answer before the input ends.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace heed::cli {

class InputLines {
 public:
  // An empty path or "-": standard input.
  explicit InputLines(const std::filesystem::path& file);
  ~InputLines();
  InputLines(const InputLines&) = delete;
  InputLines& operator=(const InputLines&) = delete;

  // Waits for one line, unless `wait` is false, then takes the lines that have come already, `most` at most. Empty at
  // the end of the input and when a signal has come. Without their ends ("\n", "\r\n"); a byte order mark at the very
  // beginning is dropped.
  [[nodiscard]] std::vector<std::string> next(size_t most, bool wait = true);
  // All lines have been taken.
  [[nodiscard]] bool ended() const { return ended_ && begin_ == buffer_.size(); }
  // Somebody types the lines.
  [[nodiscard]] bool is_terminal() const;
  // "standard input" or the file's name.
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::optional<std::string> take_line();
  bool fill(bool wait);  // false: nothing has come, or the input has ended

  int descriptor_ = 0;
  bool ended_ = false;
  bool first_ = true;
  std::string name_;
  std::string buffer_;
  size_t begin_ = 0;  // of the part of buffer_ that has not been taken
};

}  // namespace heed::cli
