// log.jsonl: one JSON object a line.
#pragma once

#include <cstdint>
#include <filesystem>

#include "formats/json.h"

namespace heed::train {

class Log {
 public:
  // With `continue_from` below 0, begins a new file. Otherwise keeps the lines up to that update. Later lines belong to
  // updates that were lost when a run was interrupted and will be done again, so they are removed, and so is half a
  // line at the end.
  Log(std::filesystem::path file, int64_t continue_from);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void write(const io::Json& line);  // throws Error where it cannot be written

 private:
  std::filesystem::path file_;
  int descriptor_ = -1;
};

}  // namespace heed::train
