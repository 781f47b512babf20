// What a thread needs for the forward pass.
#pragma once

#include "attention/schedule/group.h"
#include "attention/call/call.h"

namespace heed {

// Keys of which a tile can keep all scores: 12 MB a thread. (A map of 4,096 queries by 65,536 keys: 1.31 times the
// forward pass alone, on Zen 4; with the scores computed once more 1.63.)
inline constexpr int64_t kMostKept = 65536;

// How a call is cut up: into tiles, or whole groups where these are few rows, as in decoding.
struct ForwardTasks {
  bool few;
  const kernels::AttentionPairs* pairs;
  RowTiles tiles;
  int64_t heads, kv_heads, per_group;

  explicit ForwardTasks(const ForwardCall& call)
      : few(few_rows(call)),
        pairs(pairs_for(call)),
        tiles(call.problem.group(), call.problem.queries),
        heads(call.problem.group()),
        kv_heads(call.problem.kv_heads),
        per_group(tiles.count()) {}
};

// Where the results of sequence b from head h on go; the output only where it is f32.
[[nodiscard]] kernels::AttentionForward outputs_of(const ForwardCall& call, int64_t b, int64_t h);

class ForwardWorker {
 public:
  // Moves to the group of a task. `another`: of few rows, that one more group of the call follows.
  void enter(const ForwardCall& call, const ForwardTasks& tasks, const GroupTask& task, bool another);
  // Has the tiles of the group leave their scores here, for what is to be told of the weights.
  float* keep_scores();
  // The n-th tile that runs of the group, tile number `tile`; `next` comes after it, or is -1.
  void run(int64_t n, int64_t tile, int64_t next);

  kernels::AttentionGroup group;
  kernels::AttentionForward out;

 private:
  void look_ahead(GroupTask task);

  const ForwardCall* call_ = nullptr;
  const ForwardTasks* tasks_ = nullptr;
  int64_t b_ = 0, h_ = 0;
  DenseKeys dense_;
  PairedKeys paired_;
  TileRows query_rows_, output_rows_;
  TilesAhead ahead_;
  Buffer<float> kept_, scratch_;
};

}  // namespace heed
