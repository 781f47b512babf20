// What the tiles of a group prefetch while they multiply.
#pragma once

#include "attention/schedule/tiling.h"
#include "kernels/attention/tile/prefetch.h"

namespace heed {

// A tile prefetches the rows that it writes in the end, the rows that the next tile reads, and its share of the rows
// that are needed after the group.
class TilePrefetch {
 public:
  // Before the tiles of a group of the problem, each of which issues prefetches about `calls` times. A row of all
  // operands together has `columns` words of four bytes.
  void enter(const AttentionProblem& problem, int64_t columns, int64_t tiles, int64_t calls);
  // Whether after() pays: the group is so short that the next group's rows fit the cache beside its own.
  [[nodiscard]] bool short_group() const { return short_; }
  // `count` rows that are needed after the group.
  void after(const kernels::StridedRows<const float>& rows, int64_t count, int64_t columns);
  // Every tile reads its rows of these, unless the group is short: then they came with after().
  void read(const kernels::StridedRows<const float>& rows, int64_t columns);
  // The n-th tile, of heads of `queries` rows; the rows that it writes; and the rows of the tile after it. Null where
  // nothing is to be prefetched.
  [[nodiscard]] kernels::Prefetch* tile(int64_t n, const kernels::StridedRows<float>& output, int64_t columns,
                                        int64_t queries, RowRange rows, RowRange next);

 private:
  struct Operand {
    kernels::StridedRows<const float> rows;
    int64_t columns, count, share;  // count and share: of after() only
  };
  static constexpr int kMost = 8, kMostRead = 3;
  void add(const kernels::StridedRows<const float>& operand, int64_t columns, int64_t queries, RowRange rows);

  kernels::Prefetch prefetch_;
  Operand after_[kMost];
  Operand read_[kMostRead];
  int after_count_ = 0, read_count_ = 0;
  bool on_ = false, short_ = false;
  int64_t tiles_ = 1, calls_ = 1;
};

}  // namespace heed
