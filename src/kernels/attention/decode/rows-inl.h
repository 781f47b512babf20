// Rows of keys and values in the order in which decoding reads them, and the rows to prefetch meanwhile.
#if defined(HEED_KERNELS_ATTENTION_DECODE_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_DECODE_ROWS_INL_H_
#undef HEED_KERNELS_ATTENTION_DECODE_ROWS_INL_H_
#else
#define HEED_KERNELS_ATTENTION_DECODE_ROWS_INL_H_
#endif

#include <algorithm>

#include "kernels/attention/tile/scores-inl.h"
#include "kernels/attention/tile/stored-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

using kernels::kDecodeRows;

// kLanes rows of keys or values, of any element type. Transposing two such vectors together would load a query's
// numbers once for both. That is a tenth faster from the cache, but up to 40 % slower from memory (Zen 4).
struct RowVector {
  const float* row[kLanes];
#if HWY_TARGET == HWY_SCALAR  // where GCC 12 warns that it may be used before it is set
  float scale[kLanes] = {};
#else
  HWY_ALIGN float scale[kLanes];  // of int8
#endif
};

// Rows [first, end), kLanes at a time. After them come the rows of `next` from its first one on; without `next` the
// last row is repeated.
class RowVectorReader {
 public:
  RowVectorReader(const StoredRows& rows, int64_t first, int64_t end, const StoredRows* next)
      : reader_(rows, std::min(first, end - 1)), left_(std::max<int64_t>(1, end - first)), next_(next) {
    if (first >= end) continue_with_next(first - end);
  }

  void read(RowVector& to) { read(to.row, to.scale); }
  // Without the scales, which rows that are only prefetched may not have.
  void read(const float** rows) { read(rows, nullptr); }

 private:
  void read(const float** rows, float* scales) {
    if (left_ > kLanes && reader_.rows_in_page() > kLanes) {
      reader_.read(kLanes, rows, scales);
      left_ -= kLanes;
      return;
    }
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      rows[lane] = reinterpret_cast<const float*>(reader_.row());
      if (scales != nullptr) scales[lane] = reader_.scale();
      if (left_ > 1) {
        reader_.advance();
        --left_;
      } else {
        continue_with_next(0);
      }
    }
  }
  void continue_with_next(int64_t first) {
    if (next_ == nullptr) return;
    reader_ = StoredRowReader(*next_, first);
    left_ = std::numeric_limits<int64_t>::max();
    next_ = nullptr;
  }

  StoredRowReader reader_;
  int64_t left_;  // this row included
  const StoredRows* next_;
};

// Prefetches a vector of rows into the second cache, a few lines at a time and in the order in which they lie. The
// scores read a vector of rows column by column. In that order Zen 4 reads memory at 7 GB/s, in the rows' own order at
// 18 (into the first cache at 13): its own prefetcher follows only a few rows at once.
class RowPrefetch {
 public:
  // `lines`: whole cache lines of a row to prefetch; the others come with their neighbours.
  RowPrefetch(const float* const* rows, int64_t lines)
      : row_(rows), end_(rows + kLanes), at_(reinterpret_cast<const char*>(*rows)), lines_(lines) {}

  // Whether the rows follow each other without gaps.
  [[nodiscard]] bool contiguous() const {
    return lines_ > 0 && row_[kLanes - 1] == row_[0] + (kLanes - 1) * lines_ * 16;
  }

  // Each call prefetches as many lines as four 32-bit columns of the rows have, on average.
  HWY_INLINE void issue_contiguous() {
    HWY_UNROLL(4)
    for (int64_t n = 0; n < kLanes / 4; ++n) __builtin_prefetch(at_ + 64 * n, 0, 2);
    at_ += 16 * kLanes;
  }
  HWY_INLINE void issue() {
    for (int64_t n = 0; n < kLanes / 4 && lines_ > 0 && row_ != end_; ++n) {
      __builtin_prefetch(*row_ + 16 * line_, 0, 2);
      if (++line_ == lines_) line_ = 0, ++row_;
    }
  }

 private:
  const float* const* row_;
  const float* const* end_;
  const char* at_;
  int64_t lines_, line_ = 0;
};

// The same for one row.
HWY_INLINE void prefetch_row(const float* row, int64_t lines) {
  int64_t line = 0;
  for (; line + 4 <= lines; line += 4) {
    HWY_UNROLL(4)
    for (int n = 0; n < 4; ++n) __builtin_prefetch(row + 16 * (line + n), 0, 2);
  }
  for (; line < lines; ++line) __builtin_prefetch(row + 16 * line, 0, 2);
}

// The group that is decoded, and scratch. Scores and weights are (rows, kChunkKeys); outputs are (rows, padded(Dv)).
struct DecodeGroup {
  const Tile& tile;
  const AttentionGroup& group;
  int64_t stride;           // padded(Dv)
  StoredRows key, value;    // the group's
  float* query = nullptr;   // (rows, D), scaled
  float* scores = nullptr;  // (rows, kChunkKeys)
  float* bias = nullptr;    // (rows, 64)
  float* spare = nullptr;   // (64, padded(D or Dv)): a block's rows, where they cannot be read where they are
};

// A block of a chunk.
struct DecodeBlock {
  Block block;
  Coverage coverage;
  Bits bits;
  float* scores;               // (rows, 64), kChunkKeys apart: become the weights
  float factors[kDecodeRows];  // what the sums before this block are multiplied by
  bool partial;                // some query of the group does not attend to some key of the block
};

// The rows of a block: read where they are, if `direct` and their columns are contiguous, otherwise converted first.
class BlockRows {
 public:
  BlockRows(const DecodeGroup& g, const StoredRows& rows, const StoredRows& next, int64_t columns, const Block& block,
            bool direct, int64_t spare_row)
      : first_(block.from), end_(g.group.keys), next_(next.data == nullptr ? nullptr : &next), rows_(rows) {
    if (direct && rows.column == 1) {
      const int64_t bytes = columns * bytes_of(rows.element);
      lines_ = bytes / 64;
      distance_ = std::clamp<int64_t>(kPrefetchBytes / std::max<int64_t>(1, bytes), kLanes, kBlockKeys);
      return;
    }
    convert(rows, columns, block.from, block.count, g.spare, spare_row);
    rows_ = StoredRows();
    rows_.data = g.spare;
    rows_.row = spare_row, rows_.column = 1;
    first_ = 0, end_ = block.count;
  }
  [[nodiscard]] Element element() const { return rows_.element; }
  // Whole cache lines of a row to prefetch; the others come with their neighbours.
  [[nodiscard]] int64_t lines() const { return lines_; }
  [[nodiscard]] RowVectorReader reader() const { return {rows_, first_, end_, nullptr}; }
  // Of the rows to prefetch while those of reader() are read.
  [[nodiscard]] RowVectorReader prefetch_reader() const { return {rows_, first_ + distance_, end_, next_}; }

 private:
  static constexpr int64_t kPrefetchBytes = 12 << 10;  // how far ahead of reading

  int64_t first_, end_, lines_ = 0, distance_ = 0;
  const StoredRows* next_;
  StoredRows rows_;
};

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
