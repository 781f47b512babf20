// attention(): checks, then row tiles shared among the threads.
#include "attention/group.h"
#include "attention/taps.h"
#include "base/threads.h"
#include "heed/error.h"

namespace heed {

AttentionResult attention(const Tensor& query, const Tensor& key, const Tensor& value,
                          const AttentionOptions& options) {
  const AttentionProblem problem = check_attention("attention", query, key, value, options, DType::f32);
  check_taps("attention", problem);
  const bool tapped = options.want.taps.any();
  AttentionResult result;
  result.output = Tensor::empty({problem.batch, problem.queries, problem.heads, problem.value_size}).transpose(1, 2);
  if (options.want.logsumexp || tapped)
    result.logsumexp = Tensor::empty({problem.batch, problem.heads, problem.queries});
  if (options.want.weights) {
    result.weights = Tensor::empty({problem.batch, problem.heads, problem.queries, problem.keys});
  }

  // Few rows, as in decoding, have a kernel of their own, which takes a group at a time.
  const bool few = problem.group() * problem.queries <= kernels::kFewRows && !options.want.weights;
  const RowTiles tiles(problem.group(), problem.queries);
  const int64_t groups = problem.batch * problem.kv_heads;
  const int64_t flops = 2 * kernels::kTileRows * problem.keys * (problem.size + problem.value_size);
  parallel_for(groups * tiles.count(), grain_for(flops), [&](int64_t begin, int64_t end) {
    kernels::AttentionGroup group;
    kernels::AttentionForward out;
    DenseKeys dense;
    Buffer<float> scratch;
    int64_t current = -1;
    for (int64_t task = begin; task < end; ++task) {
      if (task / tiles.count() != current) {
        current = task / tiles.count();
        const int64_t b = current / problem.kv_heads, h = current % problem.kv_heads * problem.group();
        group = make_group(problem, query, key, value, b, h, problem.group());
        dense.load(group);
        out.output = strided<float>(result.output, b, h);
        if (result.logsumexp.defined()) out.logsumexp = strided<float>(result.logsumexp, b, h);
        if (options.want.weights) out.weights = strided<float>(result.weights, b, h);
        out.all_keys = problem.keys;
        if (scratch.size() == 0) {
          scratch =
              Buffer<float>(few ? kernels::attention_few_scratch(group) : kernels::attention_forward_scratch(group));
        }
      }
      if (few) {
        kernels::attention_forward_few(group, out, scratch.data());
        continue;
      }
      const RowTiles::Rows rows = tiles[balanced(task % tiles.count(), tiles.count())];
      kernels::attention_forward_tile(group, out, rows.first, rows.count, scratch.data());
    }
  });
  if (tapped) {
    result.taps = run_taps(problem, query, key, value, result.logsumexp);
    if (!options.want.logsumexp) result.logsumexp = {};
  }
  return result;
}

}  // namespace heed
