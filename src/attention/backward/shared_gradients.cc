#include "attention/backward/shared_gradients.h"

#include "attention/backward/backward.h"

namespace heed {
namespace {

constexpr int64_t kBiasKeysPerTask = 256;        // keys of a task that adds up a bias
constexpr int64_t kMostSums = int64_t{1} << 22;  // 32 MB

}  // namespace

BiasGradient::BiasGradient(const BackwardCall& call)
    : call_(call),
      problem_(call.problem),
      d_bias_(call.gradients.bias),
      data_(d_bias_.data<float>()),
      tiles_(1, call.problem.queries) {
  const auto extent = [&](int axis) { return axis + d_bias_.rank() < 4 ? 1 : d_bias_.size(axis - 4); };
  own_batch_ = extent(0), own_heads_ = extent(1), own_size_ = extent(2) * extent(3);
  own_rows_ = extent(2) != 1, own_keys_ = extent(3) != 1;
  const int64_t all = problem_.batch * problem_.heads, own = own_batch_ * own_heads_;
  sharers_ = own == 0 ? 0 : all / own;
  in_pass_ = own_size_ == problem_.queries * problem_.keys && all > 0 && Tiling::in_one_head(problem_);
}

// A task is what is summed independently of the rest: one (b, h), one tile of rows or one range of keys of the bias.
void BiasGradient::run_in_own_pass() const {
  if (d_bias_.numel() == 0) return;
  const int64_t columns = own_keys_ ? problem_.keys : 1;
  const int64_t row_tasks = own_rows_ ? tiles_.count() : 1;
  const int64_t key_tasks = own_keys_ ? (problem_.keys + kBiasKeysPerTask - 1) / kBiasKeysPerTask : 1;
  parallel_for(own_batch_ * own_heads_ * row_tasks * key_tasks, 1, [&](int64_t begin, int64_t end) {
    BackwardWorker worker(call_);
    const Buffer<float> d_scores(kernels::kTileQueries *
                                 std::max<int64_t>(1, own_keys_ ? kBiasKeysPerTask : problem_.keys));
    for (int64_t task = begin; task < end; ++task) {
      const int64_t key_first = task % key_tasks * kBiasKeysPerTask, row_task = task / key_tasks % row_tasks;
      const int64_t key_last = own_keys_ ? std::min(key_first + kBiasKeysPerTask, problem_.keys) : problem_.keys;
      const int64_t own = task / key_tasks / row_tasks, own_b = own / own_heads_, own_h = own % own_heads_;
      float* const table = data_ + own * own_size_;  // (L or 1, S or 1)
      for (int64_t b = own_batch_ == 1 ? 0 : own_b; b < (own_batch_ == 1 ? problem_.batch : own_b + 1); ++b) {
        for (int64_t h = own_heads_ == 1 ? 0 : own_h; h < (own_heads_ == 1 ? problem_.heads : own_h + 1); ++h) {
          worker.enter(b, h, 1);
          worker.gradients.d_scores = {d_scores.data(), 0, key_last - key_first, 1};
          worker.gradients.key_begin = key_first;
          worker.gradients.key_end = key_last;
          for (int64_t t = own_rows_ ? row_task : 0; t < (own_rows_ ? row_task + 1 : tiles_.count()); ++t) {
            const RowRange rows = tiles_[t];
            worker.run(rows);
            for (int64_t r = 0; r < rows.count; ++r) {
              float* const row = table + (own_rows_ ? rows.first + r : 0) * columns;
              const float* const from = d_scores.data() + r * (key_last - key_first);
              for (int64_t j = key_first; j < key_last; ++j) row[own_keys_ ? j : 0] += from[j - key_first];
            }
          }
        }
      }
    }
  });
}

void BiasGradient::finish() const {
  constexpr int64_t kPart = 1 << 14;
  parallel_for(d_bias_.numel(), kPart,
               [&](int64_t begin, int64_t end) { kernels::make_canonical(data_ + begin, end - begin); });
}

SharedSums::SharedSums(std::span<const BackwardCall> calls, const Tensor& result, int64_t stage, int64_t entries)
    : calls_(calls), result_(result), stage_(stage), entries_(entries), sums_of_call_(calls.size()) {}

bool SharedSums::by_sequence(const AttentionProblem& problem) const {
  return problem.batch * problem.heads * entries_ <= kMostSums;
}

int64_t SharedSums::heads_of(const BackwardCall& call) const {
  return by_sequence(call.problem) ? call.problem.batch * call.problem.heads : call.problem.heads;
}

double* SharedSums::memory_for(const BackwardCall& call) {
  const AttentionProblem& p = call.problem;
  const int64_t count = p.batch * p.heads * entries_;
  if (!Tiling::in_one_head(p) || count * static_cast<int64_t>(calls_.size()) > kMostSums) return nullptr;
  Buffer<double>& memory = sums_of_call_[static_cast<size_t>(&call - calls_.data())];
  memory = Buffer<double>(count);
  std::fill_n(memory.data(), count, 0.0);
  return memory.data();
}

void SharedSums::run_in_own_pass(const BackwardCall& call, const Buffer<double>& sums) const {
  const AttentionProblem& problem = call.problem;
  const Tiling tiles(1, problem.queries);
  parallel_for(heads_of(call), 1, [&](int64_t begin, int64_t end) {
    BackwardWorker worker(call);
    for (int64_t task = begin; task < end; ++task) {
      std::fill_n(sums.data() + task * entries_, entries_, 0.0);
      const int64_t own_b = task / problem.heads, h = task % problem.heads;
      const bool all = !by_sequence(problem);
      for (int64_t b = all ? 0 : own_b; b < (all ? problem.batch : own_b + 1); ++b) {
        worker.enter(b, h, 1);
        point_to(worker.gradients, sums.data(), problem, all ? 0 : b, h);
        worker.gradients.key_end = problem.keys;
        for (int64_t t = 0; t < tiles.count(); ++t) worker.run(tiles[t]);
      }
    }
  });
}

void SharedSums::finish() const {
  const int64_t count = result_.numel();
  std::vector<double> totals(static_cast<size_t>(count), 0.0);
  for (const BackwardCall& call : calls_) {
    const Buffer<double>& memory = sums_of_call_[static_cast<size_t>(&call - calls_.data())];
    const int64_t heads = heads_of(call);
    Buffer<double> own;
    if (memory.size() == 0) {
      own = Buffer<double>(heads * entries_);
      run_in_own_pass(call, own);
    }
    const double* const sums = memory.size() == 0 ? own.data() : memory.data();
    const int64_t own_heads = count == entries_ ? 1 : call.problem.heads;
    for (int64_t n = 0; n < count; ++n) {
      double& total = totals[static_cast<size_t>(n)];
      for (int64_t head = n / entries_; head < heads; head += own_heads) total += sums[head * entries_ + n % entries_];
    }
  }
  round_sums(totals, result_.data<float>());
}

}  // namespace heed
