// The attention engines: every way in which heed computes attention, in one table.
//
// choose_engine() takes the first engine of engines() that accepts a request. attention_plan() and HEED_EXPLAIN print
// its name; tests and benchmarks loop over the table. To add an engine, write one more of these and name it there.
#pragma once

#include <span>

#include "kernels/attention/backward/backward.h"
#include "kernels/attention/forward/forward.h"
#include "kernels/attention/operands.h"

namespace heed::kernels {

// What an engine must know of a call to accept or refuse it.
struct EngineRequest {
  int64_t rows = 0;          // queries times heads of a group
  bool backward = false;     // the gradient, not the output
  bool bf16 = false;         // query, key and value, and in the backward pass all else, are bf16
  bool additive = false;     // additive scores in place of dot products
  bool every_score = false;  // the weights or scores of all rows are wanted
};

// How threads share one group: the softmax state of each chunk of kChunkKeys keys, and then all states merged in order.
struct ChunkFunctions {
  int64_t (*state_floats)(const AttentionGroup& group) = nullptr;
  void (*run)(const AttentionGroup& group, int64_t chunk, float* state, float* scratch) = nullptr;
  void (*merge)(const AttentionGroup& group, const TileOutputs& outputs, float* states, int64_t chunks,
                float* scratch) = nullptr;
};

struct Engine {
  const char* name;
  bool (*accepts)(const EngineRequest& request);
  bool whole_groups;   // a task is all rows of a group; otherwise a tile of at most kTileQueries of them
  bool bf16_in_place;  // reads bf16 queries and writes bf16 outputs itself, where AttentionGroup::bf16_query allows it

  // Floats of scratch for one tile of the group, forward and backward.
  int64_t (*forward_scratch)(const AttentionGroup& group);
  int64_t (*backward_scratch)(const AttentionGroup& group);
  // Prepares keys and values for the tiles of the group; `backward`: of the backward pass.
  void (*bind)(AttentionGroup& group, Operands& operands, bool backward);
  // Rows [first, first + rows) of the group. An engine without a backward pass has null there.
  void (*forward)(const AttentionGroup& group, const Operands& operands, const TileOutputs& outputs, int64_t first,
                  int64_t rows, float* scratch);
  void (*backward)(const AttentionGroup& group, const Operands& operands, const TileGradients& gradients, int64_t first,
                   int64_t rows, float* scratch);
  // Null where the tiles of a group are what threads share.
  ChunkFunctions chunks = {};
  // Runs `rounds` of the engine's own multiply-adds on registers and returns their floating-point operations: the peak
  // that its speed is compared with. Null: unknown.
  int64_t (*run_peak)(int64_t rounds);
};

// The engines of this build, in the order in which they are asked. Some need an instruction set that this machine may
// lack: those refuse every request here.
[[nodiscard]] std::span<const Engine* const> engines();
// The last engine, f32 tiles, accepts everything.
[[nodiscard]] const Engine& choose_engine(const EngineRequest& request);
[[nodiscard]] const Engine& f32_tiles();
// The engine that multiplies bf16 on the instruction set in use, or null: bf16 is then computed in f32.
[[nodiscard]] const Engine* bf16_engine();

// For tests: this engine is asked before all others from now on; null: none is.
void ask_first(const Engine* engine);

// The bf16 engines; null where the build has none for this kind of processor.
[[nodiscard]] const Engine* avx512bf16_engine();
[[nodiscard]] const Engine* amx_engine();

}  // namespace heed::kernels
