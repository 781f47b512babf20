// attention_backward(): one pass over pairs of a query tile and a key block. Threads take groups. Where there are too
// few groups, threads take tiles, which add to the gradients of keys and values in their order. Both make the same
// chains of additions, and therefore the same bits.
#include "attention/backward/backward.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <optional>
#include <vector>

#include "attention/backward/shared_gradients.h"
#include "attention/call/explain.h"
#include "attention/call/group.h"
#include "attention/schedule/backward_worker.h"
#include "base/threads.h"
#include "heed/error.h"

namespace heed {
namespace {

using kernels::TileGradients;

// Lets the tiles of a group, which run on several threads, add to the gradients of its keys and values in order.
class TileTurns : public kernels::KeyTurns {
 public:
  TileTurns(const BackwardCall& call, const GradientSums& sums, InOrder& order, int64_t tiles)
      : call_(call), problem_(call.problem), sums_(sums), order_(order), tiles_(tiles) {}

  // From now on these are the turns of the n-th tile of a group.
  void enter(int64_t group, int64_t n) { group_ = group, n_ = n; }
  [[nodiscard]] static int64_t blocks(const AttentionProblem& problem) {
    return (problem.keys + kernels::kBlockKeys - 1) / kernels::kBlockKeys;
  }
  [[nodiscard]] float* d_key() const { return sums_.key.data() + group_ * problem_.keys * sums_.key_row; }
  [[nodiscard]] float* d_value() const { return sums_.value.data() + group_ * problem_.keys * sums_.value_row; }

  void begin(int64_t block) override {
    order_.wait(place(block), n_);
    if (n_ == 0) each(block, [](const GradientRows& rows) { rows.clear(); });
  }
  void end(int64_t block) override {
    if (n_ == tiles_ - 1) each(block, [](const GradientRows& rows) { rows.write(); });
    order_.pass(place(block));
  }

 private:
  [[nodiscard]] int64_t place(int64_t block) const { return group_ * blocks(problem_) + block; }
  template <class F>
  void each(int64_t block, const F& f) const {
    const int64_t first = block * kernels::kBlockKeys, count = std::min(kernels::kBlockKeys, problem_.keys - first);
    const int64_t b = group_ / problem_.kv_heads, h = group_ % problem_.kv_heads;
    f(GradientRows(call_.gradients.key, b, h, first, count, d_key() + first * sums_.key_row));
    f(GradientRows(call_.gradients.value, b, h, first, count, d_value() + first * sums_.value_row));
  }

  const BackwardCall& call_;
  const AttentionProblem& problem_;
  const GradientSums& sums_;
  InOrder& order_;
  int64_t tiles_, group_ = 0, n_ = 0;
};

// The backward pass of one call.
class BackwardPass {
 public:
  explicit BackwardPass(const BackwardCall& backward)
      : call_(backward),
        problem_(call_.problem),
        result_(call_.gradients),
        tiles_(problem_.group(), problem_.queries),
        heads_(problem_.group()),
        tiles_a_head_(Tiling(1, problem_.queries).count()) {
    if (result_.bias.defined()) bias_.emplace(call_);
  }

  // Makes by_group() add up these sums too, as far as it can.
  void make_sums(std::span<SharedSums> all) {
    bool table = false;  // a kernel adds to one table at a time
    for (SharedSums& sums : all) {
      if (!sums.additive() && table) continue;
      double* const memory = sums.memory_for(call_);
      if (memory == nullptr) continue;
      head_sums_.push_back({&sums, memory});
      table = table || !sums.additive();
    }
  }

  // Threads take whole groups.
  void by_group() const {
    const bool biased = bias_ && bias_->in_pass();
    if (biased && bias_->shared()) {
      InOrder order(groups(), bias_->places());
      order.run([&] {
        BackwardWorker worker(call_);
        const GradientSums sums(problem_, 1);
        for (int64_t index = order.next(); index >= 0; index = order.next()) {
          run_group(worker, sums, Task(index, problem_.kv_heads, 1), &order);
        }
      });
    } else {
      parallel_for(groups(), 1, [&](int64_t begin, int64_t end) {
        BackwardWorker worker(call_);
        const GradientSums sums(problem_, 1);
        Task at(begin, problem_.kv_heads, 1);
        for (int64_t index = begin; index < end; ++index, at.next(problem_.kv_heads, 1)) {
          run_group(worker, sums, at, nullptr);
        }
      });
    }
    if (bias_ && !biased) bias_->run_in_own_pass();
    if (bias_) bias_->finish();
  }

