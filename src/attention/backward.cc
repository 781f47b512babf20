// attention_backward(): one pass over (query tile, key block) pairs where there are groups enough for the threads,
// otherwise two (keys and values, then queries), with the same chains of additions and therefore the same bits.
#include <algorithm>
#include <limits>

#include "attention/group.h"
#include "attention/passes.h"
#include "attention/plan.h"
#include "base/threads.h"
#include "heed/error.h"

namespace heed {
namespace {

using kernels::AttentionBackward;
using kernels::AttentionGroup;
using kernels::kTileRows;
using kernels::padded;

constexpr int64_t kRangeKeys = 256;  // keys of a task in the pass over keys and values

// All that one thread needs; groups are made as it comes to them.
class Worker {
 public:
  Worker(const AttentionProblem& problem, const Tensor& d_output, const Tensor& query, const Tensor& key,
         const Tensor& value, const AttentionResult& forward, const kernels::AttentionPairs* pairs)
      : problem_(problem), d_output_(d_output), query_(query), memory_{key, value}, forward_(forward), pairs_(pairs) {}

  // Moves to `heads` query heads of sequence b from head h on.
  void enter(int64_t b, int64_t h, int64_t heads) {
    if (b == b_ && h == h_) return;
    b_ = b, h_ = h;
    group = make_group(problem_, query_, memory_, b, h, heads);
    if (pairs_ != nullptr) {
      paired_.load(*pairs_, group, true);
    } else {
      dense_.load(group);
    }
    gradients = {};
    query_rows_.enter(query_, b, h);
    output_rows_.enter(forward_.output, b, h);
    d_output_rows_.enter(d_output_, b, h);
    d_query_rows_.leave();
    if (!query_rows_.narrow()) {
      gradients.output = strided<const float>(forward_.output, b, h);
      gradients.d_output = strided<const float>(d_output_, b, h);
    }
    gradients.logsumexp = strided<const float>(forward_.logsumexp, b, h);
    if (scratch_.size() != 0) return;
    scratch_ = Buffer<float>(pairs_ != nullptr ? kernels::attention_pairs_backward_scratch(group)
                                               : kernels::attention_backward_scratch(group));
  }

  // Also the gradient of the group's queries.
  void want_query(const Tensor& d_query) {
    d_query_rows_.enter(d_query, b_, h_);
    if (!d_query_rows_.narrow()) gradients.d_query = strided<float>(d_query, b_, h_);
  }

  void run(RowTiles::Rows rows) {
    gradients.ahead = nullptr;
    run_tile(rows);
  }

  // The n-th of a group's tiles, in order.
  void run(const RowTiles& tiles, int64_t n) {
    const RowTiles::Rows rows = tiles[n], next = n + 1 < tiles.count() ? tiles[n + 1] : RowTiles::Rows{0, 0};
    const bool outside = !d_query_rows_.narrow();  // else a tile writes memory of its own, in the cache
    gradients.ahead = outside ? ahead.tile(n, gradients.d_query, group.size, group.queries, rows, next) : nullptr;
    run_tile(rows);
  }

  AttentionGroup group;
  AttentionBackward gradients;
  TilesAhead ahead;
  Buffer<float> d_key, d_value;

 private:
  void run_tile(RowTiles::Rows rows) {
    if (query_rows_.narrow()) {
      group.query = query_rows_.widened(rows);
      gradients.output = output_rows_.widened(rows);
      gradients.d_output = d_output_rows_.widened(rows);
    }
    if (d_query_rows_.narrow()) gradients.d_query = d_query_rows_.room(rows);
    if (pairs_ != nullptr) {
      pairs_->backward_tile(group, paired_.packed(), gradients, rows.first, rows.count, scratch_.data());
    } else {
      kernels::attention_backward_tile(group, gradients, rows.first, rows.count, scratch_.data());
    }
    if (d_query_rows_.narrow()) d_query_rows_.write(rows);
  }

