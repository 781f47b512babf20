// Shards: the parts of an update's batch whose gradients are computed alone, and the one order in which they are added.
//
// How a batch is cut, and the tree of the sum, depend on the number of shards in the recipe. Which process computes a
// shard does not matter, so any number of processes up to the number of shards gives the same bits.
#pragma once

#include <cstdint>
#include <vector>

#include "train/data.h"

namespace heed::train {

// Shard s of `shards`: the rows from B s / shards to B (s + 1) / shards of a batch of B rows, without columns that are
// padding in all of them. Where there are fewer rows than shards, some shards have none.
[[nodiscard]] Batch shard_of(const Batch& batch, int64_t s, int64_t shards);

// The shards [begin, end) of a rank.
struct ShardRange {
  int64_t begin = 0, end = 0;
  [[nodiscard]] int64_t count() const { return end - begin; }
};
[[nodiscard]] ShardRange shards_of(int64_t rank, int64_t ranks, int64_t shards);

// A node of the tree of sums. At level 0 node i is shard i. At each level nodes 2i and 2i + 1 are added to node i of
// the next one; where the number of nodes is odd, the last one goes up as it is. So node (level, i) is the sum of the
// shards from i 2^level up to, but not including, (i + 1) 2^level, as far as there are any.
struct SumNode {
  int level = 0;
  int64_t index = 0;
  friend bool operator==(const SumNode&, const SumNode&) = default;
};

// Adds up nodes that come in the order of their shards, keeping as few sums as the tree allows: at most log2(shards) +
// 1 where all shards come one by one. `T` is whatever stands for a sum; add(left, right) adds right into left.
template <class T>
class SumTree {
 public:
  explicit SumTree(int64_t shards) : shards_(shards) {}

  template <class Add>
  void push(SumNode node, T value, const Add& add) {
    stack_.push_back({node, std::move(value)});
    while (rise() || (joins() && (join(add), true))) {
    }
  }
  // How many additions pushing `node` would make.
  [[nodiscard]] int additions(SumNode node) const {
    SumTree<Nothing> trial(shards_);
    for (const Entry& entry : stack_) trial.place(entry.node);
    int count = 0;
    trial.push(node, {}, [&](const Nothing&, const Nothing&) { ++count; });
    return count;
  }
  void clear() { stack_.clear(); }

  struct Entry {
    SumNode node;
    T value;
  };
  [[nodiscard]] const std::vector<Entry>& entries() const { return stack_; }

 private:
  template <class U>
  friend class SumTree;
  struct Nothing {};

  void place(SumNode node) { stack_.push_back({node, {}}); }
  [[nodiscard]] int64_t nodes_at(int level) const { return (shards_ + (int64_t{1} << level) - 1) >> level; }
  // The last node of an odd number goes up a level.
  bool rise() {
    SumNode& top = stack_.back().node;
    const bool alone = top.index % 2 == 0 && top.index + 1 == nodes_at(top.level);
    if (!alone || top.index == 0) return false;
    ++top.level;
    top.index /= 2;
    return true;
  }
  [[nodiscard]] bool joins() const {
    if (stack_.size() < 2) return false;
    const SumNode& left = stack_[stack_.size() - 2].node;
    const SumNode& right = stack_.back().node;
    return left.level == right.level && left.index % 2 == 0 && left.index + 1 == right.index;
  }
  template <class Add>
  void join(const Add& add) {
    Entry& left = stack_[stack_.size() - 2];
    add(left.value, stack_.back().value);
    ++left.node.level;
    left.node.index /= 2;
    stack_.pop_back();
  }

  int64_t shards_;
  std::vector<Entry> stack_;
};

// The nodes that a rank with these shards ends with: the sums it sends to others.
[[nodiscard]] std::vector<SumNode> nodes_of(ShardRange range, int64_t shards);

// The sum of one number a shard, along the tree.
[[nodiscard]] double tree_sum(const std::vector<double>& numbers);

}  // namespace heed::train
