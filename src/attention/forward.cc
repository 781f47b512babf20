// attention(): checks, then row tiles shared among the threads.
#include <algorithm>
#include <vector>

#include "attention/group.h"
#include "attention/passes.h"
#include "attention/taps.h"
#include "base/threads.h"

namespace heed {

void run_forward(std::span<const ForwardCall> calls) {
  // All tasks of all calls in one row: tiles, or whole groups where these are few rows, as in decoding.
  struct Tasks {
    bool few;
    RowTiles tiles;
    int64_t per_group, begin;
  };
  std::vector<Tasks> tasks;
  int64_t count = 0, flops = 0;
  for (const ForwardCall& call : calls) {
    const AttentionProblem& p = call.problem;
    const RowTiles tiles(p.group(), p.queries);
    const bool few = p.group() * p.queries <= kernels::kFewRows && !call.result.weights.defined();
    tasks.push_back({few, tiles, tiles.count(), count});
    count += p.batch * p.kv_heads * tiles.count();
    flops = std::max(flops, 2 * kernels::kTileRows * p.keys * (p.size + p.value_size));
  }
  parallel_for(count, grain_for(flops), [&](int64_t begin, int64_t end) {
    kernels::AttentionGroup group;
    kernels::AttentionForward out;
    DenseKeys dense;
    Buffer<float> scratch;
    // The call of the first task: the last that begins at or before it.
    size_t at = static_cast<size_t>(
        std::upper_bound(tasks.begin(), tasks.end(), begin, [](int64_t t, const Tasks& c) { return t < c.begin; }) -
        tasks.begin() - 1);
    int64_t current = -1;
    for (int64_t task = begin; task < end; ++task) {
      while (at + 1 < tasks.size() && task >= tasks[at + 1].begin) ++at, current = -1;
      const AttentionProblem& p = calls[at].problem;
      const AttentionResult& result = calls[at].result;
      const int64_t own = task - tasks[at].begin, per_group = tasks[at].per_group;
      if (own / per_group != current) {
        current = own / per_group;
        const int64_t b = current / p.kv_heads, h = current % p.kv_heads * p.group();
        group = make_group(p, calls[at].query, calls[at].key, calls[at].value, b, h, p.group());
        dense.load(group);
        out = {};
        out.output = strided<float>(result.output, b, h);
        if (result.logsumexp.defined()) out.logsumexp = strided<float>(result.logsumexp, b, h);
        if (result.weights.defined()) out.weights = strided<float>(result.weights, b, h);
        out.all_keys = p.keys;
        const int64_t needed =
            tasks[at].few ? kernels::attention_few_scratch(group) : kernels::attention_forward_scratch(group);
        if (scratch.size() < needed) scratch = Buffer<float>(needed);
      }
      if (tasks[at].few) {
        kernels::attention_forward_few(group, out, scratch.data());
        continue;
      }
      const RowTiles::Rows rows = tasks[at].tiles[balanced(own % per_group, per_group)];
      kernels::attention_forward_tile(group, out, rows.first, rows.count, scratch.data());
    }
  });
}

AttentionResult attention(const Tensor& query, const Tensor& key, const Tensor& value,
                          const AttentionOptions& options) {
  const AttentionProblem problem = check_attention("attention", query, key, value, options, DType::f32);
  check_taps("attention", problem);
  const bool tapped = options.want.taps.any();
  AttentionResult result;
  result.output = Tensor::empty({problem.batch, problem.queries, problem.heads, problem.value_size}).transpose(1, 2);
  if (options.want.logsumexp || tapped) {
    result.logsumexp = Tensor::empty({problem.batch, problem.heads, problem.queries});
  }
  if (options.want.weights) {
    result.weights = Tensor::empty({problem.batch, problem.heads, problem.queries, problem.keys});
  }
  const ForwardCall call{problem, query, key, value, result};
  run_forward({&call, 1});
  if (tapped) {
    result.taps = run_taps(problem, query, key, value, result.logsumexp);
    if (!options.want.logsumexp) result.logsumexp = {};
  }
  return result;
}

}  // namespace heed
