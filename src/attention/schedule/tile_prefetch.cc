#include "attention/schedule/tile_prefetch.h"

#include <algorithm>

namespace heed {

void TilePrefetch::enter(const AttentionProblem& p, int64_t columns, int64_t tiles, int64_t calls) {
  tiles_ = tiles, calls_ = calls;
  after_count_ = read_count_ = 0;
  // From 12 MB on operands are in memory, not in a cache. A prefetch takes 2 ns a line, which short sequences in the
  // cache would notice: 16 rows (D = 32) by a quarter.
  on_ = p.batch * (p.heads * p.queries + p.kv_heads * p.keys) * columns >= int64_t{3} << 20;
  short_ = on_ && (p.group() * p.queries + p.keys) * columns <= int64_t{1} << 16;  // 256 KB
}

void TilePrefetch::after(const kernels::StridedRows<const float>& rows, int64_t count, int64_t columns) {
  if (rows.data == nullptr || rows.column != 1 || after_count_ == kMost) return;
  after_[after_count_++] = {rows, columns, count, tiles_ == 1 ? count : (count + tiles_ - 1) / tiles_};
}

void TilePrefetch::read(const kernels::StridedRows<const float>& rows, int64_t columns) {
  if (!on_ || short_ || rows.data == nullptr || rows.column != 1 || read_count_ == kMostRead) return;
  read_[read_count_++] = {rows, columns, 0, 0};
}

void TilePrefetch::add(const kernels::StridedRows<const float>& operand, int64_t columns, int64_t queries,
                       RowRange rows) {
  int64_t head = 0, query = rows.first;
  if (query >= queries) head = query / queries, query %= queries;
  for (int64_t left = rows.count; left > 0; ++head) {
    const int64_t count = std::min(left, queries - query);
    prefetch_.add(operand.at(head, query), operand.row, columns, count);
    left -= count, query = 0;
  }
}

kernels::Prefetch* TilePrefetch::tile(int64_t n, const kernels::StridedRows<float>& output, int64_t columns,
                                      int64_t queries, RowRange rows, RowRange next) {
  if (!on_) return nullptr;
  prefetch_.clear();
  add(output, columns, queries, rows);
  for (int at = 0; at < read_count_; ++at) add(read_[at].rows, read_[at].columns, queries, next);
  for (int at = 0; at < after_count_; ++at) {
    const Operand& operand = after_[at];
    const int64_t first = n * operand.share;
    if (first >= operand.count) continue;
    prefetch_.add(operand.rows.at(0, first), operand.rows.row, operand.columns,
                  std::min(operand.share, operand.count - first));
  }
  prefetch_.spread(calls_);
  return &prefetch_;
}

}  // namespace heed
