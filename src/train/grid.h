// Which shards, and which parts of their sequences, each rank computes the gradients of.
//
// Ranks are cells of a grid: rank = row * context_ranks + column. The ranks of a row share the sequences of the same
// shards, one part each; with one column each rank has all parts of its shards, and computes them side by side. Whose
// cell a gradient comes from does not change it: parts and shards are the recipe's.
#pragma once

#include <cstdint>
#include <vector>

#include "heed/train.h"
#include "train/shards.h"

namespace heed::train {

class Grid {
 public:
  // `context_ranks`: recipe.context_parallel or 1; 0: recipe.context_parallel where the number of ranks is a multiple
  // of it, else 1. Throws Error for a number of ranks that does not fit.
  Grid(const Recipe& recipe, int ranks, int context_ranks);

  [[nodiscard]] int64_t shards() const { return shards_; }
  [[nodiscard]] int parts() const { return parts_; }
  [[nodiscard]] bool shares_sequences() const { return columns_ > 1; }
  [[nodiscard]] int rows() const { return ranks_ / columns_; }

  [[nodiscard]] ShardRange shards_of(int rank) const { return train::shards_of(rank / columns_, rows(), shards_); }
  // The parts that a rank computes: one, or all.
  [[nodiscard]] std::vector<int> parts_of(int rank) const;
  // The ranks of a rank's row, in the order of their parts.
  [[nodiscard]] std::vector<int> row_of(int rank) const;

  // The gradient of part p of shard s is leaf p * shards + s of the tree of sums: so what a rank has of one part is one
  // range, and is added up there.
  [[nodiscard]] int64_t leaves() const { return shards_ * parts_; }
  [[nodiscard]] int64_t leaf(int64_t shard, int part) const { return part * shards_ + shard; }
  [[nodiscard]] std::vector<ShardRange> leaves_of(int rank) const;  // one range a part, ascending

 private:
  int64_t shards_;
  int parts_;
  int ranks_, columns_;
};

}  // namespace heed::train
