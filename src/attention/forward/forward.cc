// attention(): checks, memory for the results, and the tiles shared among the threads.
#include "attention/forward/forward.h"

#include <algorithm>
#include <vector>

#include "attention/call/explain.h"
#include "attention/call/group.h"
#include "attention/forward/all_heads.h"
#include "attention/observe/taps.h"
#include "attention/schedule/forward_worker.h"
#include "base/threads.h"
#include "heed/error.h"
#include "kernels/attention/engine.h"

namespace heed {
namespace {

// Groups that are too few to keep the threads busy. The threads share their chunks, and the chunks' softmax states are
// merged in order, as one thread would do it.
void run_chunks(const AttentionCall& call) {
  const kernels::Engine& engine = *call.engine;
  const AttentionProblem& p = call.problem;
  const int64_t groups = p.batch * p.kv_heads, chunks = (p.keys + kernels::kChunkKeys - 1) / kernels::kChunkKeys;
  const Tensor query = call.query.to(DType::f32);  // a few rows, which every chunk reads
  const auto group = [&](int64_t index) {
    return make_group(p, query, call.memory, index / p.kv_heads, index % p.kv_heads * p.group(), p.group());
  };
  const kernels::AttentionGroup any = group(0);
  const int64_t state = engine.chunks.state_floats(any);
  const Buffer<float> states(groups * chunks * state);
  const int64_t flops = 2 * p.group() * p.queries * kernels::kChunkKeys * (p.size + p.value_size);
  parallel_for(groups * chunks, grain_for(8 * flops), [&](int64_t begin, int64_t end) {
    const Buffer<float> scratch(engine.forward_scratch(any));
    for (int64_t task = begin; task < end; ++task) {
      engine.chunks.run(group(task / chunks), task % chunks, states.data() + task * state, scratch.data());
    }
  });
  const Buffer<float> scratch(engine.forward_scratch(any));
  HalfRows output_rows;
  const RowRange rows{0, p.group() * p.queries};
  for (int64_t index = 0; index < groups; ++index) {
    const int64_t b = index / p.kv_heads, h = index % p.kv_heads * p.group();
    kernels::TileOutputs outputs = outputs_of(call, b, h);
    output_rows.enter(call.result.output, b, h);
    if (output_rows.convert()) outputs.output = output_rows.buffer(rows);
    engine.chunks.merge(group(index), outputs, states.data() + index * chunks * state, chunks, scratch.data());
    if (output_rows.convert()) output_rows.write(rows);
  }
}

}  // namespace

bool shares_keys(const AttentionCall& call) {
  const AttentionProblem& p = call.problem;
  if (call.engine->chunks.run == nullptr || p.keys <= kernels::kChunkKeys) return false;
  const int64_t groups = p.batch * p.kv_heads, threads = num_threads();
  return groups > 0 && p.queries > 0 && groups < 4 * threads && groups % threads != 0;
}

void run_forward(std::span<const AttentionCall> calls) {
  if (calls.size() == 1 && shares_keys(calls[0])) {
    run_chunks(calls[0]);
    return;
  }
  // The tasks of all calls, numbered one call after the other.
  std::vector<Tiling> tilings;
  std::vector<int64_t> begins;  // the first task of each call
  int64_t count = 0, flops = 0;
  for (const AttentionCall& call : calls) {
    const AttentionProblem& p = call.problem;
    tilings.emplace_back(p.group(), p.queries);
    begins.push_back(count);
    count += p.batch * p.kv_heads * tilings.back().count();
    flops = std::max(flops, 2 * kernels::kTileQueries * p.keys * (p.size + p.value_size));
  }
  parallel_for(count, grain_for(flops), [&](int64_t begin, int64_t end) {
    ForwardWorker worker;
    // The call of the first task: the last one that begins at or before it.
    size_t at = static_cast<size_t>(std::upper_bound(begins.begin(), begins.end(), begin) - begins.begin() - 1);
    int64_t kv_heads = calls[at].problem.kv_heads, tiles = tilings[at].count();
    Task task(begin - begins[at], kv_heads, tiles);
    bool entered = false;
    for (int64_t number = begin; number < end; ++number) {
      if (at + 1 < calls.size() && number >= begins[at + 1]) {
        do ++at;
        while (at + 1 < calls.size() && number >= begins[at + 1]);
        kv_heads = calls[at].problem.kv_heads, tiles = tilings[at].count();
        task = Task(0, kv_heads, tiles);
      }
      if (!entered || task.tile == 0) {
        entered = true;
        const int64_t last = at + 1 < calls.size() ? std::min(end, begins[at + 1]) : end;
        worker.enter(calls[at], tilings[at], task, number + 1 < last);
      }
      worker.run(task.tile, balanced(task.tile, tiles), task.tile + 1 < tiles ? balanced(task.tile + 1, tiles) : -1);
      task.next(kv_heads, tiles);
    }
  });
}

AttentionResult run_attention(std::string_view function, const AttentionProblem& problem, const Tensor& query,
                              const KeyValues& memory, bool bf16) {
  const AttentionOptions::Want& want = problem.options.want;
  const bool tapped = want.taps.any();
  AttentionResult result;
  result.output = want.output;
  if (!result.output.defined()) {
    result.output = empty_rows({problem.batch, problem.heads, problem.queries, problem.value_size}, query.dtype());
  }
  if (want.logsumexp || tapped) {
    result.logsumexp = Tensor::empty({problem.batch, problem.heads, problem.queries});
  }
  const Shape scores{problem.batch, problem.heads, problem.queries, problem.keys};
  if (want.weights) result.weights = Tensor::empty(scores);
  if (want.scores) result.scores = Tensor::empty(scores);
  const AttentionCall call{problem, query, memory, &forward_engine(problem, bf16), result};
  Explain explain(function, 1);
  explain.add(call);
  if (tapped) {
    result.taps = run_tapped(call);
    if (!want.logsumexp) result.logsumexp = {};
  } else {
    takes_all_heads(call) ? run_all_heads(call) : run_forward({&call, 1});
  }
  return result;
}

AttentionResult attention(const Tensor& query, const Tensor& key, const Tensor& value,
                          const AttentionOptions& options) {
  const DType dtype = query.defined() && is_half(query.dtype()) ? query.dtype() : DType::f32;
  const AttentionProblem problem = check_attention("attention", query, key, value, options, dtype);
  check_taps("attention", problem);
  return run_attention("attention", problem, query, {key, value}, dtype == DType::bf16);
}

AttentionResult attention_of_rows(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const AttentionOptions& options, int64_t head, int64_t begin, int64_t end) {
  constexpr std::string_view kName = "attention_of_rows";
  const DType dtype = query.defined() && is_half(query.dtype()) ? query.dtype() : DType::f32;
  AttentionProblem p = check_attention(kName, query, key, value, options, dtype);
  require(0 <= head && head < p.heads, kName, "a head below ", p.heads, "; found ", head);
  require(0 <= begin && begin <= end && end <= p.queries, kName, "rows from 0 to ", p.queries, "; found [", begin, ", ",
          end, ")");
  require(!options.want.output.defined(), kName, "no want.output; found one");
  const auto rows_of = [&](const Tensor& all) {  // (B, H, L, ...)
    return all.defined() ? all.slice(1, head, head + 1).slice(2, begin, end) : all;
  };
  p.mask = rows_of(p.mask), p.bias = rows_of(p.bias);
  if (options.sinks.defined()) p.options.sinks = options.sinks.slice(0, head, head + 1);
  if (options.query_documents.defined()) p.options.query_documents = options.query_documents.slice(1, begin, end);
  const int64_t key_head = head / p.group();
  p.part = PartOfProblem{.queries = p.queries, .keys = p.keys, .first_query = begin};
  p.first_head = head, p.heads = p.kv_heads = 1, p.queries = end - begin;
  check_taps(kName, p);
  return run_attention(kName, p, rows_of(query),
                       {key.slice(1, key_head, key_head + 1), value.slice(1, key_head, key_head + 1)},
                       dtype == DType::bf16);
}

}  // namespace heed
