// attention(): checks, then row tiles shared among the threads.
#include <algorithm>
#include <vector>

#include "attention/forward/worker.h"
#include "attention/call/explain.h"
#include "attention/observe/taps.h"
#include "base/threads.h"

namespace heed {

bool few_rows(const ForwardCall& call) {
  return call.problem.group() * call.problem.queries <= kernels::kFewRows && !call.result.weights.defined() &&
         !call.problem.additive.defined();
}

bool shares_keys(std::span<const ForwardCall> calls) {
  if (calls.size() != 1 || !few_rows(calls[0]) || calls[0].problem.keys <= kernels::kChunkKeys) return false;
  const int64_t groups = calls[0].problem.batch * calls[0].problem.kv_heads, threads = num_threads();
  return groups > 0 && calls[0].problem.queries > 0 && groups < 4 * threads && groups % threads != 0;
}

const kernels::AttentionPairs* pairs_for(const ForwardCall& call) {
  return call.bf16 && !few_rows(call) && !call.problem.additive.defined() ? kernels::attention_pairs() : nullptr;
}

namespace {

// Groups of few rows, too few of them to keep the threads busy: their chunks are shared out, and their states merged in
// order, as one thread would.
void run_chunks(const ForwardCall& call) {
  const AttentionProblem& p = call.problem;
  const int64_t groups = p.batch * p.kv_heads, chunks = (p.keys + kernels::kChunkKeys - 1) / kernels::kChunkKeys;
  const Tensor query = call.query.to(DType::f32);  // a few rows, which every chunk reads
  const auto group = [&](int64_t index) {
    return make_group(p, query, call.memory, index / p.kv_heads, index % p.kv_heads * p.group(), p.group());
  };
  const kernels::AttentionGroup any = group(0);
  const int64_t state = kernels::attention_few_state(any);
  const Buffer<float> states(groups * chunks * state);
  const int64_t flops = 2 * p.group() * p.queries * kernels::kChunkKeys * (p.size + p.value_size);
  parallel_for(groups * chunks, grain_for(8 * flops), [&](int64_t begin, int64_t end) {
    const Buffer<float> scratch(kernels::attention_few_scratch(any));
    for (int64_t task = begin; task < end; ++task) {
      kernels::attention_few_chunk(group(task / chunks), task % chunks, states.data() + task * state, scratch.data());
    }
  });
  const Buffer<float> scratch(kernels::attention_few_scratch(any));
  TileRows output_rows;
  const RowTiles::Rows rows{0, p.group() * p.queries};
  for (int64_t index = 0; index < groups; ++index) {
    const int64_t b = index / p.kv_heads, h = index % p.kv_heads * p.group();
    auto outputs = outputs_of(call, b, h);
    output_rows.enter(call.result.output, b, h);
    if (output_rows.narrow()) outputs.output = output_rows.room(rows);
    kernels::attention_few_merge(group(index), outputs, states.data() + index * chunks * state, chunks, scratch.data());
    if (output_rows.narrow()) output_rows.write(rows);
  }
}

}  // namespace

void run_forward(std::span<const ForwardCall> calls) {
  if (shares_keys(calls)) {
    run_chunks(calls[0]);
    return;
  }
  // All tasks of all calls in one row.
  std::vector<ForwardTasks> tasks;
  std::vector<int64_t> begins;  // and where those of each call begin
  int64_t count = 0, flops = 0;
  for (const ForwardCall& call : calls) {
    const AttentionProblem& p = call.problem;
    tasks.emplace_back(call);
    begins.push_back(count);
    count += p.batch * p.kv_heads * tasks.back().per_group;
    flops = std::max(flops, 2 * kernels::kTileRows * p.keys * (p.size + p.value_size));
  }
  parallel_for(count, grain_for(flops), [&](int64_t begin, int64_t end) {
    ForwardWorker thread;
    // The call of the first task: the last that begins at or before it.
    size_t at = static_cast<size_t>(std::upper_bound(begins.begin(), begins.end(), begin) - begins.begin() - 1);
    GroupTask task(begin - begins[at], tasks[at].kv_heads, tasks[at].per_group);
    bool entered = false;
    for (int64_t number = begin; number < end; ++number) {
      if (at + 1 < tasks.size() && number >= begins[at + 1]) {
        do ++at;
        while (at + 1 < tasks.size() && number >= begins[at + 1]);
        task = GroupTask(0, tasks[at].kv_heads, tasks[at].per_group);
      }
      const ForwardTasks& own = tasks[at];
      if (!entered || task.tile == 0) {
        entered = true;
        const int64_t last = at + 1 < tasks.size() ? std::min(end, begins[at + 1]) : end;
        thread.enter(calls[at], own, task, number + 1 < last);
      }
      const int64_t next = task.tile + 1 < own.per_group ? balanced(task.tile + 1, own.per_group) : -1;
      thread.run(task.tile, balanced(task.tile, own.per_group), next);
      task.step(own.kv_heads, own.per_group);
    }
  });
}

AttentionResult run_attention(const AttentionProblem& problem, const Tensor& query, const KeyValues& memory,
                              bool bf16) {
  const AttentionOptions::Want& want = problem.options.want;
  const bool tapped = want.taps.any();
  AttentionResult result;
  result.output = want.output;
  if (!result.output.defined()) {
    const Shape rows{problem.batch, problem.queries, problem.heads, problem.value_size};
    result.output = Tensor::empty(rows, query.dtype()).transpose(1, 2);
  }
  if (want.logsumexp || tapped) {
    result.logsumexp = Tensor::empty({problem.batch, problem.heads, problem.queries});
  }
  if (want.weights) {
    result.weights = Tensor::empty({problem.batch, problem.heads, problem.queries, problem.keys});
  }
  const ForwardCall call{problem, query, memory, result, bf16};
  const ExplainScope explain("attention", {&call, 1}, 1);
  if (tapped) {
    result.taps = run_tapped(call);
    if (!want.logsumexp) result.logsumexp = {};
  } else {
    run_forward({&call, 1});
  }
  return result;
}

AttentionResult attention(const Tensor& query, const Tensor& key, const Tensor& value,
                          const AttentionOptions& options) {
  const DType dtype = query.defined() && is_half(query.dtype()) ? query.dtype() : DType::f32;
  const AttentionProblem problem = check_attention("attention", query, key, value, options, dtype);
  check_taps("attention", problem);
  return run_attention(problem, query, {key, value}, dtype == DType::bf16);
}

}  // namespace heed
