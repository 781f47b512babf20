// Warnings about texts, on standard error.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>

#include "heed/pipelines.h"

namespace heed::cli {

// Writes what the pipelines warn of: the first texts that are too long, the first one that is mostly unknown, and at the
// end how many there were in all.
class TextWarnings {
 public:
  // `name`: what the text at a place is called, "standard input, line 3".
  explicit TextWarnings(std::function<std::string(int64_t text)> name) : name_(std::move(name)) {}
  ~TextWarnings();
  TextWarnings(const TextWarnings&) = delete;
  TextWarnings& operator=(const TextWarnings&) = delete;

  // For a pipeline. This object must outlive it.
  [[nodiscard]] TextOptions options(TooLong too_long);

 private:
  std::function<std::string(int64_t)> name_;
  std::map<TextWarning::Kind, int64_t> count_;
};

// Warns once where half or more of the characters of all lines are unknown to the tokenizer.
void warn_of_unknown(const text::Tokenizer& tokenizer, std::span<const std::string> lines, const std::string& name);

}  // namespace heed::cli
