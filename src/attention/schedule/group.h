// The work of an attention call, cut up for the kernels: groups (one sequence, one key/value head) and row tiles.
#pragma once

#include <vector>

#include "attention/call/problem.h"
#include "base/memory.h"
#include "heed/attention_cache.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/bf16/bf16.h"

namespace heed {

// A tensor (B, H, rows, columns) seen from sequence b and head h on.
template <class T>
[[nodiscard]] kernels::Strided<T> strided(const Tensor& tensor, int64_t b, int64_t h) {
  const Shape& strides = tensor.strides();
  return {tensor.data<std::remove_const_t<T>>() + b * strides[0] + h * strides[1], strides[1], strides[2],
          tensor.rank() > 3 ? strides[3] : 0};
}

// Rows of a bf16 tensor that the kernels multiplying pairs can read, or write, two columns at a time; null: they do not
// lie so.
[[nodiscard]] kernels::Strided<uint16_t> pairs_of_columns(const Tensor& tensor, int64_t b, int64_t h);

// Rows of f32, or of bf16 two columns at a time; null: neither.
[[nodiscard]] kernels::Strided<float> words_of(const Tensor& tensor, int64_t b, int64_t h);

// A task of a call: tile `tile` of key/value head `kv_head` of sequence `b`. They are counted with the tile running
// fastest. Stepping to the next one instead of dividing its number matters where a task is a microsecond.
struct GroupTask {
  int64_t b = 0, kv_head = 0, tile = 0;
  GroupTask(int64_t number, int64_t kv_heads, int64_t tiles)
      : b(number / tiles / kv_heads), kv_head(number / tiles % kv_heads), tile(number % tiles) {}
  void step(int64_t kv_heads, int64_t tiles) {
    if (++tile < tiles) return;
    tile = 0;
    if (++kv_head < kv_heads) return;
    kv_head = 0;
    ++b;
  }
};

[[nodiscard]] kernels::Element element_of(DType dtype);  // of f32, bf16, f16, i8

// `heads` query heads from `first_head` on, which all read key/value head first_head / group(). Where query is narrower
// than f32 its rows are left to TileRows. The problem must outlive the group.
[[nodiscard]] kernels::AttentionGroup make_group(const AttentionProblem& problem, const Tensor& query,
                                                 const KeyValues& memory, int64_t b, int64_t first_head, int64_t heads);
// The group of key/value head h of sequence b comes after this one.
void expect_next(kernels::AttentionGroup& group, const KeyValues& memory, int64_t b, int64_t h);

// The rows of a group as tiles. A tile spans heads only where one head does not fill it.
class RowTiles {
 public:
  RowTiles(int64_t heads, int64_t queries);
  struct Rows {
    int64_t first, count;
  };
  [[nodiscard]] int64_t count() const { return segments_ * per_segment_; }
  // Whether every tile lies in one head.
  [[nodiscard]] static bool in_one_head(const AttentionProblem& problem) {
    return problem.group() == 1 || problem.queries >= kernels::kTileRows;
  }
  [[nodiscard]] Rows operator[](int64_t tile) const;

 private:
  int64_t segments_, segment_rows_, per_segment_;
};

// Rows of a tensor (B, H, L, columns) in bf16 or f16, of which every tile has some as f32: what it reads, widened, or
// room for what it writes. Converting all of a tensor beforehand would cost short sequences as much as computing.
class TileRows {
 public:
  // From head h of sequence b on. Of a tensor in f32 nothing is remembered.
  void enter(const Tensor& tensor, int64_t b, int64_t h);
  void leave() { base_ = nullptr; }
  // Whether there is something to convert. If not, nothing below may be called.
  [[nodiscard]] bool narrow() const { return base_ != nullptr; }
  // Addressed like the rows themselves, but only those of the tile are there.
  [[nodiscard]] kernels::Strided<const float> widened(RowTiles::Rows rows);
  [[nodiscard]] kernels::Strided<float> room(RowTiles::Rows rows);
  void write(RowTiles::Rows rows) const;  // what has been put into room(rows)

