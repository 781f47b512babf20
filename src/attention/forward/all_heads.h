// Decoding against a few keys that a cache keeps with the heads side by side: all heads of a sequence at once.
#pragma once

#include "attention/call/call.h"

namespace heed {

// Whether the call is plain softmax(scale Q K^T) V of few rows to few keys, all of them attended, and its memory lies
// as KeyValueCache::Options::heads_together asks for.
[[nodiscard]] bool takes_all_heads(const AttentionCall& call);
void run_all_heads(const AttentionCall& call);

}  // namespace heed
