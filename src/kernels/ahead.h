// Cache lines to ask the memory for while something else is computed.
//
// A processor core loads ahead by itself only where it sees a sequence of addresses. Short sequences give it none: a
// head of 64 rows (D = 64) with its operands in memory took 23 us, against 13 from the cache; with this 18.
#pragma once

#include <algorithm>
#include <cstdint>

namespace heed::kernels {

// Some sets of rows, asked for in order, some lines with every ask().
class Ahead {
 public:
  static constexpr int kMostSets = 16;  // more are left out

  void clear() { sets_ = at_ = 0, row_ = lines_ = 0; }
  // `count` rows of `columns` floats side by side, `stride` floats apart.
  void add(const float* rows, int64_t stride, int64_t columns, int64_t count) {
    if (columns <= 0 || count <= 0 || sets_ == kMostSets) return;
    set_[sets_++] = {rows, stride, columns, count};
    lines_ += count * lines_of(columns);
  }
  // Shares what there is among so many calls of ask().
  void spread(int64_t calls) {
    calls = std::max<int64_t>(1, calls);
    lines_ = lines_ < calls * kMostAtOnce ? (lines_ + calls - 1) / calls : kMostAtOnce;
  }
  void ask() {
    for (int64_t left = lines_; left > 0 && at_ < sets_;) {
      const Rows& set = set_[at_];
      const float* const row = set.data + row_ * set.stride;
      for (int64_t c = 0; c < set.columns; c += kFloats) __builtin_prefetch(row + c, 0, 2);
      left -= lines_of(set.columns);
      if (++row_ == set.count) row_ = 0, ++at_;
    }
  }

 private:
  struct Rows {
    const float* data;
    int64_t stride, columns, count;
  };
  static constexpr int64_t kFloats = 16;      // of a line
  static constexpr int64_t kMostAtOnce = 32;  // lines: a dozen can be under way
  static int64_t lines_of(int64_t columns) { return (columns + kFloats - 1) / kFloats; }

  Rows set_[kMostSets];
  int sets_ = 0, at_ = 0;
  int64_t row_ = 0, lines_ = 0;
};

}  // namespace heed::kernels
