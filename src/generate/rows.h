// What decoding needs of one row of logits: its log-sum-exp and its best entries.
//
// Plain loops over eight lanes, no instruction set of their own: the same bits everywhere, in one fixed order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace heed::generate {

// log sum_i exp(logits[i]). Throws Error, naming `function`, when an entry is NaN or +inf, or all are -inf.
[[nodiscard]] double log_sum_exp(std::span<const float> logits, const char* function);

struct Entry {
  float logit = 0;
  int32_t id = -1;
};
// The `count` greatest logits (fewer where fewer are allowed), greatest first, equal ones by id. -inf is never chosen.
// blocked[id] != 0 excludes an id; an empty span excludes none. Returns how many were written.
int64_t top_entries(std::span<const float> logits, std::span<const uint8_t> blocked, int64_t count, Entry* out);

}  // namespace heed::generate
