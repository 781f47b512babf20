// Keys and values of positions already seen, kept for decoding: in f32, or narrower, in one piece or in pages.
//
//   AttentionCache cache(batch, kv_heads, 4096, head_size, head_size, {.dtype = DType::bf16});
//   cache.append(k_prompt, v_prompt);                                                   // (B, Hkv, L, D) each
//   auto r = attention(q_prompt, cache, {.causal = Causal::bottom_right()});
//   cache.append(k_next, v_next);                                                       // (B, Hkv, 1, D)
//   auto d = attention(q_next, cache, {.causal = Causal::bottom_right()});              // decode
//
// The results are those of attention() over the numbers that the cache holds, widened to f32: bit for bit, whatever the
// layout, the pages and the number of threads. In f32 decoding therefore has the bits of the same rows of a prefill.
#pragma once

#include <cstdint>
#include <vector>

#include "heed/attention.h"
#include "heed/tensor.h"

namespace heed {

// Keys and values in memory of any owner, as attention() reads them.
//   In one piece: key (B, Hkv, S, D), value (B, Hkv, S, Dv), any strides.
//   In pages:     key (P, Hkv, page, D), value (P, Hkv, page, Dv), any strides; rows n * page to (n + 1) * page - 1 of
//                 sequence b are page pages[b, n].
// f32, bf16, f16, or i8: whole numbers, each row (of one head) times a scale of its own.
struct KeyValues {
  Tensor key;
  Tensor value;
  Tensor key_scales = {};    // i8: f32, the shape of key without its last axis
  Tensor value_scales = {};  // likewise
  Tensor lengths = {};       // (B) i32: keys of each sequence; needed for pages
  Tensor pages = {};         // (B, any) i32; undefined: in one piece
};

// attention() of query (B, H, L, D), f32, to keys and values as they are kept. S, where it counts (masks, taps), is the
// longest of the lengths; what lies beyond a sequence's own is not attended, as with AttentionOptions::key_lengths,
// which has no place beside them. Narrow or paged rows are widened as they are read, a block at a time for a few
// queries, otherwise once for each key/value head at hand.
// Throws Error when shapes, dtypes, lengths, pages or options do not fit.
[[nodiscard]] AttentionResult attention(const Tensor& query, const KeyValues& memory,
                                        const AttentionOptions& options = {});

class AttentionCache {
 public:
  struct Options {
    DType dtype = DType::f32;  // or bf16, f16, i8
    int64_t page = 0;          // keys of a page; 0: one piece of `capacity` keys for each sequence
    int64_t pages = 0;         // pages that the sequences share; 0: enough for all to reach the capacity
  };

  // Room for `capacity` keys of each of `batch` sequences, all of them empty. Throws Error for sizes below 1
  // (value_size and size may be 0), other dtypes, and where there is no memory.
  AttentionCache(int64_t batch, int64_t heads, int64_t capacity, int64_t size, int64_t value_size);
  AttentionCache(int64_t batch, int64_t heads, int64_t capacity, int64_t size, int64_t value_size,
                 const Options& options);

  // key (B, Hkv, n, D) and value (B, Hkv, n, Dv), f32, bf16 or f16, behind what each sequence has; with `lengths` (B)
  // i32 only the first lengths[b] of them. They are rounded to the cache's dtype (to nearest, ties to even); i8: to the
  // nearest of 255 multiples of a row's largest magnitude / 127, and a row with an infinity or a NaN becomes NaN.
  // Throws Error, and leaves the cache as it was, where they do not fit or the pages do not suffice.
  void append(const Tensor& key, const Tensor& value, const Tensor& lengths = {});

  // Forgets all but the first `length` keys of a sequence; pages of which none is left are free again.
  void truncate(int64_t sequence, int64_t length);

  [[nodiscard]] int64_t length(int64_t sequence) const;
  [[nodiscard]] int64_t capacity() const { return capacity_; }
  [[nodiscard]] int64_t free_pages() const { return static_cast<int64_t>(free_.size()); }
  [[nodiscard]] int64_t nbytes() const;                              // of all its memory
  [[nodiscard]] const KeyValues& memory() const { return memory_; }  // shares the cache's memory

 private:
  KeyValues memory_;
  int64_t capacity_;
  int64_t page_;               // keys of a page; the capacity where there are none
  std::vector<int32_t> free_;  // pages, the next at the end
};

[[nodiscard]] AttentionResult attention(const Tensor& query, const AttentionCache& cache,
                                        const AttentionOptions& options = {});

}  // namespace heed
