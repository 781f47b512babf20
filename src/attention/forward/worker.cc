#include "attention/forward/worker.h"

namespace heed {

kernels::AttentionForward outputs_of(const ForwardCall& call, int64_t b, int64_t h) {
  const AttentionResult& result = call.result;
  kernels::AttentionForward out;
  if (result.output.dtype() == DType::f32) out.output = strided<float>(result.output, b, h);
  if (result.logsumexp.defined()) out.logsumexp = strided<float>(result.logsumexp, b, h);
  if (result.weights.defined()) out.weights = strided<float>(result.weights, b, h);
  out.all_keys = call.problem.keys;
  return out;
}

// The operands of the group after `task`, for its tiles to ask for. f32 in one piece, and bf16 that is multiplied as
// such: what is stored otherwise is unpacked group by group.
void ForwardWorker::look_ahead(GroupTask task) {
  const AttentionProblem& p = call_->problem;
  const KeyValues& memory = call_->memory;
  const Tensor& query = call_->query;
  const int64_t tiles = tasks_->per_group;
  const int64_t blocks = (p.keys + kernels::kBlockKeys - 1) / kernels::kBlockKeys;
  const int64_t a_word = query.dtype() == DType::f32 ? 1 : 2, size = p.size / a_word;
  const int64_t value_size = p.value_size / a_word;
  ahead_.enter(p, size + value_size, tiles, p.keys / 8 + blocks * p.value_size / 8);
  ahead_.read(words_of(query, task.b, task.kv_head * p.group()), size);
  if (!ahead_.short_group()) return;
  task.tile = tiles - 1;
  task.step(p.kv_heads, tiles);
  if (task.b == p.batch || memory.pages.defined() || memory.key.dtype() != query.dtype()) return;
  ahead_.after(words_of(memory.key, task.b, task.kv_head), p.keys, size);
  ahead_.after(words_of(memory.value, task.b, task.kv_head), p.keys, value_size);
  ahead_.after(words_of(query, task.b, task.kv_head * p.group()), p.queries, size);
}

void ForwardWorker::enter(const ForwardCall& call, const ForwardTasks& tasks, const GroupTask& task, bool another) {
  call_ = &call, tasks_ = &tasks;
  b_ = task.b, h_ = task.kv_head * tasks.heads;
  group = make_group(call.problem, call.query, call.memory, b_, h_, tasks.heads);
  query_rows_.enter(call.query, b_, h_);
  output_rows_.enter(call.result.output, b_, h_);
  if (tasks.pairs != nullptr) {
    paired_.load(*tasks.pairs, group, false);
    group.narrow_query = pairs_of_columns(call.query, b_, h_);
  } else if (!tasks.few) {
    dense_.load(group);
  }
  if (!tasks.few) look_ahead(task);
  if (tasks.few && another) {
    GroupTask next = task;
    next.step(tasks.kv_heads, tasks.per_group);
    expect_next(group, call.memory, next.b, next.kv_head);
  }
  out = outputs_of(call, b_, h_);
  if (tasks.pairs != nullptr) out.narrow_output = pairs_of_columns(call.result.output, b_, h_);
  if (out.weights.data != nullptr && call.problem.keys <= kMostKept) (void)keep_scores();
  const int64_t needed = tasks.few                ? kernels::attention_few_scratch(group)
                         : tasks.pairs != nullptr ? kernels::attention_pairs_forward_scratch(group)
                                                  : kernels::attention_forward_scratch(group);
  if (scratch_.size() < needed) scratch_ = Buffer<float>(needed);
}

float* ForwardWorker::keep_scores() {
  const int64_t needed = kernels::attention_kept_scores(call_->problem.keys);
  if (kept_.size() < needed) kept_ = Buffer<float>(needed);
  return out.kept = kept_.data();
}

void ForwardWorker::run(int64_t n, int64_t tile, int64_t next) {
  const RowTiles::Rows rows = tasks_->few ? RowTiles::Rows{0, group.heads * group.queries} : tasks_->tiles[tile];
  const bool narrow_output = output_rows_.narrow() && out.narrow_output.data == nullptr;
  if (query_rows_.narrow() && group.narrow_query.data == nullptr) group.query = query_rows_.widened(rows);
  if (narrow_output) out.output = output_rows_.room(rows);
  if (tasks_->few) {
    kernels::attention_forward_few(group, out, scratch_.data());
  } else {
    out.ahead = nullptr;
    if (!narrow_output) {  // else the tile writes memory of its own, in the cache
      const kernels::Strided<float> output = words_of(call_->result.output, b_, h_);
      const int64_t columns = output_rows_.narrow() ? group.value_size / 2 : group.value_size;
      const RowTiles::Rows after = next >= 0 ? tasks_->tiles[next] : RowTiles::Rows{0, 0};
      out.ahead = ahead_.tile(n, output, columns, group.queries, rows, after);
    }
    if (tasks_->pairs != nullptr) {
      tasks_->pairs->forward_tile(group, paired_.packed(), out, rows.first, rows.count, scratch_.data());
    } else {
      kernels::attention_forward_tile(group, out, rows.first, rows.count, scratch_.data());
    }
  }
  if (narrow_output) output_rows_.write(rows);
}

}  // namespace heed