  const AttentionProblem& problem_;
  const Tensor &d_output_, &query_;
  const KeyValues memory_;
  const AttentionResult& forward_;
  const kernels::AttentionPairs* const pairs_;
  int64_t b_ = -1, h_ = -1;
  DenseKeys dense_;
  PairedKeys paired_;
  TileRows query_rows_, output_rows_, d_output_rows_, d_query_rows_;
  Buffer<float> scratch_;
};

// Rows [first, first + count) of a gradient (S, columns), accumulated beside each other in rows of whole vectors.
class Accumulator {
 public:
  // Of head h of sequence b of `gradient`. `memory` grows where it must, and is free again after finish().
  Accumulator(const Tensor& gradient, int64_t b, int64_t h, int64_t first, int64_t count, Buffer<float>& memory)
      : result_(static_cast<char*>(gradient.raw()) +
                (b * gradient.stride(0) + h * gradient.stride(1) + first * gradient.stride(2)) *
                    size_of(gradient.dtype())),
        element_(element_of(gradient.dtype())),
        result_row_(gradient.stride(2)),
        count_(count),
        columns_(gradient.size(3)),
        memory_(memory) {
    const int64_t needed = count * padded(columns_);
    if (memory.size() < needed) memory = Buffer<float>(needed);
    std::fill_n(memory.data(), needed, 0.0f);
  }
  [[nodiscard]] float* data() const { return memory_.data(); }
  void finish() const {
    const int64_t row = padded(columns_);
    const bool narrow = element_ != kernels::Element::f32;
    float* const to = narrow ? memory_.data() : static_cast<float*>(result_);
    kernels::attention_copy_rows(memory_.data(), row, to, narrow ? row : result_row_, count_, columns_);
    if (narrow) kernels::attention_narrow_rows(to, row, count_, columns_, element_, result_, result_row_);
  }

 private:
  void* result_;
  kernels::Element element_;
  int64_t result_row_, count_, columns_;
  Buffer<float>& memory_;
};

struct Pass {
  const AttentionProblem& problem;
  const Tensor &d_output, &query, &key, &value;
  const AttentionResult& forward;
  const AttentionGradients& result;
  const Tensor& d_sinks;
  const kernels::AttentionPairs* pairs;
  RowTiles tiles;
  int64_t heads;  // of a group

  explicit Pass(const BackwardCall& call)
      : problem(call.problem),
        d_output(call.d_output),
        query(call.query),
        key(call.key),
        value(call.value),
        forward(call.forward),
        result(call.gradients),
        d_sinks(call.d_sinks),
        pairs(call.pairs),
        tiles(call.problem.group(), call.problem.queries),
        heads(call.problem.group()) {}

  [[nodiscard]] Worker worker() const { return {problem, d_output, query, key, value, forward, pairs}; }
  [[nodiscard]] int64_t groups() const { return problem.batch * problem.kv_heads; }

  void enter(Worker& worker, const GroupTask& at) const { worker.enter(at.b, at.kv_head * heads, heads); }
  void want_query(Worker& worker, const GroupTask& at) const {
    worker.want_query(result.query);
    if (d_sinks.defined()) worker.gradients.d_sink = strided<float>(d_sinks, at.b, at.kv_head * heads);
  }

  // What is written after the tiles of a group, and what the next one reads.
  void look_ahead(Worker& worker, GroupTask at) const {
    const int64_t blocks = (problem.keys + kernels::kBlockKeys - 1) / kernels::kBlockKeys;
    worker.ahead.enter(problem, problem.size + problem.value_size, tiles.count(),
                       problem.keys / 2 + blocks * problem.size / 8);
    if (query.dtype() == DType::f32) {
      for (const Tensor* tensor : {&query, &d_output, &forward.output}) {
        worker.ahead.read(strided<const float>(*tensor, at.b, at.kv_head * heads), tensor->shape()[3]);
      }
    }
    if (!worker.ahead.short_group() || key.dtype() != DType::f32) return;
    const auto after = [&](const Tensor& tensor, int64_t h) {
      worker.ahead.after(strided<const float>(tensor, at.b, h), tensor.shape()[2], tensor.shape()[3]);
    };
    after(result.key, at.kv_head);
    after(result.value, at.kv_head);
    at.step(problem.kv_heads, 1);
    if (at.b == problem.batch) return;
    after(key, at.kv_head);
    after(value, at.kv_head);
    after(query, at.kv_head * heads);
    after(d_output, at.kv_head * heads);
    after(forward.output, at.kv_head * heads);
  }

  // Gradients of keys and values [first, last) of a group, and with `queries` those of its queries (all keys then).
  void keys_and_values(Worker& worker, const GroupTask& at, int64_t first, int64_t last, bool queries) const {
    enter(worker, at);
    if (queries) want_query(worker, at);
    const Accumulator d_key(result.key, at.b, at.kv_head, first, last - first, worker.d_key);
    const Accumulator d_value(result.value, at.b, at.kv_head, first, last - first, worker.d_value);
    AttentionBackward& gradients = worker.gradients;
    gradients.d_key = d_key.data() - first * padded(problem.size);
    gradients.d_value = d_value.data() - first * padded(problem.value_size);
    gradients.key_begin = first;
    gradients.key_end = last;
    if (queries) {
      look_ahead(worker, at);
      for (int64_t tile = 0; tile < tiles.count(); ++tile) worker.run(tiles, tile);
    } else {
      for (int64_t tile = 0; tile < tiles.count(); ++tile) worker.run(tiles[tile]);
    }
    d_key.finish();
    d_value.finish();
  }

