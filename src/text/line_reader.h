// The lines of a text of any size, one after the other, in bounded memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/files.h"

namespace heed::text {

// Lines as read_lines() gives them: without "\n" or "\r\n", without a byte order mark at the beginning; plain or gzip.
class LineReader {
 public:
  // Throws Error for a missing, unreadable or empty file. A line of more than `longest` bytes is an Error.
  explicit LineReader(const std::filesystem::path& file, int64_t longest = INT64_MAX,
                      std::string_view function = "read_lines");

  // False at the end. `line` is valid until the next call. Throws Error for invalid UTF-8, with the line's number.
  [[nodiscard]] bool next(std::string_view& line);
  [[nodiscard]] int64_t lines() const { return lines_; }  // that were read
  // The byte of the text (after decompression) at which the next line begins.
  [[nodiscard]] int64_t position() const { return stream_.position() - static_cast<int64_t>(buffer_.size() - at_); }
  // Goes on at a position and a number of lines that were noted before. Not backwards.
  void skip_to(int64_t position, int64_t lines);

 private:
  [[nodiscard]] bool fill();

  files::ByteStream stream_;
  std::string name_, function_;
  int64_t longest_;
  std::string buffer_;
  size_t at_ = 0;
  size_t block_ = 4096;  // to read next; twice as much each time, so that a short file takes little memory
  int64_t lines_ = 0;
};

}  // namespace heed::text
