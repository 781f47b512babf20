// What decoding needs of rows of logits: their log-sum-exp and their best entries.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heed/tensor.h"

namespace heed::generate {

// log sum_v exp(logits[r, v]) of each row r. logits (N, V), contiguous. Throws Error, naming `function`, unless all are
// finite.
[[nodiscard]] std::vector<float> finite_logsumexp(const Tensor& logits, const char* function);

// The Error of that, unless `finite`.
void require_finite(bool finite, const char* function);

struct Entry {
  float logit = 0;
  int32_t id = -1;
};
// The `count` greatest logits (fewer where fewer are allowed), greatest first, equal ones by id. -inf is never chosen.
// blocked[id] != 0 excludes an id; an empty span excludes none. Returns how many were written.
int64_t top_entries(std::span<const float> logits, std::span<const uint8_t> blocked, int64_t count, Entry* out);

}  // namespace heed::generate
