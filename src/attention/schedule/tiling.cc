#include "attention/schedule/tiling.h"

#include <algorithm>

namespace heed {

using kernels::kStripe, kernels::kTileQueries;

Tiling::Tiling(int64_t heads, int64_t queries)
    : segments_(queries < kTileQueries ? 1 : heads),
      segment_rows_(queries < kTileQueries ? heads * queries : queries),
      per_segment_((segment_rows_ + kTileQueries - 1) / kTileQueries) {}

RowRange Tiling::operator[](int64_t tile) const {
  if (per_segment_ == 1) return {tile * segment_rows_, segment_rows_};
  const int64_t index = tile % per_segment_, segment = tile / per_segment_ * segment_rows_;
  const int64_t start = index * kTileQueries, left = segment_rows_ - start;
  // Sixteen rows alone keep the multiply-adds only 70 % busy: the last 49 to 64 rows are cut at 32 instead of 48.
  const int64_t tail = segment_rows_ % kTileQueries;
  if (tail > 0 && tail <= kStripe) {
    if (index == per_segment_ - 2) return {segment + start, 2 * kStripe};
    if (index == per_segment_ - 1) return {segment + start - kStripe, left + kStripe};
  }
  return {segment + start, std::min(kTileQueries, left)};
}

}  // namespace heed
