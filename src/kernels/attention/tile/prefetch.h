// Prefetching: cache lines requested from memory while something else is computed.
//
// A processor core prefetches by itself only where it sees a sequence of addresses. Short sequences give it none: a
// head of 64 rows (D = 64) with its operands in memory took 23 us, against 13 from the cache; with this 18.
#pragma once

#include <algorithm>
#include <cstdint>

namespace heed::kernels {

// Some sets of rows, prefetched in order, a few lines with every issue().
class Prefetch {
 public:
  static constexpr int kMostSets = 16;  // more are left out

  void clear() { sets_ = at_ = 0, row_ = lines_ = lines_per_issue_ = 0; }
  // `count` rows of `columns` contiguous elements, `stride` elements apart.
  template <class T>
  void add(const T* rows, int64_t stride, int64_t columns, int64_t count) {
    constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
    if (columns <= 0 || count <= 0 || sets_ == kMostSets) return;
    set_[sets_++] = {reinterpret_cast<const char*>(rows), stride * kBytes, columns * kBytes, count};
    lines_ += count * lines_of(columns * kBytes);
  }
  // Spreads all sets over this many calls of issue(). Before it, issue() does nothing.
  void spread(int64_t calls) {
    calls = std::max<int64_t>(1, calls);
    lines_per_issue_ = lines_ < calls * kMostAtOnce ? (lines_ + calls - 1) / calls : kMostAtOnce;
  }
  void issue() {
    for (int64_t left = lines_per_issue_; left > 0 && at_ < sets_;) {
      const Set& set = set_[at_];
      const char* const row = set.data + row_ * set.stride;
      for (int64_t at = 0; at < set.bytes; at += kLine) __builtin_prefetch(row + at, 0, 2);
      left -= lines_of(set.bytes);
      if (++row_ == set.count) row_ = 0, ++at_;
    }
  }

 private:
  struct Set {
    const char* data;
    int64_t stride, bytes, count;
  };
  static constexpr int64_t kLine = 64;
  static constexpr int64_t kMostAtOnce = 32;  // lines: a core keeps about a dozen requests open
  static int64_t lines_of(int64_t bytes) { return (bytes + kLine - 1) / kLine; }

  Set set_[kMostSets];
  int sets_ = 0, at_ = 0;
  int64_t row_ = 0;
  int64_t lines_ = 0, lines_per_issue_ = 0;  // lines_: of all sets
};

}  // namespace heed::kernels