  void in_one() const {
    parallel_for(groups(), 1, [&](int64_t begin, int64_t end) {
      Worker thread = worker();
      GroupTask at(begin, problem.kv_heads, 1);
      for (int64_t index = begin; index < end; ++index, at.step(problem.kv_heads, 1)) {
        keys_and_values(thread, at, 0, problem.keys, true);
      }
    });
  }

  void in_two() const {
    const int64_t ranges = (problem.keys + kRangeKeys - 1) / kRangeKeys;
    parallel_for(groups() * ranges, 1, [&](int64_t begin, int64_t end) {
      Worker thread = worker();
      for (int64_t task = begin; task < end; ++task) {
        const GroupTask at(task, problem.kv_heads, ranges);
        const int64_t first = balanced(at.tile, ranges) * kRangeKeys;
        keys_and_values(thread, at, first, std::min(first + kRangeKeys, problem.keys), false);
      }
    });
    parallel_for(groups() * tiles.count(), 1, [&](int64_t begin, int64_t end) {
      Worker thread = worker();
      for (int64_t task = begin; task < end; ++task) {
        const GroupTask at(task, problem.kv_heads, tiles.count());
        enter(thread, at);
        want_query(thread, at);
        thread.gradients.key_end = problem.keys;
        thread.run(tiles[balanced(at.tile, tiles.count())]);
      }
    });
  }

  // The bias's gradient: that of the scores, summed over what the bias was broadcast to, in the order b, h, i, j. A
  // task is what is summed independently of the rest: one (b, h), tile of rows or range of keys of the bias itself.
  void bias() const {
    const Tensor& d_bias = result.bias;
    const auto extent = [&](int axis) { return axis + d_bias.rank() < 4 ? 1 : d_bias.size(axis - 4); };
    const int64_t own_batch = extent(0), own_heads = extent(1), columns = extent(3);
    const bool own_rows = extent(2) != 1, own_keys = columns != 1;
    const RowTiles head_tiles(1, problem.queries);
    const int64_t row_tasks = own_rows ? head_tiles.count() : 1;
    const int64_t key_tasks = own_keys ? (problem.keys + kRangeKeys - 1) / kRangeKeys : 1;
    if (d_bias.numel() == 0) return;
    float* const data = d_bias.data<float>();
    parallel_for(own_batch * own_heads * row_tasks * key_tasks, 1, [&](int64_t begin, int64_t end) {
      Worker thread = worker();
      Buffer<float> d_scores(kTileRows * std::max<int64_t>(1, own_keys ? kRangeKeys : problem.keys));
      for (int64_t task = begin; task < end; ++task) {
        const int64_t key_first = task % key_tasks * kRangeKeys, row_task = task / key_tasks % row_tasks;
        const int64_t key_last = own_keys ? std::min(key_first + kRangeKeys, problem.keys) : problem.keys;
        const int64_t own = task / key_tasks / row_tasks, own_b = own / own_heads, own_h = own % own_heads;
        float* const table = data + own * extent(2) * columns;  // (L or 1, S or 1)
        for (int64_t b = own_batch == 1 ? 0 : own_b; b < (own_batch == 1 ? problem.batch : own_b + 1); ++b) {
          for (int64_t h = own_heads == 1 ? 0 : own_h; h < (own_heads == 1 ? problem.heads : own_h + 1); ++h) {
            thread.enter(b, h, 1);
            thread.gradients.d_scores = {d_scores.data(), 0, key_last - key_first, 1};
            thread.gradients.key_begin = key_first;
            thread.gradients.key_end = key_last;
            for (int64_t t = own_rows ? row_task : 0; t < (own_rows ? row_task + 1 : head_tiles.count()); ++t) {
              const RowTiles::Rows rows = head_tiles[t];
              thread.run(rows);
              for (int64_t r = 0; r < rows.count; ++r) {
                float* const row = table + (own_rows ? rows.first + r : 0) * columns;
                const float* const from = d_scores.data() + r * (key_last - key_first);
                for (int64_t j = key_first; j < key_last; ++j) row[own_keys ? j : 0] += from[j - key_first];
              }
            }
          }
        }
      }
    });
    kernels::attention_copy_rows(data, d_bias.numel(), data, d_bias.numel(), 1, d_bias.numel());
  }

