// log.jsonl: one JSON object a line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace heed::train {

class Log {
 public:
  // A new file; or, with `continue_from` 0 or more, what is there up to that update: later lines, of updates that were
  // lost with an interrupted run and will be done again, and half a line at the end, are taken out.
  Log(std::filesystem::path file, int64_t continue_from);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void write(const nlohmann::ordered_json& line);  // throws Error where it cannot be written

 private:
  std::filesystem::path file_;
  int descriptor_ = -1;
};

}  // namespace heed::train
