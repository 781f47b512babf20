// attention(): checks, then row tiles shared among the threads.
#include <algorithm>
#include <vector>

#include "attention/group.h"
#include "attention/passes.h"
#include "attention/plan.h"
#include "attention/taps.h"
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

// Where the results of sequence b from head h on go; the output only where it is f32.
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
void look_ahead(const ForwardCall& call, GroupTask task, TilesAhead& ahead) {
  const AttentionProblem& p = call.problem;
  const int64_t tiles = RowTiles(p.group(), p.queries).count();
  const int64_t blocks = (p.keys + kernels::kBlockKeys - 1) / kernels::kBlockKeys;
  const int64_t a_word = call.query.dtype() == DType::f32 ? 1 : 2, size = p.size / a_word;
  const int64_t value_size = p.value_size / a_word;
  ahead.enter(p, size + value_size, tiles, p.keys / 8 + blocks * p.value_size / 8);
  ahead.read(words_of(call.query, task.b, task.kv_head * p.group()), size);
  if (!ahead.short_group()) return;
  task.tile = tiles - 1;
  task.step(p.kv_heads, tiles);
  if (task.b == p.batch || call.memory.pages.defined() || call.memory.key.dtype() != call.query.dtype()) return;
  ahead.after(words_of(call.memory.key, task.b, task.kv_head), p.keys, size);
  ahead.after(words_of(call.memory.value, task.b, task.kv_head), p.keys, value_size);
  ahead.after(words_of(call.query, task.b, task.kv_head * p.group()), p.queries, size);
}

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
  // All tasks of all calls in one row: tiles, or whole groups where these are few rows, as in decoding.
  struct Tasks {
    bool few;
    const kernels::AttentionPairs* pairs;
    RowTiles tiles;
    int64_t heads, kv_heads, per_group, begin;
  };
  std::vector<Tasks> tasks;
  int64_t count = 0, flops = 0;
  for (const ForwardCall& call : calls) {
    const AttentionProblem& p = call.problem;
    const RowTiles tiles(p.group(), p.queries);
    tasks.push_back({few_rows(call), pairs_for(call), tiles, p.group(), p.kv_heads, tiles.count(), count});
    count += p.batch * p.kv_heads * tiles.count();
    flops = std::max(flops, 2 * kernels::kTileRows * p.keys * (p.size + p.value_size));
  }
  parallel_for(count, grain_for(flops), [&](int64_t begin, int64_t end) {
    kernels::AttentionGroup group;
    kernels::AttentionForward out;
    DenseKeys dense;
    PairedKeys paired;
    TileRows query_rows, output_rows;
    TilesAhead ahead;
    Buffer<float> scratch;
    // The call of the first task: the last that begins at or before it.
    size_t at = static_cast<size_t>(
        std::upper_bound(tasks.begin(), tasks.end(), begin, [](int64_t t, const Tasks& c) { return t < c.begin; }) -
        tasks.begin() - 1);
    GroupTask task(begin - tasks[at].begin, tasks[at].kv_heads, tasks[at].per_group);
    bool entered = false;
    for (int64_t number = begin; number < end; ++number) {
      if (at + 1 < tasks.size() && number >= tasks[at + 1].begin) {
        do ++at;
        while (at + 1 < tasks.size() && number >= tasks[at + 1].begin);
        task = GroupTask(0, tasks[at].kv_heads, tasks[at].per_group);
      }
      const Tasks& own = tasks[at];
      if (!entered || task.tile == 0) {
        entered = true;
        const ForwardCall& call = calls[at];
        const int64_t h = task.kv_head * own.heads;
        group = make_group(call.problem, call.query, call.memory, task.b, h, own.heads);
        query_rows.enter(call.query, task.b, h);
        output_rows.enter(call.result.output, task.b, h);
        if (own.pairs != nullptr) {
          paired.load(*own.pairs, group, false);
          group.narrow_query = pairs_of_columns(call.query, task.b, h);
        } else if (!own.few) {
          dense.load(group);
        }
        if (!own.few) look_ahead(call, task, ahead);
        if (own.few && number + 1 < (at + 1 < tasks.size() ? std::min(end, tasks[at + 1].begin) : end)) {
          GroupTask next = task;
          next.step(own.kv_heads, own.per_group);
          expect_next(group, call.memory, next.b, next.kv_head);
        }
        out = outputs_of(call, task.b, h);
        if (own.pairs != nullptr) out.narrow_output = pairs_of_columns(call.result.output, task.b, h);
        const int64_t needed = own.few                ? kernels::attention_few_scratch(group)
                               : own.pairs != nullptr ? kernels::attention_pairs_forward_scratch(group)
                                                      : kernels::attention_forward_scratch(group);
        if (scratch.size() < needed) scratch = Buffer<float>(needed);
      }
      const RowTiles::Rows rows =
          own.few ? RowTiles::Rows{0, group.heads * group.queries} : own.tiles[balanced(task.tile, own.per_group)];
      const bool narrow_output = output_rows.narrow() && out.narrow_output.data == nullptr;
      if (query_rows.narrow() && group.narrow_query.data == nullptr) group.query = query_rows.widened(rows);
      if (narrow_output) out.output = output_rows.room(rows);
      if (own.few) {
        kernels::attention_forward_few(group, out, scratch.data());
      } else {
        const bool outside = !output_rows.narrow() || out.narrow_output.data != nullptr;  // else memory in the cache
        const RowTiles::Rows next =
            task.tile + 1 < own.per_group ? own.tiles[balanced(task.tile + 1, own.per_group)] : RowTiles::Rows{0, 0};
        out.ahead = nullptr;
        if (outside) {
          const kernels::Strided<float> output = words_of(calls[at].result.output, task.b, task.kv_head * own.heads);
          const int64_t columns = output_rows.narrow() ? group.value_size / 2 : group.value_size;
          out.ahead = ahead.tile(task.tile, output, columns, group.queries, rows, next);
        }
        if (own.pairs != nullptr) {
          own.pairs->forward_tile(group, paired.packed(), out, rows.first, rows.count, scratch.data());
        } else {
          kernels::attention_forward_tile(group, out, rows.first, rows.count, scratch.data());
        }
      }
      if (narrow_output) output_rows.write(rows);
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
  run_forward({&call, 1});
  if (tapped) {
    result.taps = run_taps(problem, query.to(DType::f32), memory, result.logsumexp);
    if (!want.logsumexp) result.logsumexp = {};
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
