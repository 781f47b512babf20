#include "attention/schedule/forward_worker.h"

#include "attention/call/group.h"

namespace heed {

kernels::TileOutputs outputs_of(const AttentionCall& call, int64_t b, int64_t h) {
  const AttentionResult& result = call.result;
  kernels::TileOutputs outputs;
  if (result.output.dtype() == DType::f32) outputs.output = strided<float>(result.output, b, h);
  if (result.logsumexp.defined()) outputs.logsumexp = strided<float>(result.logsumexp, b, h);
  if (result.weights.defined()) outputs.weights = strided<float>(result.weights, b, h);
  if (result.scores.defined()) outputs.scores = strided<float>(result.scores, b, h);
  outputs.all_keys = call.problem.keys;
  return outputs;
}

// The operands of the group after `task`, prefetched by its tiles: contiguous f32, and bf16 that is multiplied as such.
// All other forms are converted group by group.
void ForwardWorker::prefetch_next_group(Task task) {
  const AttentionProblem& p = call_->problem;
  const KeyValues& memory = call_->memory;
  const Tensor& query = call_->query;
  const int64_t tiles = tiling_->count();
  const int64_t blocks = (p.keys + kernels::kBlockKeys - 1) / kernels::kBlockKeys;
  const int64_t per_word = query.dtype() == DType::f32 ? 1 : 2, size = p.size / per_word;
  const int64_t value_size = p.value_size / per_word;
  prefetch_.enter(p, size + value_size, tiles, p.keys / 8 + blocks * p.value_size / 8);
  prefetch_.read(words_of(query, task.b, task.kv_head * p.group()), size);
  if (!prefetch_.short_group()) return;
  task.tile = tiles - 1;
  task.next(p.kv_heads, tiles);
  if (task.b == p.batch || memory.pages.defined() || memory.key.dtype() != query.dtype()) return;
  const int64_t piece = piece_of(memory, task.b);
  prefetch_.after(words_of(memory.key, piece, task.kv_head), p.keys, size);
  prefetch_.after(words_of(memory.value, piece, task.kv_head), p.keys, value_size);
  prefetch_.after(words_of(query, task.b, task.kv_head * p.group()), p.queries, size);
}

void ForwardWorker::enter(const AttentionCall& call, const Tiling& tiling, const Task& task, bool another) {
  const kernels::Engine& engine = *call.engine;
  const int64_t heads = call.problem.group();
  call_ = &call, tiling_ = &tiling;
  b_ = task.b, h_ = task.kv_head * heads;
  group = make_group(call.problem, call.query, call.memory, b_, h_, heads);
  query_rows_.enter(call.query, b_, h_);
  output_rows_.enter(call.result.output, b_, h_);
  engine.bind(group, operands_, false);
  outputs = outputs_of(call, b_, h_);
  if (engine.bf16_in_place) {
    group.bf16_query = bf16_pairs_of(call.query, b_, h_);
    outputs.bf16_output = bf16_pairs_of(call.result.output, b_, h_);
  }
  if (!engine.whole_groups) {
    prefetch_next_group(task);
  } else if (another) {
    Task next = task;
    next.next(call.problem.kv_heads, tiling.count());
    set_next(group, call.memory, next.b, next.kv_head);
  }
  const bool second_pass = outputs.weights.data != nullptr || outputs.scores.data != nullptr;
  if (second_pass && call.problem.keys <= kMostKept) (void)keep_scores();
  const int64_t needed = engine.forward_scratch(group);
  if (scratch_.size() < needed) scratch_ = Buffer<float>(needed);
}

float* ForwardWorker::keep_scores() {
  const int64_t needed = kernels::kept_scores_floats(call_->problem.keys);
  if (kept_.size() < needed) kept_ = Buffer<float>(needed);
  return outputs.kept = kept_.data();
}

void ForwardWorker::run(int64_t n, int64_t tile, int64_t next) {
  const kernels::Engine& engine = *call_->engine;
  const RowRange rows = (*tiling_)[tile];
  const bool convert_output = output_rows_.convert() && outputs.bf16_output.data == nullptr;
  if (query_rows_.convert() && group.bf16_query.data == nullptr) group.query = query_rows_.as_f32(rows);
  if (convert_output) outputs.output = output_rows_.buffer(rows);
  outputs.prefetch = nullptr;
  if (!engine.whole_groups && !convert_output) {  // otherwise the tile writes a buffer in the cache
    const kernels::StridedRows<float> output = words_of(call_->result.output, b_, h_);
    const int64_t columns = output_rows_.convert() ? group.value_size / 2 : group.value_size;
    const RowRange after = next >= 0 ? (*tiling_)[next] : RowRange{};
    outputs.prefetch = prefetch_.tile(n, output, columns, group.queries, rows, after);
  }
  engine.forward(group, operands_, outputs, rows.first, rows.count, scratch_.data());
  if (convert_output && outputs.parts.last) output_rows_.write(rows);
}

}  // namespace heed