  // Threads share a group's tiles: where there are too few groups for them.
  void by_tile() const {
    const GradientSums sums(problem_, groups());
    InOrder order(groups() * tiles_.count(), groups() * TileTurns::blocks(problem_));
    std::vector<std::atomic<int64_t>> taken(static_cast<size_t>(groups()));  // tiles of each group
    std::atomic<int64_t> started = 0;
    const bool biased = bias_ && bias_->in_pass() && !bias_->shared();
    order.run([&] {
      BackwardWorker worker(call_);
      TileTurns turns(call_, sums, order, tiles_.count());
      // A thread stays with a group as long as there are tiles left in it, because it has prepared the group's keys.
      const int64_t first = started.fetch_add(1) * groups() / num_threads();
      for (int64_t n = 0; n < groups(); ++n) {
        const int64_t group = (first + n) % groups();
        std::atomic<int64_t>& next = taken[static_cast<size_t>(group)];
        for (int64_t tile = next.fetch_add(1); tile < tiles_.count(); tile = next.fetch_add(1)) {
          turns.enter(group, tile);
          run_tile(worker, turns, Task(group, problem_.kv_heads, 1), tiles_.nth(tile), biased);
        }
      }
    });
    if (bias_ && !biased) bias_->run_in_own_pass();
    if (bias_) bias_->finish();
  }

  // Whether whole groups leave no thread idle for long, or there is too little work to share. Where threads share
  // tiles, `sums` and a bias that heads share take a pass of their own, so that everything takes 1.4 times as long.
  [[nodiscard]] bool groups_suffice(bool sums) const {
    const int64_t threads = num_threads(), rounds = (groups() + threads - 1) / threads;
    const int64_t most = sums || (bias_ && bias_->in_pass() && bias_->shared()) ? 14 : 11;  // tenths of an even share
    return threads == 1 || rounds * threads * 10 <= groups() * most || problem_.keys * problem_.queries < 4096;
  }
  [[nodiscard]] int64_t groups() const { return problem_.batch * problem_.kv_heads; }

 private:
  struct HeadSums {
    const SharedSums* sums;
    double* memory;
  };

  // The head of a tile that lies in one head.
  [[nodiscard]] int64_t head_of(const Task& at, int64_t tile) const {
    return at.kv_head * heads_ + tile / tiles_a_head_;
  }
  void enter(BackwardWorker& worker, const Task& at) const { worker.enter(at.b, at.kv_head * heads_, heads_); }
  void want_query(BackwardWorker& worker, const Task& at) const {
    worker.want_query(result_.query);
    if (call_.d_sinks.defined()) worker.gradients.d_sink = strided<float>(call_.d_sinks, at.b, at.kv_head * heads_);
  }

  // Prefetches what is written after the tiles of a group, and what the next group reads.
  void prefetch_next_group(BackwardWorker& worker, Task at) const {
    const int64_t blocks = (problem_.keys + kernels::kBlockKeys - 1) / kernels::kBlockKeys;
    worker.prefetch.enter(problem_, problem_.size + problem_.value_size, tiles_.count(),
                          problem_.keys / 2 + blocks * problem_.size / 8);
    if (call_.query.dtype() == DType::f32) {
      for (const Tensor* tensor : {&call_.query, &call_.d_output, &call_.result.output}) {
        worker.prefetch.read(strided<const float>(*tensor, at.b, at.kv_head * heads_), tensor->shape()[3]);
      }
    }
    if (!worker.prefetch.short_group() || call_.memory.key.dtype() != DType::f32) return;
    const auto after = [&](const Tensor& tensor, int64_t h) {
      worker.prefetch.after(strided<const float>(tensor, at.b, h), tensor.shape()[2], tensor.shape()[3]);
    };
    after(result_.key, at.kv_head);
    after(result_.value, at.kv_head);
    at.next(problem_.kv_heads, 1);
    if (at.b == problem_.batch) return;
    after(call_.memory.key, at.kv_head);
    after(call_.memory.value, at.kv_head);
    after(call_.query, at.kv_head * heads_);
    after(call_.d_output, at.kv_head * heads_);
    after(call_.result.output, at.kv_head * heads_);
  }

  void run_group(BackwardWorker& worker, const GradientSums& sums, const Task& at, InOrder* order) const {
    enter(worker, at);
    want_query(worker, at);
    const GradientRows d_key(result_.key, at.b, at.kv_head, 0, problem_.keys, sums.key.data());
    const GradientRows d_value(result_.value, at.b, at.kv_head, 0, problem_.keys, sums.value.data());
    d_key.clear();
    d_value.clear();
    TileGradients& gradients = worker.gradients;
    gradients.d_key = sums.key.data();
    gradients.d_value = sums.value.data();
    gradients.key_end = problem_.keys;
    prefetch_next_group(worker, at);
    for (int64_t n = 0; n < tiles_.count(); ++n) {
      const int64_t tile = tiles_.nth(n);
      const RowRange next = n + 1 < tiles_.count() ? tiles_[tiles_.nth(n + 1)] : RowRange{0, 0};
      const auto run = [&] { worker.run(n, tiles_[tile], next); };
      for (const HeadSums& head : head_sums_) {
        head.sums->point_to(gradients, head.memory, problem_, at.b, head_of(at, tile));
      }
      if (bias_ && bias_->in_pass()) {
        bias_->run(worker, at.b, head_of(at, tile), tile % tiles_a_head_, order, run);
      } else {
        run();
      }
    }
    d_key.write();
    d_value.write();
  }

