// Lines in, lines out, in one order: rank 0 reads and writes, and all ranks do the work between.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "heed/distributed.h"
#include "heed/pipelines.h"

namespace heed::pipelines {

// Lines that one rank works on together.
struct LineBatch {
  int64_t first = 0;  // the number of the first one, from 0
  std::vector<std::string> lines;
  TextOptions text;                            // to be given to a pipeline; places are those in this batch
  std::function<bool()> stop;                  // to be asked often; once it is true, nothing that is made counts
  std::function<void(int64_t lines)> on_done;  // to be told how many lines are done, handed over or not
};

struct SharedLines {
  // On rank 0. The lines that have come, `most` at most; with `wait` it waits for one. And whether no more will come.
  std::function<std::vector<std::string>(size_t most, bool wait)> read;
  std::function<bool()> ended;
  // On rank 0: what was made of the lines from `first` on, in the order of the lines; and what was to be warned of.
  std::function<void(int64_t first, const std::vector<std::string>& outputs)> write;
  std::function<void(const TextWarning& warning)> on_warning;  // its text is the number of the line
  std::function<void(const std::string& what)> on_loss;        // see distributed::Work
  std::function<void(int64_t done, int64_t read)> progress;    // lines
  // On every rank: hands over what becomes of each line of the batch, in their order. An Error is about the first line
  // that was not handed over; it is thrown on rank 0, after what was made of the lines before it is written.
  std::function<void(const LineBatch& batch, const std::function<void(std::string output)>& hand_over)> work;
  std::function<bool()> stop;
  TooLong too_long = TooLong::refuse;
  std::function<std::string(int64_t line)> name;  // of a line, in errors
  int64_t first_line = 0;                         // the number of the first line that is read
  int64_t largest = 512;                          // lines in a batch
  double patience = 0;                            // see distributed::Work
};

// False where a stop() ended the work early.
bool share_lines(distributed::Communicator& ranks, const SharedLines& shared);

}  // namespace heed::pipelines
