// Gradients to which rows of several heads add, or all rows of one: of a bias, of tables of score functions, of the
// weights of additive scores. They are added up in the pass that computes the others, where the order can be kept;
// otherwise in passes of their own, which compute the scores once more. The bits are the same.
#pragma once

#include <span>
#include <vector>

#include "attention/backward/worker.h"
#include "base/threads.h"

namespace heed {

// The gradient of the bias: that of the scores, summed over what the bias was broadcast to, in the order b, h, i, j.
class BiasGradient {
 public:
  explicit BiasGradient(const BackwardCall& call);  // of a call that wants it

  // Whether rows can be added in the pass over tiles: they are not summed themselves, and each tile is one head's.
  [[nodiscard]] bool in_pass() const { return in_pass_; }
  // Whether heads share it, so that their rows must come in order; if not, `order` below is null.
  [[nodiscard]] bool shared() const { return sharers_ > 1; }
  // Where tiles wait for each other: one for each tile of the rows of the bias.
  [[nodiscard]] int64_t places() const { return own_batch_ * own_heads_ * tiles_.count(); }

  // Runs the worker, which has entered sequence b, for a tile of head h, tile number `tile` of its head, and adds what
  // comes out of it.
  void run(BackwardWorker& worker, int64_t b, int64_t h, int64_t tile, InOrder* order, const auto& run_tile) const {
    const int64_t before = turns(b, h), place = own(b, h) * tiles_.count() + tile;
    const RowTiles::Rows rows = tiles_[tile];
    float* const table = table_of(b, h) + rows.first * problem_.keys;
    if (order == nullptr || before == 0) {  // alone or the first: straight to where it belongs
      worker.gradients.d_scores = {table, 0, problem_.keys, 1};
      run_tile();
    } else {
      if (worker.d_scores.size() == 0) worker.d_scores = Buffer<float>(kernels::kTileRows * problem_.keys);
      worker.gradients.d_scores = {worker.d_scores.data(), 0, problem_.keys, 1};
      run_tile();
      order->wait(place, before);
      for (int64_t n = 0; n < rows.count * problem_.keys; ++n) table[n] += worker.d_scores.data()[n];
    }
    if (order != nullptr) order->pass(place);
  }

  // All of it in a pass of its own.
  void run_apart() const;
  // One NaN for all.
  void finish() const;

 private:
  // How many (b, h) come before this one in its part of the bias, and which part that is.
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
  RowTiles tiles_;  // of a head
};

// Sums over pairs, in double precision: entries of the table of a stage that scores go through, or weights of additive
// scores. Each (b, h) adds up its own, then these follow each other into the total. Where that would take too much
// memory, each h adds up all of its own: the order depends on the shape alone.
class SharedSums {
 public:
  static constexpr int64_t kAdditive = -1;  // in place of a stage

  // For `result`, which all calls share. Of it a head adds to so many entries: to all of them, or to those of its own.
  SharedSums(std::span<const BackwardCall> calls, const Tensor& result, int64_t stage, int64_t entries);

  [[nodiscard]] bool additive() const { return stage_ == kAdditive; }
  // Room for what the heads of a call add up; null where they cannot do so side by side with the other gradients.
  [[nodiscard]] double* room(const BackwardCall& call);
  // Head h of sequence b adds to its part of it from now on.
  void aim(kernels::AttentionBackward& gradients, double* room, const AttentionProblem& p, int64_t b, int64_t h) const {
    double* const sums = room + (b * p.heads + h) * entries_;
    if (additive()) {
      gradients.d_additive = sums;
    } else {
      gradients.d_table = sums;
      gradients.table_stage = stage_;
    }
  }
  // The total of all calls, rounded once. What has had no room is computed in a pass of its own.
  void finish() const;

 private:
  [[nodiscard]] bool by_sequence(const AttentionProblem& problem) const;
  [[nodiscard]] int64_t heads_of(const BackwardCall& call) const;
  void run_apart(const BackwardCall& call, const Buffer<double>& sums) const;

  std::span<const BackwardCall> calls_;
  const Tensor& result_;
  int64_t stage_, entries_;
  std::vector<Buffer<double>> rooms_;  // of every call
};

}  // namespace heed