  // Sums over pairs, in double precision, of numbers that all rows (or those of a head) share: the entries of a stage's
  // table, the weights of additive scores. aim(gradients, sums) says where a kernel adds them. Each (b, h) adds up its
  // own, then these follow each other into `totals`: `entries` of them, or for every head so many. Where that would
  // take too much memory, each h adds up all of its own: the order depends on the shape alone.
  template <class Aim>
  void add_shared(std::span<double> totals, int64_t entries, const Aim& aim) const {
    const int64_t all = problem.batch * problem.heads;
    const bool by_sequence = all * entries <= int64_t{1} << 22;
    const int64_t tasks = by_sequence ? all : problem.heads;
    const Buffer<double> sums(tasks * entries);
    const RowTiles head_tiles(1, problem.queries);
    parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
      Worker thread = worker();
      for (int64_t task = begin; task < end; ++task) {
        double* const own = sums.data() + task * entries;
        std::fill_n(own, entries, 0.0);
        for (int64_t b = by_sequence ? task / problem.heads : 0; b < problem.batch; ++b) {
          thread.enter(b, task % problem.heads, 1);
          aim(thread.gradients, own);
          thread.gradients.key_end = problem.keys;
          for (int64_t t = 0; t < head_tiles.count(); ++t) thread.run(head_tiles[t]);
          if (by_sequence) break;
        }
      }
    });
    const auto count = static_cast<int64_t>(totals.size());
    const int64_t heads_apart = count == entries ? 1 : problem.heads;
    for (int64_t n = 0; n < count; ++n) {
      double& total = totals[static_cast<size_t>(n)];
      for (int64_t task = n / entries; task < tasks; task += heads_apart) total += sums[task * entries + n % entries];
    }
  }
};

// What all calls add up, rounded once.
template <class Add>
void write_shared(const Tensor& result, const Add& add) {
  std::vector<double> totals(static_cast<size_t>(result.numel()), 0.0);
  add(std::span<double>(totals));
  std::transform(totals.begin(), totals.end(), result.data<float>(), [](double sum) {
    return sum == sum ? static_cast<float>(sum) : std::numeric_limits<float>::quiet_NaN();
  });
}

void sum_additive(const BackwardCall& call) {
  write_shared(call.gradients.additive_weight, [&](std::span<double> totals) {
    Pass(call).add_shared(totals, call.problem.size,
                          [](AttentionBackward& gradients, double* sums) { gradients.d_additive = sums; });
  });
}

}  // namespace

void run_backward(std::span<const BackwardCall> calls) {
  const int64_t threads = num_threads(), count = static_cast<int64_t>(calls.size());
  if (count >= 4 * threads) {  // sequences enough to share
    parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) Pass(calls[static_cast<size_t>(n)]).in_one();
    });
    return;
  }
  for (const BackwardCall& call : calls) {
    const Pass pass(call);
    // The second way computes the scores twice: worth it only where whole groups would leave threads idle.
    const int64_t groups = pass.groups(), rounds = (groups + threads - 1) / threads;
    const AttentionProblem& p = call.problem;
    if (threads == 1 || rounds * threads * 10 <= groups * 14 || p.keys * p.queries < 4096) {
      pass.in_one();
    } else {
      pass.in_two();
    }
    if (call.gradients.bias.defined()) pass.bias();
    if (call.gradients.additive_weight.defined()) sum_additive(call);
    if (call.gradients.alibi_slopes.defined()) sum_slopes({&call, 1}, call.gradients.alibi_slopes);
    if (call.gradients.score_table.defined()) sum_score_table({&call, 1}, call.gradients.score_table);
  }
}

namespace {

void sum_table(std::span<const BackwardCall> calls, int64_t stage, const Tensor& d_table) {
  write_shared(d_table, [&](std::span<double> totals) {
    for (const BackwardCall& call : calls) {
      Pass(call).add_shared(totals, d_table.numel(), [&](AttentionBackward& gradients, double* sums) {
        gradients.d_table = sums;
        gradients.table_stage = stage;
      });
    }
  });
}

}  // namespace

void sum_slopes(std::span<const BackwardCall> calls, const Tensor& d_slopes) {
  if (!calls.empty()) sum_table(calls, calls[0].problem.stage_of_alibi(), d_slopes);
}

