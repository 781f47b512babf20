// Commands that make something of each line of their input, in one process or several (translate, generate, evaluate).
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "heed/models.h"
#include "heed/text.h"
#include "pipelines/shared_lines.h"

namespace heed::cli {

struct LineOptions {
  std::string resume_output;
  double peer_timeout = 300;
};
void add_peer_timeout(Options& options, LineOptions& o);
void add_line_options(Options& options, LineOptions& o);  // that one, and --resume-output

// Throws Error on all ranks unless all have the same model, tokenizers and options (--threads and --quiet may differ).
// Sets how long ranks wait for each other. One process has nothing to compare.
void require_same_work(const models::Model& model, std::initializer_list<const text::Tokenizer*> tokenizers,
                       const LineOptions& o, const Context& context);

struct LineJob {
  std::string input = {};                // a file; empty or "-" is standard input
  std::optional<std::string> text = {};  // instead of an input: its only line
  std::string text_name = "TEXT";        // what the help calls that text
  std::string unit = {};                 // what a line is: "sentences"
  std::string tells = {};                // what a terminal is told, where somebody types the lines
  TooLong too_long = TooLong::refuse;
  int64_t largest = 1;  // lines that are worked on together, at most
  // What becomes of each line of a batch, with line ends: see pipelines::SharedLines.
  std::function<void(const pipelines::LineBatch& batch, const std::function<void(std::string output)>& hand_over)>
      work = {};
};

// Reads, works and writes, with the other ranks where there are some. Returns the status to exit with.
[[nodiscard]] int run_lines(const LineJob& job, const LineOptions& o, const Context& context);

// The same for lines that every rank has: rank 0 gets what becomes of them, the others nothing.
[[nodiscard]] std::vector<std::string> run_lines(const LineJob& job, const std::vector<std::string>& lines,
                                                 const std::function<std::string(int64_t line)>& name,
                                                 const LineOptions& o, const Context& context);

}  // namespace heed::cli
