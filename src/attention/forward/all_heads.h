// Decoding against a few keys that a cache keeps with the heads side by side: all heads of a sequence at once.
#pragma once

#include "attention/call/call.h"

namespace heed {

// Whether run_all_heads() computes the call. It takes plain attention, softmax(scale Q K^T) V: without masks, biases or
// dropout, with few queries and few keys, and with the keys in the order of KeyValueCache::Options::heads_together.
[[nodiscard]] bool takes_all_heads(const AttentionCall& call);
void run_all_heads(const AttentionCall& call);

}  // namespace heed
