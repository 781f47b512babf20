// The forward pass of checked calls.
#pragma once

#include <span>
#include <string_view>

#include "attention/call/call.h"

namespace heed {

// Runs calls whose results have memory for what is wanted. Taps are left to run_tapped().
void run_forward(std::span<const AttentionCall> calls);

// Whether threads share the keys of the call's groups, because there are too few groups for the threads. Only with an
// engine that has ChunkFunctions.
[[nodiscard]] bool shares_keys(const AttentionCall& call);

// Makes memory for what is wanted, runs the call and its taps, and explains it where HEED_EXPLAIN asks for that.
// `bf16`: query and memory are bf16.
[[nodiscard]] AttentionResult run_attention(std::string_view function, const AttentionProblem& problem,
                                            const Tensor& query, const KeyValues& memory, bool bf16 = false);

// attention() of the rows [begin, end) of one head: what they are in the call of all rows and heads, whose query, key,
// value and options are given. The results have one head and end - begin rows; taps count rows from begin on, and
// want.output is not taken.
[[nodiscard]] AttentionResult attention_of_rows(const Tensor& query, const Tensor& key, const Tensor& value,
                                                const AttentionOptions& options, int64_t head, int64_t begin,
                                                int64_t end);

}  // namespace heed
