// The training text of a recipe, one line of each side after the other, in bounded memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "heed/train.h"
#include "text/line_reader.h"

namespace heed::train {

class TrainingText {
 public:
  explicit TrainingText(const Recipe& recipe);

  struct Place {
    int64_t line = 0;                // lines before
    int64_t source = 0, target = 0;  // bytes
  };
  // False at the end. Throws Error where the two sides have different numbers of lines.
  [[nodiscard]] bool next();
  [[nodiscard]] int64_t number() const { return reader_.lines() - 1; }  // of the line, from 0
  [[nodiscard]] std::string_view line() const { return line_; }         // as it is in the first file
  [[nodiscard]] std::string_view source() const { return source_; }
  [[nodiscard]] std::string_view target() const { return target_; }  // translation
  [[nodiscard]] Place place() const;                                 // of the next line
  void skip_to(const Place& place);

 private:
  const Recipe& recipe_;
  text::LineReader reader_;
  std::optional<text::LineReader> target_reader_;
  std::string_view line_, source_, target_;
};

// Source and target of one line of `pairs`.
[[nodiscard]] std::pair<std::string_view, std::string_view> split_pair(std::string_view line,
                                                                       const std::filesystem::path& file,
                                                                       int64_t number);

}  // namespace heed::train
