// Gradients that several heads, or all rows of a head, share: of a bias, of the tables of score functions, of the
// weights of additive scores. Where the order of the additions can be kept, they are added up in the pass that computes
// the other gradients. Elsewhere a pass of their own computes the scores once more. The bits are the same.
#pragma once

#include <span>
#include <vector>

#include "attention/schedule/backward_worker.h"
#include "base/threads.h"

namespace heed {

// The bias gradient is the sum of the score gradients over the pairs that share an element, in the order b, h, i, j.
class BiasGradient {
 public:
  explicit BiasGradient(const BackwardCall& call);  // of a call that wants it

  // Whether rows can be added in the pass over tiles: the bias has a row for each of them, and each tile lies in one
  // head.
  [[nodiscard]] bool in_pass() const { return in_pass_; }
  // Whether heads share the bias, so that their rows must come in order; if not, `order` below is null.
  [[nodiscard]] bool shared() const { return sharers_ > 1; }
  // The places where tiles wait for each other: one for each tile of the rows of the bias.
  [[nodiscard]] int64_t places() const { return own_batch_ * own_heads_ * tiles_.count(); }

  // Calls run_tile() for tile number `tile` of head h, in sequence b that the worker has entered, and adds the
  // gradients of its scores.
  void run(BackwardWorker& worker, int64_t b, int64_t h, int64_t tile, InOrder* order, const auto& run_tile) const {
    const int64_t before = turns(b, h), place = own(b, h) * tiles_.count() + tile;
    const RowRange rows = tiles_[tile];
    float* const table = table_of(b, h) + rows.first * problem_.keys;
    if (order == nullptr || before == 0) {  // alone, or the first: written where it belongs
      worker.gradients.d_scores = {table, 0, problem_.keys, 1};
      run_tile();
    } else {
      if (worker.d_scores.size() == 0) worker.d_scores = Buffer<float>(kernels::kTileQueries * problem_.keys);
      worker.gradients.d_scores = {worker.d_scores.data(), 0, problem_.keys, 1};
      run_tile();
      order->wait(place, before);
      for (int64_t n = 0; n < rows.count * problem_.keys; ++n) table[n] += worker.d_scores.data()[n];
    }
    if (order != nullptr) order->pass(place);
  }

  // Computes all of it in a pass of its own.
  void run_in_own_pass() const;
  // Brings the sums into canonical form.
  void finish() const;

 private:
  // How many (b, h) come before this one in its part of the bias, and the number of that part.
  [[nodiscard]] int64_t turns(int64_t b, int64_t h) const {
    return own_batch_ == 1 ? (own_heads_ == 1 ? b * problem_.heads + h : b) : (own_heads_ == 1 ? h : 0);
  }
  [[nodiscard]] int64_t own(int64_t b, int64_t h) const {
    return (own_batch_ == 1 ? 0 : b) * own_heads_ + (own_heads_ == 1 ? 0 : h);
  }
  [[nodiscard]] float* table_of(int64_t b, int64_t h) const { return data_ + own(b, h) * own_size_; }

  const BackwardCall& call_;
  const AttentionProblem& problem_;
  const Tensor& d_bias_;
  float* data_;
  int64_t own_batch_, own_heads_, own_size_, sharers_;
  bool own_rows_, own_keys_, in_pass_;
  Tiling tiles_;  // of a head
};

// Sums over pairs, in double precision: of the table of a score function, or of the weights of additive scores. Each
// (b, h) adds up its own pairs, and these sums are added to the total in order. Where that would take too much memory,
// each h adds up the pairs of all sequences. The order depends on the shape alone.
class SharedSums {
 public:
  static constexpr int64_t kAdditive = -1;  // in place of a stage

  // For `result`, which all calls share. A head adds to `entries` of its entries: all of them, or its own.
  SharedSums(std::span<const BackwardCall> calls, const Tensor& result, int64_t stage, int64_t entries);

  [[nodiscard]] bool additive() const { return stage_ == kAdditive; }
  // Memory for the sums of the heads of a call; null where they cannot be made together with the other gradients.
  [[nodiscard]] double* memory_for(const BackwardCall& call);
  // From now on the kernels add to the part of head h of sequence b.
  void point_to(kernels::TileGradients& gradients, double* memory, const AttentionProblem& p, int64_t b,
                int64_t h) const {
    double* const sums = memory + (b * p.heads + h) * entries_;
    if (additive()) {
      gradients.d_additive = sums;
    } else {
      gradients.d_table = sums;
      gradients.table_stage = stage_;
    }
  }
  // The total of all calls, rounded once. Calls that had no memory are computed in a pass of their own.
  void finish() const;

 private:
  [[nodiscard]] bool by_sequence(const AttentionProblem& problem) const;
  [[nodiscard]] int64_t heads_of(const BackwardCall& call) const;
  void run_in_own_pass(const BackwardCall& call, const Buffer<double>& sums) const;

  std::span<const BackwardCall> calls_;
  const Tensor& result_;
  int64_t stage_, entries_;
  std::vector<Buffer<double>> sums_of_call_;  // of every call
};

}  // namespace heed
