// How a call is cut up: groups (one sequence, one key/value head), and the rows of each group in tiles.
#pragma once

#include "attention/call/call.h"

namespace heed {

// Rows [first, first + count) of a group.
struct RowRange {
  int64_t first = 0, count = 0;
};

// The tiles of a group. A tile spans several heads only where one head does not fill it. (A group that is decoded has
// at most kDecodeRows rows, which are one tile.)
class Tiling {
 public:
  Tiling(int64_t heads, int64_t queries);

  [[nodiscard]] int64_t count() const { return segments_ * per_segment_; }
  [[nodiscard]] RowRange operator[](int64_t tile) const;
  // The n-th tile to add to the gradients of keys and values: the first of every head, then the second of every head,
  // and so on. So the next group, which may add to the same bias, need not wait for all tiles of this one.
  [[nodiscard]] int64_t nth(int64_t n) const { return n % segments_ * per_segment_ + n / segments_; }
  // Whether every tile lies in one head.
  [[nodiscard]] static bool in_one_head(const AttentionProblem& problem) {
    return problem.group() == 1 || problem.queries >= kernels::kTileQueries;
  }

 private:
  int64_t segments_, segment_rows_, per_segment_;
};

// Tile `tile` of key/value head `kv_head` of sequence `b`. Tasks are numbered with the tile running fastest. next()
// avoids the divisions of the constructor, which matter where a task takes a microsecond.
struct Task {
  int64_t b = 0, kv_head = 0, tile = 0;
  Task(int64_t number, int64_t kv_heads, int64_t tiles)
      : b(number / tiles / kv_heads), kv_head(number / tiles % kv_heads), tile(number % tiles) {}
  void next(int64_t kv_heads, int64_t tiles) {
    if (++tile < tiles) return;
    tile = 0;
    if (++kv_head < kv_heads) return;
    kv_head = 0;
    ++b;
  }
};

// First, last, second, last but one, ...: with causal masks the cost grows along the rows, and contiguous parts of this
// order cost about the same.
[[nodiscard]] inline int64_t balanced(int64_t index, int64_t count) {
  return index % 2 == 0 ? index / 2 : count - 1 - index / 2;
}

// The fewest tasks of `flops` each for which starting a thread pays.
[[nodiscard]] inline int64_t grain_for(int64_t flops) { return 1 + 500'000 / (flops + 1); }

}  // namespace heed
