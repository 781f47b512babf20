// What one thread needs for the forward pass.
#pragma once

#include "attention/schedule/half_rows.h"
#include "attention/schedule/tile_prefetch.h"

namespace heed {

// The most keys of which a tile keeps all scores: 12 MB a thread. (A map of 4,096 queries by 65,536 keys takes 1.31
// times the forward pass alone, on Zen 4; with the scores computed again it takes 1.63 times.)
inline constexpr int64_t kMostKept = 65536;

// Where the results of sequence b from head h on go; the output only where it is f32.
[[nodiscard]] kernels::TileOutputs outputs_of(const AttentionCall& call, int64_t b, int64_t h);

class ForwardWorker {
 public:
  // Moves to the group of a task. `another`: one more group of the call follows.
  void enter(const AttentionCall& call, const Tiling& tiling, const Task& task, bool another);
  // Makes the tiles of the group leave their scores here, for taps.
  float* keep_scores();
  // The n-th tile of the group to run, tile number `tile`; `next` comes after it, or is -1.
  void run(int64_t n, int64_t tile, int64_t next);

  kernels::AttentionGroup group;
  kernels::TileOutputs outputs;

 private:
  void prefetch_next_group(Task task);

  const AttentionCall* call_ = nullptr;
  const Tiling* tiling_ = nullptr;
  int64_t b_ = 0, h_ = 0;
  kernels::Operands operands_;
  HalfRows query_rows_, output_rows_;
  TilePrefetch prefetch_;
  Buffer<float> kept_, scratch_;
};

}  // namespace heed