void sum_score_table(std::span<const BackwardCall> calls, const Tensor& d_table) {
  if (!calls.empty()) sum_table(calls, calls[0].problem.stage_of_score(), d_table);
}

Tensor sum_sinks(const Tensor& d_sinks) {
  const Tensor sums = Tensor::empty({d_sinks.size(1)});
  for (int64_t h = 0; h < sums.size(0); ++h) {
    double sum = 0;
    for (int64_t b = 0; b < d_sinks.size(0); ++b) {
      const float* const rows = strided<float>(d_sinks, b, h).data;
      for (int64_t i = 0; i < d_sinks.size(2); ++i) sum += static_cast<double>(rows[i]);
    }
    sums.data<float>()[h] = sum == sum ? static_cast<float>(sum) : std::numeric_limits<float>::quiet_NaN();
  }
  return sums;
}

void require_like(std::string_view function, std::string_view name, const Tensor& tensor, const Shape& shape,
                  DType dtype) {
  require(tensor.defined(), function, name, " of shape ", shape, "; found an undefined tensor");
  require(tensor.shape() == shape && tensor.dtype() == dtype, function, name, " of shape ", shape, " in ", dtype,
          "; found ", tensor.shape(), " in ", tensor.dtype());
}

void check_wanted(std::string_view function, const AttentionOptions& options, const AttentionWantGradients& want) {
  require(!want.bias || options.bias.defined(), function, "a bias, as its gradient is wanted; found none");
  require(!want.alibi_slopes || options.alibi_slopes.defined(), function,
          "alibi_slopes, as their gradient is wanted; found none");
  require(!want.score_table || (options.score.defined() && options.score.has_table()), function,
          "a score function with a table, as its gradient is wanted; found none");
}

AttentionGradients run_attention_backward(std::string_view function, const AttentionProblem& problem, DType dtype,
                                          const Tensor& d_output, const Tensor& query, const Tensor& key,
                                          const Tensor& value, const AttentionResult& forward,
                                          const AttentionWantGradients& want) {
  const Shape output{problem.batch, problem.heads, problem.queries, problem.value_size};
  require_like(function, "d_output", d_output, output, dtype);
  require_like(function, "the forward pass's output", forward.output, output, dtype);
  require_like(function, "the forward pass's logsumexp (ask for it with want.logsumexp)", forward.logsumexp,
               {problem.batch, problem.heads, problem.queries}, DType::f32);
  check_wanted(function, problem.options, want);
  AttentionGradients result;
  const auto empty_like = [](const Tensor& x) {  // (B, H, L, D), laid out as a layer's rows are: (B, L, H, D)
    return Tensor::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.dtype()).transpose(1, 2);
  };
  result.query = empty_like(query);
  result.key = empty_like(key);
  result.value = empty_like(value);
  if (want.bias) result.bias = Tensor::zeros(problem.options.bias.shape());
  if (want.alibi_slopes) result.alibi_slopes = Tensor::zeros(problem.options.alibi_slopes.shape());
  if (problem.additive.defined()) {  // expanded from (D): one for all heads
    const int64_t own = problem.additive.stride(0) == 0 ? 1 : problem.heads;
    result.additive_weight = Tensor::zeros({own, problem.size});
  }
  if (want.score_table) result.score_table = Tensor::zeros(problem.options.score.table().shape());
  BackwardCall call{problem, d_output, query, key, value, forward, result, {}, nullptr};
  if (problem.options.sinks.defined()) call.d_sinks = Tensor::empty({problem.batch, problem.heads, problem.queries});
  {
    const ForwardCall same{problem, query, {key, value}, forward, dtype == DType::bf16};
    if (same.bf16 && !problem.additive.defined()) call.pairs = kernels::attention_pairs();
    const ExplainScope explain(function, {&same, 1}, 2.5);
    run_backward({&call, 1});
  }
  if (problem.options.sinks.defined()) result.sinks = sum_sinks(call.d_sinks);
  return result;
}

AttentionGradients attention_backward(const Tensor& d_output, const Tensor& query, const Tensor& key,
                                      const Tensor& value, const AttentionResult& forward,
                                      const AttentionOptions& options, const AttentionWantGradients& want) {
  const DType dtype = query.defined() && is_half(query.dtype()) ? query.dtype() : DType::f32;
  const AttentionProblem problem = check_attention("attention_backward", query, key, value, options, dtype);
  return run_attention_backward("attention_backward", problem, dtype, d_output, query, key, value, forward, want);
}

}  // namespace heed
