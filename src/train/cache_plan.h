// corpus.json of a token cache: what was read, what was learnt from it, and where its parts begin.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "formats/json.h"
#include "train/training_text.h"

namespace heed::train {

struct CachePlan {  // NOLINT(bugprone-exception-escape): of moving a Json, which nlohmann declares noexcept
  struct File {
    std::string path;
    int64_t modified = 0;  // nanoseconds, of the file system's clock
    files::Checksum checksum;
  };
  std::vector<File> texts;  // source or pairs, then target
  int64_t part_bytes = 0;
  int64_t lines = 0;
  std::vector<TrainingText::Place> parts;  // where each begins

  io::Json split;  // what decides which lines are held back
  std::optional<files::Checksum> held_back;
  io::Json vocabulary;                                // the settings that the tokenizers were trained with; or null
  std::map<std::string, files::Checksum> tokenizers;  // "source", "target"
  uint64_t fingerprint = 0;                           // of the parts
};

[[nodiscard]] std::string to_text(const CachePlan& plan);
// Throws Error, which names `name` and the reason, for what to_text() does not write.
[[nodiscard]] CachePlan plan_from_text(std::string_view text, const std::string& name);

}  // namespace heed::train