  void run_tile(BackwardWorker& worker, TileTurns& turns, const Task& at, int64_t tile, bool biased) const {
    enter(worker, at);
    want_query(worker, at);
    TileGradients& gradients = worker.gradients;
    gradients.d_key = turns.d_key();
    gradients.d_value = turns.d_value();
    gradients.key_end = problem_.keys;
    gradients.turns = &turns;
    const auto run = [&] { worker.run(tiles_[tile]); };
    if (biased) {
      bias_->run(worker, at.b, head_of(at, tile), tile % tiles_a_head_, nullptr, run);
    } else {
      run();
    }
  }

  const BackwardCall& call_;
  const AttentionProblem& problem_;
  const AttentionGradients& result_;
  Tiling tiles_;
  int64_t heads_;  // of a group
  int64_t tiles_a_head_;
  std::optional<BiasGradient> bias_;
  std::vector<HeadSums> head_sums_;
};

}  // namespace

void run_backward(std::span<const BackwardCall> calls, const AttentionGradients& shared) {
  std::vector<SharedSums> sums;
  if (!calls.empty()) {
    const AttentionProblem& any = calls[0].problem;
    const auto add = [&](const Tensor& result, int64_t stage, int64_t entries) {
      if (result.defined()) sums.emplace_back(calls, result, stage, entries);
    };
    add(shared.additive_weight, SharedSums::kAdditive, any.size);
    if (shared.alibi_slopes.defined()) add(shared.alibi_slopes, any.stage_of_alibi(), shared.alibi_slopes.numel());
    if (shared.score_table.defined()) add(shared.score_table, any.stage_of_score(), shared.score_table.numel());
  }
  const int64_t threads = num_threads(), count = static_cast<int64_t>(calls.size());
  if (count >= 4 * threads) {  // enough sequences to keep the threads busy
    std::vector<BackwardPass> passes;
    passes.reserve(calls.size());
    for (const BackwardCall& call : calls) passes.emplace_back(call).make_sums(sums);
    parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) passes[static_cast<size_t>(n)].by_group();
    });
  } else {
    for (const BackwardCall& call : calls) {
      BackwardPass pass(call);
      if (pass.groups_suffice(!sums.empty())) {
        pass.make_sums(sums);
        pass.by_group();
      } else {
        pass.by_tile();
      }
    }
  }
  for (const SharedSums& sum : sums) sum.finish();
}

void round_sums(std::span<const double> sums, float* to) {
  for (const double sum : sums) *to++ = sum == sum ? static_cast<float>(sum) : std::numeric_limits<float>::quiet_NaN();
}

Tensor sum_sinks(const Tensor& d_sinks) {
  const Tensor sums = Tensor::empty({d_sinks.size(1)});
  for (int64_t h = 0; h < sums.size(0); ++h) {
    double sum = 0;
    for (int64_t b = 0; b < d_sinks.size(0); ++b) {
      const float* const rows = strided<float>(d_sinks, b, h).data;
      for (int64_t i = 0; i < d_sinks.size(2); ++i) sum += static_cast<double>(rows[i]);
    }
    round_sums({&sum, 1}, sums.data<float>() + h);
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
  result.query = empty_rows(query.shape(), query.dtype());
  result.key = empty_rows(key.shape(), key.dtype());
  result.value = empty_rows(value.shape(), value.dtype());
  if (want.bias) result.bias = Tensor::zeros(problem.options.bias.shape());
  if (want.alibi_slopes) result.alibi_slopes = Tensor::zeros(problem.options.alibi_slopes.shape());
  if (problem.additive.defined()) {  // expanded from (D): one for all heads
    const int64_t own = problem.additive.stride(0) == 0 ? 1 : problem.heads;
    result.additive_weight = Tensor::zeros({own, problem.size});
  }
  if (want.score_table) result.score_table = Tensor::zeros(problem.options.score.table().shape());
  const kernels::Engine& engine = backward_engine(problem, dtype == DType::bf16);
  BackwardCall call{{problem, query, {key, value}, &engine, forward}, d_output, result, {}};
  if (problem.options.sinks.defined()) call.d_sinks = Tensor::empty({problem.batch, problem.heads, problem.queries});
  {
    Explain explain(function, 2.5);
    explain.add(call);
    run_backward({&call, 1}, result);
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
