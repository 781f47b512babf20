// Memory held by tensors. Freed blocks are kept and used again, so that a training asks the system for memory in its
// first few steps only. Beyond a quarter of the most that was in use beside the weights of models, free blocks go back.
// All functions are thread-safe.
#pragma once

#include <cstdint>

#include "heed/export.h"

HEED_EXPORT_BEGIN
namespace heed {

struct MemoryStats {
  int64_t system_allocations = 0;  // how often memory came from the system
  int64_t bytes_in_use = 0;
  int64_t bytes_cached = 0;  // kept for reuse
  int64_t peak_bytes = 0;    // of bytes_in_use, since the start or the last reset
};

[[nodiscard]] MemoryStats memory_stats();
void reset_peak_memory();  // peak_bytes becomes bytes_in_use
// Gives bytes_cached back to the system. What is in use then counts as weights: models call it once they are loaded.
void release_cached_memory();

}  // namespace heed
HEED_EXPORT_END