 private:
  // f(where the rows are, their stride, their number, where they are as f32) for the rows of every head.
  template <class F>
  void for_heads(RowTiles::Rows rows, F&& f) const;

  char* base_ = nullptr;
  kernels::Element element_ = kernels::Element::f32;
  int64_t head_ = 0, row_ = 0, column_ = 0, queries_ = 0, columns_ = 0;
  Buffer<float> memory_;
};

// First, last, second, last but one, ...: with causal masks the cost grows along the rows, and contiguous parts of this
// order cost about the same.
[[nodiscard]] inline int64_t balanced(int64_t index, int64_t count) {
  return index % 2 == 0 ? index / 2 : count - 1 - index / 2;
}

// Keys and values of the group at hand as dense rows of f32. Heads are often strided views with thousands of floats
// from row to row, which would fight for a few sets of the cache in every one of the tiles. After load() nothing is
// stored.
class DenseKeys {
 public:
  void load(kernels::AttentionGroup& group);

 private:
  Buffer<float> memory_;
};

// Keys and values of the group at hand in bf16, as the kernels that multiply pairs want them.
class PairedKeys {
 public:
  // The backward pass wants both of them both ways.
  void load(const kernels::AttentionPairs& pairs, const kernels::AttentionGroup& group, bool backward);
  [[nodiscard]] const kernels::PackedKeys& packed() const { return packed_; }

 private:
  struct Side {
    Buffer<uint16_t> rows, columns;
    std::vector<kernels::Special> special;
    std::vector<int64_t> special_begin;
  };
  void load_side(const kernels::AttentionPairs& pairs, const kernels::AttentionGroup& group, bool values,
                 bool want_rows, bool want_columns);

  Side sides_[2];  // keys, values
  Buffer<float> block_;
  kernels::PackedKeys packed_;
};

// What the tiles of a group ask the memory for while they multiply: the rows that they write in the end, those that the
// next tile reads, and, a share for each tile, the rows that come after the group.
class TilesAhead {
 public:
  // Before the tiles of a group of the problem, each of which calls the inner loop of products so many times. A row of
  // all operands together has `columns` words of four bytes.
  void enter(const AttentionProblem& problem, int64_t columns, int64_t tiles, int64_t calls);
  // Whether after() pays: the group is short enough that the next one's rows stay in the cache beside its own.
  [[nodiscard]] bool short_group() const { return short_; }
  // `count` rows that are needed after the group.
  void after(const kernels::Strided<const float>& rows, int64_t count, int64_t columns);
  // Every tile reads its rows of these, unless the group is short: then they came with after().
  void read(const kernels::Strided<const float>& rows, int64_t columns);
  // The n-th tile, of heads of `queries` rows; the rows it writes; and those of the tile after it. Null where nothing
  // is to be asked for.
  [[nodiscard]] kernels::Ahead* tile(int64_t n, const kernels::Strided<float>& output, int64_t columns, int64_t queries,
                                     RowTiles::Rows rows, RowTiles::Rows next);

 private:
  struct Later {
    kernels::Strided<const float> rows;
    int64_t count, columns, share;
  };
  struct Read {
    kernels::Strided<const float> rows;
    int64_t columns;
  };
  static constexpr int kMost = 8, kMostRead = 3;
  void add(const kernels::Strided<const float>& operand, int64_t columns, int64_t queries, RowTiles::Rows rows);

  kernels::Ahead ahead_;
  Later later_[kMost];
  Read read_[kMostRead];
  int later_count_ = 0, read_count_ = 0;
  bool on_ = false, short_ = false;
  int64_t tiles_ = 1, calls_ = 1;
};

// Tasks a thread should at least get, `flops` each, so that starting it pays.
[[nodiscard]] inline int64_t grain_for(int64_t flops) { return 1 + 500'000 / (flops + 1); }

}  // namespace heed
