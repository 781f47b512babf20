#include "attention/forward/all_heads.h"

#include "attention/call/group.h"
#include "attention/schedule/tiling.h"
#include "base/threads.h"
#include "kernels/attention/decode/heads.h"

namespace heed {
namespace {

bool is_plain(const AttentionProblem& p) {
  const AttentionOptions& o = p.options;
  const bool masked = p.mask.defined() || p.bias.defined() || o.sinks.defined() || o.query_documents.defined();
  const bool watched = o.want.logsumexp || o.want.weights || o.want.scores || o.want.taps.any();
  return !masked && !watched && p.compiled.empty() && !p.additive.defined() && !p.part && o.dropout.rate == 0;
}

bool attends_to_all(const AttentionProblem& p) {
  for (int64_t b = 0; b < p.batch; ++b) {
    const KeyRange range = p.unclamped_range(b);
    const int64_t keys = p.key_length(b);
    if (keys == 0 || p.queries - 1 + range.begin > 0 || range.end < keys) return false;
  }
  return true;
}

bool lies_together(const AttentionProblem& p, const KeyValues& memory) {
  const Tensor &key = memory.key, &value = memory.value;
  if (key.dtype() != DType::f32 || memory.pages.defined()) return false;
  const int64_t heads = p.kv_heads;
  return key.stride(1) == 1 && key.stride(3) == heads && key.stride(2) == heads * p.size && value.stride(3) == 1 &&
         value.stride(1) == p.value_size && value.stride(2) == heads * p.value_size;
}

}  // namespace

bool takes_all_heads(const AttentionCall& call) {
  const AttentionProblem& p = call.problem;
  return p.queries > 0 && p.group() * p.queries <= kernels::kMostHeadsRows && p.keys <= kernels::kMostHeadsKeys &&
         lies_together(p, call.memory) && kernels::fits_heads_decode(p.kv_heads, p.size, p.value_size) &&
         call.query.dtype() == DType::f32 && call.query.stride(3) == 1 && call.result.output.dtype() == DType::f32 &&
         call.result.output.stride(3) == 1 && is_plain(p) && attends_to_all(p);
}

void run_all_heads(const AttentionCall& call) {
  const AttentionProblem& p = call.problem;
  const Tensor &query = call.query, &output = call.result.output;
  const Tensor &key = call.memory.key, &value = call.memory.value;
  const auto sequence = [&](int64_t b) {
    kernels::HeadsDecode one;
    one.heads = p.kv_heads, one.group = p.group();
    one.queries = p.queries, one.keys = p.key_length(b);
    one.size = p.size, one.value_size = p.value_size;
    one.scale = static_cast<float>(p.scale);
    one.query = query.data<float>() + b * query.stride(0);
    one.query_head = query.stride(1), one.query_row = query.stride(2);
    const int64_t piece = piece_of(call.memory, b);
    one.key = key.data<float>() + piece * key.stride(0);
    one.value = value.data<float>() + piece * value.stride(0);
    one.output = output.data<float>() + b * output.stride(0);
    one.output_head = output.stride(1), one.output_row = output.stride(2);
    return one;
  };
  const int64_t flops = 2 * p.heads * p.queries * p.keys * (p.size + p.value_size);
  parallel_for(p.batch, grain_for(flops), [&](int64_t begin, int64_t end) {
    kernels::HeadsDecode longest = sequence(begin);
    longest.keys = p.keys;
    const Buffer<float> scratch(kernels::heads_decode_scratch(longest));
    for (int64_t b = begin; b < end; ++b) {
      kernels::HeadsDecode one = sequence(b);
      if (b + 1 < end) {
        const int64_t next = piece_of(call.memory, b + 1);
        one.next_key = key.data<float>() + next * key.stride(0);
        one.next_value = value.data<float>() + next * value.stride(0);
      }
      kernels::decode_all_heads(one, scratch.data());
    }
  });
}

}  // namespace heed
