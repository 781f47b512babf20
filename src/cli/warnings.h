// Warnings about texts, as heed::TextOptions hands them over.
#pragma once

#include <functional>
#include <string>

#include "heed/pipelines.h"

namespace heed::cli {

// Writes warnings to standard error: all of those about texts that are cut, and of those about unknown characters the
// first and, at the end, how many there were.
class TextWarnings {
 public:
  // `name`: what the text at a place is called, "standard input, line 3".
  explicit TextWarnings(std::function<std::string(int64_t text)> name) : name_(std::move(name)) {}
  ~TextWarnings();
  TextWarnings(const TextWarnings&) = delete;
  TextWarnings& operator=(const TextWarnings&) = delete;

  // What a pipeline is given. It must not outlive this.
  [[nodiscard]] TextOptions options(TooLong too_long);

 private:
  std::function<std::string(int64_t)> name_;
  int64_t unknown_ = 0;
};

// One warning for a whole file of lines, where they are mostly unknown.
void warn_of_unknown(const text::Tokenizer& tokenizer, std::span<const std::string> lines, const std::string& name);

}  // namespace heed::cli
