// What an engine makes of a group's keys and values before the group's tiles run.
#pragma once

#include <vector>

#include "base/memory.h"
#include "kernels/attention/bf16/bf16.h"
#include "kernels/attention/group.h"

namespace heed::kernels {

// A thread keeps one and binds it to each group that it comes to; the memory is reused.
struct Operands {
  Buffer<float> dense;  // keys and values as dense rows of f32
  Bf16Memory bf16;      // keys and values as bf16 panels
};

// Makes the group's keys and values dense rows of f32. Heads are often strided views with thousands of floats from row
// to row; in every tile they would fight for a few sets of the cache. Rows that are dense already stay where they are.
void bind_f32(AttentionGroup& group, Operands& operands);

}  // namespace heed::kernels
