// What a compiled score function works on.
#pragma once

#include <cstdint>

#include "heed/export.h"

HEED_EXPORT_BEGIN
namespace heed::score {

// Scores in memory: `lines` of `width` (a multiple of 16). Lane n of line m is the pair (head[n], query[n],
// key[n] + m * key_step).
struct Block {
  float* scores = nullptr;
  int64_t lines = 0, width = 0;
  const int32_t *head = nullptr, *query = nullptr, *key = nullptr;
  int32_t key_step = 0;
  int64_t sequence = 0, offset = 0;
  const float* table = nullptr;  // dense, `entries` numbers
  int32_t entries = 0;
  // Where wanted, of the same size: d result / d score, d result / d entry, and which entry.
  float *by_score = nullptr, *by_entry = nullptr;
  int32_t* entry = nullptr;
};

}  // namespace heed::score
HEED_EXPORT_END
