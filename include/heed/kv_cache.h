// Keys and values of positions already seen, kept for decoding: in f32 or a smaller type, in one piece or in pages.
//
//   KeyValueCache cache(batch, kv_heads, 4096, head_size, head_size, {.dtype = DType::bf16});
//   cache.append(k_prompt, v_prompt);                                                   // (B, Hkv, L, D) each
//   auto r = attention(q_prompt, cache, {.causal = Causal::bottom_right()});
//   cache.append(k_next, v_next);                                                       // (B, Hkv, 1, D)
//   auto d = attention(q_next, cache, {.causal = Causal::bottom_right()});              // decode
//
// The results are those of attention() over the numbers that the cache holds, converted to f32. They are the same to
// the bit for any layout, pages and number of threads. In f32, a decoded row therefore has the bits of that row of a
// prefill.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heed/attention.h"
#include "heed/export.h"
#include "heed/tensor.h"

HEED_EXPORT_BEGIN
namespace heed {

// Keys and values in memory of any owner, as attention() reads them.
//   In one piece: key (B, Hkv, S, D), value (B, Hkv, S, Dv), any strides.
//   In pages:     key (P, Hkv, page, D), value (P, Hkv, page, Dv), any strides; rows n * page to (n + 1) * page - 1 of
//                 sequence b are page pages[b, n]. Sequences may share pages.
// f32, bf16, f16, or i8: whole numbers, each row (of one head) times a scale of its own.
struct KeyValues {
  Tensor key;
  Tensor value;
  Tensor key_scales = {};    // i8: f32, the shape of key without its last axis
  Tensor value_scales = {};  // likewise
  Tensor lengths = {};       // (B) i32: keys of each sequence; needed for pages
  Tensor pages = {};         // (B, any) i32; undefined: in one piece
  Tensor pieces = {};        // (B) i32, in one piece: where sequence b lies in key and value; undefined: at b
};

// attention() of query (B, H, L, D), f32, to keys and values as they are kept. In the shapes of masks and taps, S is
// the longest of the lengths. Keys beyond a sequence's own length are not attended, so AttentionOptions::key_lengths
// must be undefined. Rows in half precision, in i8 or in pages are converted as they are read: a block at a time for a
// few queries, otherwise once for each key/value head. Throws Error when shapes, dtypes, lengths, pages or options do
// not fit.
[[nodiscard]] AttentionResult attention(const Tensor& query, const KeyValues& memory,
                                        const AttentionOptions& options = {});

class KeyValueCache {
 public:
  struct Options {
    DType dtype = DType::f32;  // or bf16, f16, i8
    int64_t page = 0;          // keys in a page; 0: each sequence in one piece
    int64_t pages = 0;         // pages that the sequences share; 0: enough for all of them
    // Up to 64 keys are kept as key (B, S, D, Hkv) and value (B, S, Hkv, Dv). A few queries without masks, as in
    // translation, then run several times as fast, with the same bits. For f32 in one piece, with Hkv and D divisible
    // by 4 and Dv by 16; ignored elsewhere.
    bool heads_together = false;
  };

  // Room for `capacity` keys of each of `batch` sequences, all of them empty; with a capacity of 0 the memory grows
  // with what is appended. Throws Error for a batch or heads below 1, negative sizes, other dtypes, and where there is
  // no memory.
  KeyValueCache(int64_t batch, int64_t heads, int64_t capacity, int64_t size, int64_t value_size);
  KeyValueCache(int64_t batch, int64_t heads, int64_t capacity, int64_t size, int64_t value_size,
                const Options& options);

  // Appends key (B, Hkv, n, D) and value (B, Hkv, n, Dv), f32, bf16 or f16, to each sequence; with `lengths` (B) i32
  // only the first lengths[b] of them. They are rounded to the cache's dtype (to nearest, ties to even); i8: to the
  // nearest of 255 multiples of a row's largest magnitude / 127, and a row with an infinity or a NaN becomes NaN.
  // Throws Error, and leaves the cache as it was, where they do not fit or the pages do not suffice.
  void append(const Tensor& key, const Tensor& value, const Tensor& lengths = {});
  // The same for some sequences, each named once: key, value and lengths have these sequences alone, in this order.
  void append_to(std::span<const int64_t> sequences, const Tensor& key, const Tensor& value,
                 const Tensor& lengths = {});

  // Forgets all but the first `length` keys of a sequence; pages that no sequence uses any more are free again.
  void truncate(int64_t sequence, int64_t length);

  // Sequence r becomes a copy of what sequence rows[r] was, and rows.size() sequences remain. Beam search needs it when
  // hypotheses fork. In one piece, the first of several copies keeps the piece, and the others are written over pieces
  // that no sequence has any more. In pages only the table of pages is copied: forks share their pages, and the page
  // that an append() writes to is copied first.
  void reorder(std::span<const int64_t> rows);

  [[nodiscard]] int64_t batch() const { return memory_.lengths.size(0); }
  [[nodiscard]] int64_t length(int64_t sequence) const;
  [[nodiscard]] int64_t capacity() const { return capacity_; }  // 0: grows
  [[nodiscard]] int64_t free_pages() const { return static_cast<int64_t>(free_.size()); }
  [[nodiscard]] int64_t nbytes() const;                              // of all its memory
  [[nodiscard]] const KeyValues& memory() const { return memory_; }  // shares the cache's memory
  // The same for some sequences, in this order; a sequence may occur several times.
  [[nodiscard]] KeyValues memory_of(std::span<const int64_t> sequences) const;

 private:
  [[nodiscard]] bool paged() const { return page_ > 0; }
  [[nodiscard]] int64_t pages_for(int64_t length) const { return (length + page_ - 1) / page_; }
  int32_t& page_of(int64_t sequence, int64_t n);
  [[nodiscard]] int64_t piece_of(int64_t sequence) const;
  void fork_pieces(std::span<const int64_t> rows, std::span<const int64_t> lengths);
  void require_fit(int64_t sequences, const Tensor& key, const Tensor& value, const Tensor& lengths) const;
  void make_room(std::span<const int64_t> added);
  void make_pages(std::span<const int64_t> added);
  void resize(int64_t pieces, int64_t rows);
  void gather_pieces(std::span<const int64_t> from, std::span<const int64_t> counts, int64_t rows);
  void release(int32_t page);

  KeyValues memory_;
  int64_t capacity_;
  bool together_ = false;       // while a piece has at most 64 keys
  int64_t page_ = 0;            // keys in a page; 0: no pages
  bool fixed_pages_ = false;    // their number was given
  std::vector<int32_t> free_;   // pages, the next at the end
  std::vector<int32_t> users_;  // of each page: how many sequences use it
};

[[nodiscard]] AttentionResult attention(const Tensor& query, const KeyValueCache& cache,
                                        const AttentionOptions& options = {});

}  // namespace heed
HEED_EXPORT_END
