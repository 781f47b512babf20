// attention() over keys and values as a cache keeps them: what such memory must look like.
#include <algorithm>

#include "attention/call/group.h"
#include "attention/forward/forward.h"
#include "attention/observe/taps.h"
#include "heed/error.h"
#include "heed/kv_cache.h"

namespace heed {
namespace {

void require_rows(std::string_view name, const Tensor& rows, const Tensor& scales) {
  require(rows.defined() && rows.rank() == 4, "attention", name,
          " of shape (B, Hkv, S, D), or in pages (P, Hkv, page, D); found ",
          rows.defined() ? to_string(rows.shape()) : "none");
  require(is_element(rows.dtype()), "attention", name, " in f32, bf16, f16 or i8; found ", rows.dtype());
  const bool needed = rows.dtype() == DType::i8;
  require(scales.defined() == needed, "attention", needed ? "" : "no ", name, "_scales where ", name, " is in ",
          rows.dtype(), "; found ", scales.defined() ? "them" : "none");
  if (!needed) return;
  const Shape shape{rows.size(0), rows.size(1), rows.size(2)};
  require(scales.shape() == shape && scales.dtype() == DType::f32, "attention", name, "_scales of shape ", shape,
          " in f32; found ", scales.shape(), " in ", scales.dtype());
}

int64_t length_of(const KeyValues& memory, int64_t b) {
  return memory.lengths.data<int32_t>()[b * memory.lengths.stride(0)];
}

int32_t page_of(const KeyValues& memory, int64_t b, int64_t n) {
  return memory.pages.data<int32_t>()[b * memory.pages.stride(0) + n * memory.pages.stride(1)];
}

void check_pieces(const KeyValues& memory, int64_t batch) {
  require(!memory.pages.defined(), "attention", "pages or pieces; found both");
  require(memory.pieces.rank() == 1 && memory.pieces.size(0) == batch && memory.pieces.dtype() == DType::i32,
          "attention", "pieces of shape (B) = (", batch, ") in i32; found ", memory.pieces.shape(), " in ",
          memory.pieces.dtype());
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t piece = piece_of(memory, b);
    require(piece >= 0 && piece < memory.key.size(0), "attention", "pieces from 0 to ", memory.key.size(0) - 1,
            "; found ", piece, " for sequence ", b);
  }
}

// The longest sequence; every page that counts is one of the memory's.
int64_t check_lengths(const KeyValues& memory, int64_t batch) {
  if (!memory.lengths.defined() && !memory.pages.defined()) return memory.key.size(2);
  require(memory.lengths.defined() && memory.lengths.rank() == 1 && memory.lengths.size(0) == batch &&
              memory.lengths.dtype() == DType::i32,
          "attention", "lengths of shape (B) = (", batch, ") in i32; found ",
          memory.lengths.defined() ? to_string(memory.lengths.shape()) : "none");
  const bool paged = memory.pages.defined();
  if (paged) {
    require(memory.pages.rank() == 2 && memory.pages.size(0) == batch && memory.pages.dtype() == DType::i32,
            "attention", "pages of shape (B, any) in i32, B = ", batch, "; found ", memory.pages.shape(), " in ",
            memory.pages.dtype());
  }
  const int64_t page = memory.key.size(2), most = paged ? memory.pages.size(1) * page : page;
  int64_t longest = 0;
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = length_of(memory, b);
    require(0 <= length && length <= most, "attention", "lengths from 0 to ", most, "; found ", length,
            " for sequence ", b);
    longest = std::max(longest, length);
    for (int64_t n = 0; paged && n * page < length; ++n) {
      require(page_of(memory, b, n) >= 0 && page_of(memory, b, n) < memory.key.size(0), "attention",
              "pages from 0 to P - 1 = ", memory.key.size(0) - 1, "; found ", page_of(memory, b, n), " for sequence ",
              b, ", page ", n);
    }
  }
  return longest;
}

}  // namespace

AttentionResult attention(const Tensor& query, const KeyValues& memory, const AttentionOptions& options) {
  require(query.defined() && query.rank() == 4 && query.dtype() == DType::f32, "attention",
          "query (B, H, L, D) in f32; found ", query.defined() ? to_string(query.shape()) : "none",
          query.defined() ? std::string(" in ") + std::string(to_string(query.dtype())) : "");
  require_rows("key", memory.key, memory.key_scales);
  require_rows("value", memory.value, memory.value_scales);
  require(memory.key.dtype() == memory.value.dtype(), "attention", "key and value in one dtype; found ",
          memory.key.dtype(), " and ", memory.value.dtype());
  require(memory.key.size(0) == memory.value.size(0) && memory.key.size(2) == memory.value.size(2), "attention",
          "as many values as keys; found key ", memory.key.shape(), " and value ", memory.value.shape());
  require(!options.key_lengths.defined(), "attention", "lengths in the memory, no key_lengths; found both");
  const bool indexed = memory.pages.defined() || memory.pieces.defined();
  const int64_t batch = indexed ? query.size(0) : memory.key.size(0);
  if (memory.pieces.defined()) check_pieces(memory, batch);
  require(batch == query.size(0), "attention", "one batch size; found query ", query.shape(), " and key ",
          memory.key.shape());
  require(!memory.pages.defined() || memory.key.size(2) > 0, "attention", "pages of one key at least; found key ",
          memory.key.shape());
  const int64_t keys = check_lengths(memory, batch);
  AttentionOptions with_lengths = options;
  with_lengths.key_lengths = memory.lengths;
  const AttentionProblem problem =
      check_shapes("attention", query.shape(), {batch, memory.key.size(1), keys, memory.key.size(3)},
                   {batch, memory.value.size(1), keys, memory.value.size(3)}, with_lengths, DType::f32);
  check_taps("attention", problem);
  return run_attention("attention", problem, query, memory);
}

}  // namespace heed
