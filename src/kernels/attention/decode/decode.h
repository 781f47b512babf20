// Decoding: the forward pass of a group of one or a few queries against a long cache, at the speed of memory.
//
// The results have the bits of forward_tile(): prefill and decoding agree. Keys and values may be stored in any form;
// they are read where they are. Weights and scores of all rows are left to the tiles.
#pragma once

#include "kernels/attention/forward/forward.h"

namespace heed::kernels {

// All rows of a group, at most kDecodeRows.
[[nodiscard]] int64_t decode_scratch(const AttentionGroup& group);
void decode_group(const AttentionGroup& group, const TileOutputs& outputs, float* scratch);

// The same in parts, so that threads can share a group: the softmax state of each chunk of kChunkKeys keys, in
// decode_state_floats() floats, and then all states merged in order.
[[nodiscard]] int64_t decode_state_floats(const AttentionGroup& group);
void decode_chunk(const AttentionGroup& group, int64_t chunk, float* state, float* scratch);
void decode_merge(const AttentionGroup& group, const TileOutputs& outputs, float* states, int64_t chunks,
                  float* scratch);

}  // namespace heed::kernels
