// What the commands share that run encoder-only models on lines: embed, classify, fill and answer.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/line_job.h"
#include "heed/pipelines.h"

namespace heed::cli {

// The texts of a command: TEXT, or the lines of an input.
struct TextSource {
  std::string input = {};
  std::optional<std::string> text = {};
  TooLong too_long = TooLong::refuse;
  std::string name = "TEXT";  // of the argument with the text
};
// Declares TEXT and --input. `purpose` ends "The text to ".
void add_text_source(Options& options, TextSource& source, const std::string& purpose);
void add_too_long(Options& options, TextSource& source);
// Throws UsageError for both, and for a TEXT that is the name of a file.
void check_text_source(const TextSource& source);

inline constexpr const char* kParseSpecialHelp = "Read special tokens in the text as special tokens, not as plain text";

// A line of white space at most: classify, fill and answer write an empty line for it.
[[nodiscard]] bool is_blank(std::string_view line);

// What is written of each of these lines, with line ends; of fewer lines once Ctrl-C was pressed.
using MakeLines =
    std::function<std::vector<std::string>(std::span<const std::string> lines, const TextOptions& options)>;

// Many lines share the model's batches. If one is refused, what is made of the lines before it is written first.
[[nodiscard]] LineJob encoder_job(const TextSource& source, MakeLines make);

}  // namespace heed::cli
