// Decoding against a few keys that a cache keeps with the heads side by side: all heads of a sequence at once.
#pragma once

#include "attention/call/call.h"

namespace heed {

// Whether the call is softmax(scale Q K^T) V and nothing else, has few rows, attends to all of its few keys, and reads
// them in the order of KeyValueCache::Options::heads_together.
[[nodiscard]] bool takes_all_heads(const AttentionCall& call);
void run_all_heads(const AttentionCall& call);

}  // namespace heed
