// Rows of keys and values in the order in which a few queries read them, and those to be asked for meanwhile.
#if defined(HEED_KERNELS_ATTENTION_DECODE_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_DECODE_ROWS_INL_H_
#undef HEED_KERNELS_ATTENTION_DECODE_ROWS_INL_H_
#else
#define HEED_KERNELS_ATTENTION_DECODE_ROWS_INL_H_
#endif

#include <algorithm>

#include "kernels/attention/tile/stored-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

using kernels::kFewRows;

// A vector of rows, whatever their type. Two vectors turned around together would load a query's numbers once for both,
// and be a tenth faster from the cache, but up to 40 % slower from memory (Zen 4).
struct Rows {
  const float* row[kLanes];
  HWY_ALIGN float scale[kLanes];  // of int8
};

// Rows [first, end), kLanes at a time, and behind them those of `next` from the first one on, or without `next` the
// last one again and again.
class RowsWalk {
 public:
  RowsWalk(const StoredRows& rows, int64_t first, int64_t end, const StoredRows* next)
      : walk_(rows, std::min(first, end - 1)), left_(std::max<int64_t>(1, end - first)), next_(next) {
    if (first >= end) enter_next(first - end);
  }

  void take(Rows& to) { take(to.row, to.scale); }
  // Without the scales, which rows that are only asked for may not have.
  void take(const float** rows) { take(rows, nullptr); }

 private:
  void take(const float** rows, float* scales) {
    if (left_ > kLanes && walk_.rows_in_page() > kLanes) {
      walk_.take(kLanes, rows, scales);
      left_ -= kLanes;
      return;
    }
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      rows[lane] = reinterpret_cast<const float*>(walk_.row());
      if (scales != nullptr) scales[lane] = walk_.scale();
      if (left_ > 1) {
        walk_.advance();
        --left_;
      } else {
        enter_next(0);
      }
    }
  }
  void enter_next(int64_t first) {
    if (next_ == nullptr) return;
    walk_ = RowWalk(*next_, first);
    left_ = std::numeric_limits<int64_t>::max();
    next_ = nullptr;
  }

  RowWalk walk_;
  int64_t left_;  // this one included
  const StoredRows* next_;
};

// Asks for rows into the second cache, a few lines at a time and in the order in which they lie. A vector of rows is
// walked over column by column, an order in which Zen 4 reads memory at 7 GB/s, in theirs at 18; into the first cache
// at 13. It follows few rows at once by itself.
class Asking {
 public:
  // `lines`: whole cache lines of a row that should be asked for; the others come with their neighbours.
  Asking(const float* const* rows, int64_t lines)
      : row_(rows), end_(rows + kLanes), at_(reinterpret_cast<const char*>(*rows)), lines_(lines) {}

  // Whether the rows lie one after the other.
  [[nodiscard]] bool in_line() const { return lines_ > 0 && row_[kLanes - 1] == row_[0] + (kLanes - 1) * lines_ * 16; }

  // Either asks for as many lines as four 32-bit columns of the rows have, in the mean.
  HWY_INLINE void ask_in_line() {
    HWY_UNROLL(4)
    for (int64_t n = 0; n < kLanes / 4; ++n) __builtin_prefetch(at_ + 64 * n, 0, 2);
    at_ += 16 * kLanes;
  }
  HWY_INLINE void ask() {
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
HWY_INLINE void ask_for(const float* row, int64_t lines) {
  int64_t line = 0;
  for (; line + 4 <= lines; line += 4) {
    HWY_UNROLL(4)
    for (int n = 0; n < 4; ++n) __builtin_prefetch(row + 16 * (line + n), 0, 2);
  }
  for (; line < lines; ++line) __builtin_prefetch(row + 16 * line, 0, 2);
}

// Scores and weights here are (rows, kChunkKeys); outputs (rows, padded(Dv)).
struct Few {
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
struct Part {
  Block block;
  Coverage coverage;
  Bits bits;
  float* scores;            // (rows, 64), kChunkKeys apart: what becomes the weights
  float factors[kFewRows];  // what the sums before it are multiplied by
  bool partial;             // not all of its keys are attended to
};

// The rows of a block, read where they are if `direct` and their columns are side by side, otherwise unpacked.
class BlockRows {
 public:
  BlockRows(const Few& f, const StoredRows& rows, const StoredRows& next, int64_t columns, const Block& block,
            bool direct, int64_t spare_row)
      : first_(block.from), end_(f.group.keys), next_(next.data == nullptr ? nullptr : &next), rows_(rows) {
    if (direct && rows.column == 1) {
      const int64_t bytes = columns * bytes_of(rows.element);
      lines_ = bytes / 64;
      ahead_ = std::clamp<int64_t>(kBytesAhead / std::max<int64_t>(1, bytes), kLanes, kBlockKeys);
      return;
    }
    unpack(rows, columns, block.from, block.count, f.spare, spare_row);
    rows_ = StoredRows();
    rows_.data = f.spare;
    rows_.row = spare_row, rows_.column = 1;
    first_ = 0, end_ = block.count;
  }
  [[nodiscard]] Element element() const { return rows_.element; }
  // Whole cache lines of a row that should be asked for ahead; the others come with their neighbours.
  [[nodiscard]] int64_t lines() const { return lines_; }
  [[nodiscard]] RowsWalk walk() const { return {rows_, first_, end_, nullptr}; }
  // Of the rows to ask for while those of walk() are read.
  [[nodiscard]] RowsWalk walk_ahead() const { return {rows_, first_ + ahead_, end_, next_}; }

 private:
  static constexpr int64_t kBytesAhead = 12 << 10;

  int64_t first_, end_, lines_ = 0, ahead_ = 0;
  const StoredRows* next_;
  StoredRows rows_;
};

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
