// Caches of keys and values: checks of such memory, and one that grows by appending.
#include "heed/attention_cache.h"

#include <algorithm>

#include "attention/call/group.h"
#include "attention/forward/forward.h"
#include "attention/observe/taps.h"
#include "base/memory.h"
#include "base/threads.h"
#include "heed/error.h"

namespace heed {
namespace {

bool is_stored(DType dtype) { return dtype == DType::f32 || is_half(dtype) || dtype == DType::i8; }

void require_rows(std::string_view name, const Tensor& rows, const Tensor& scales) {
  require(rows.defined() && rows.rank() == 4, "attention", name,
          " of shape (B, Hkv, S, D), or in pages (P, Hkv, page, D); found ",
          rows.defined() ? to_string(rows.shape()) : "none");
  require(is_stored(rows.dtype()), "attention", name, " in f32, bf16, f16 or i8; found ", rows.dtype());
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

int32_t& page_of(const KeyValues& memory, int64_t b, int64_t n) {
  return memory.pages.data<int32_t>()[b * memory.pages.stride(0) + n * memory.pages.stride(1)];
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

// Row `from` (n numbers of any stride and floating type) into row j of page `page`, head h.
void pack(const Tensor& rows, const Tensor& scales, int64_t page, int64_t h, int64_t j, const float* from) {
  char* const to = static_cast<char*>(rows.raw()) +
                   (page * rows.stride(0) + h * rows.stride(1) + j * rows.stride(2)) * size_of(rows.dtype());
  float* const scale =
      scales.defined() ? scales.data<float>() + page * scales.stride(0) + h * scales.stride(1) + j * scales.stride(2)
                       : nullptr;
  kernels::store_cache_row(from, rows.size(3), element_of(rows.dtype()), to, scale);
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
  const int64_t batch = memory.pages.defined() ? query.size(0) : memory.key.size(0);
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

AttentionResult attention(const Tensor& query, const AttentionCache& cache, const AttentionOptions& options) {
  return attention(query, cache.memory(), options);
}

AttentionCache::AttentionCache(int64_t batch, int64_t heads, int64_t capacity, int64_t size, int64_t value_size)
    : AttentionCache(batch, heads, capacity, size, value_size, Options{}) {}

AttentionCache::AttentionCache(int64_t batch, int64_t heads, int64_t capacity, int64_t size, int64_t value_size,
                               const Options& options)
    : capacity_(capacity), page_(options.page > 0 ? options.page : capacity) {
  constexpr std::string_view kName = "AttentionCache";
  require(batch >= 1 && heads >= 1 && capacity >= 1 && size >= 0 && value_size >= 0, kName,
          "a batch, heads and a capacity of 1 or more; found ", batch, ", ", heads, " and ", capacity);
  require(capacity <= INT32_MAX, kName, "a capacity below 2^31; found ", capacity);
  require(is_stored(options.dtype), kName, "a dtype of f32, bf16, f16 or i8; found ", options.dtype);
  require(options.page >= 0 && options.pages >= 0, kName, "a page and a number of pages of 0 or more; found ",
          options.page, " and ", options.pages);
  require(options.pages == 0 || options.page > 0, kName, "the size of a page where there are pages; found 0");
  const bool paged = options.page > 0;
  const int64_t each = (capacity - 1) / page_ + 1;  // pages of a full sequence
  require(each <= INT32_MAX / batch, kName, "fewer than 2^31 pages; found ", each, " for each of ", batch,
          " sequences");
  const int64_t pages = !paged ? batch : options.pages > 0 ? options.pages : batch * each;
  require(pages <= INT32_MAX, kName, "fewer than 2^31 pages; found ", pages);
  memory_.key = Tensor::empty({pages, heads, page_, size}, options.dtype);
  memory_.value = Tensor::empty({pages, heads, page_, value_size}, options.dtype);
  if (options.dtype == DType::i8) {
    memory_.key_scales = Tensor::empty({pages, heads, page_});
    memory_.value_scales = Tensor::empty({pages, heads, page_});
  }
  memory_.lengths = Tensor::zeros({batch}, DType::i32);
  if (!paged) return;
  memory_.pages = Tensor::zeros({batch, each}, DType::i32);
  for (int64_t n = pages; n-- > 0;) free_.push_back(static_cast<int32_t>(n));
}

void AttentionCache::append(const Tensor& key, const Tensor& value, const Tensor& lengths) {
  constexpr std::string_view kName = "AttentionCache::append";
  const int64_t batch = memory_.lengths.size(0), heads = memory_.key.size(1);
  require(key.defined() && value.defined() && key.rank() == 4 && value.rank() == 4, kName,
          "key (B, Hkv, n, D) and value (B, Hkv, n, Dv); found ", key.shape(), " and ", value.shape());
  const int64_t rows = key.size(2), size = memory_.key.size(3), value_size = memory_.value.size(3);
  require(key.shape() == Shape({batch, heads, rows, size}) && value.shape() == Shape({batch, heads, rows, value_size}),
          kName, "key ", Shape({batch, heads, rows, size}), " and value ", Shape({batch, heads, rows, value_size}),
          "; found ", key.shape(), " and ", value.shape());
  for (const Tensor* x : {&key, &value}) {
    require(x->dtype() == DType::f32 || is_half(x->dtype()), kName, "key and value in f32, bf16 or f16; found ",
            x->dtype());
  }
  require(!lengths.defined() || (lengths.shape() == Shape({batch}) && lengths.dtype() == DType::i32), kName,
          "lengths of shape (B) = (", batch, ") in i32; found ", lengths.shape());
  // All is checked and all pages are there before anything is written.
  std::vector<int64_t> added(static_cast<size_t>(batch), rows);
  const auto pages_for = [&](int64_t length) { return (length + page_ - 1) / page_; };
  int64_t needed = 0;
  for (int64_t b = 0; b < batch; ++b) {
    int64_t& count = added[static_cast<size_t>(b)];
    if (lengths.defined()) count = lengths.data<int32_t>()[b * lengths.stride(0)];
    require(count >= 0 && count <= rows, kName, "lengths from 0 to n = ", rows, "; found ", count, " for sequence ", b);
    require(length(b) + count <= capacity_, kName, "room within the capacity of ", capacity_, "; found ", length(b),
            " keys and ", count, " more for sequence ", b);
    if (memory_.pages.defined()) needed += pages_for(length(b) + count) - pages_for(length(b));
  }
  require(needed <= free_pages(), kName, "pages that suffice; found ", free_pages(), " free of ", needed, " needed");
  for (int64_t b = 0; b < batch && memory_.pages.defined(); ++b) {
    for (int64_t n = pages_for(length(b)); n < pages_for(length(b) + added[static_cast<size_t>(b)]); ++n) {
      page_of(memory_, b, n) = free_.back();
      free_.pop_back();
    }
  }
  const auto copy = [&](const Tensor& from, const Tensor& to, const Tensor& scales) {
    const Tensor source = from.dtype() == DType::f32 && (from.size(3) <= 1 || from.stride(3) == 1)
                              ? from
                              : from.to(DType::f32).contiguous();
    parallel_for(batch * heads, 1 + 16384 / (rows * from.size(3) + 1), [&](int64_t begin, int64_t end) {
      for (int64_t index = begin; index < end; ++index) {
        const int64_t b = index / heads, h = index % heads, old = length(b);
        for (int64_t j = 0; j < added[static_cast<size_t>(b)]; ++j) {
          const int64_t at = old + j;
          const int64_t page = memory_.pages.defined() ? page_of(memory_, b, at / page_) : b;
          pack(to, scales, page, h, at % page_,
               source.data<float>() + b * source.stride(0) + h * source.stride(1) + j * source.stride(2));
        }
      }
    });
  };
  copy(key, memory_.key, memory_.key_scales);
  copy(value, memory_.value, memory_.value_scales);
  for (int64_t b = 0; b < batch; ++b) {
    memory_.lengths.data<int32_t>()[b] += static_cast<int32_t>(added[static_cast<size_t>(b)]);
  }
}

void AttentionCache::truncate(int64_t sequence, int64_t length) {
  const int64_t before = this->length(sequence);
  require(length >= 0 && length <= before, "AttentionCache::truncate", "a length from 0 to ", before, "; found ",
          length);
  memory_.lengths.data<int32_t>()[sequence] = static_cast<int32_t>(length);
  if (!memory_.pages.defined()) return;
  for (int64_t n = (before + page_ - 1) / page_; n-- > (length + page_ - 1) / page_;) {
    free_.push_back(page_of(memory_, sequence, n));
  }
}

int64_t AttentionCache::length(int64_t sequence) const {
  require(sequence >= 0 && sequence < memory_.lengths.size(0), "AttentionCache", "a sequence below ",
          memory_.lengths.size(0), "; found ", sequence);
  return memory_.lengths.data<int32_t>()[sequence];
}

int64_t AttentionCache::nbytes() const {
  int64_t sum = 0;
  for (const Tensor* x : {&memory_.key, &memory_.value, &memory_.key_scales, &memory_.value_scales, &memory_.pages}) {
    if (x->defined()) sum += x->nbytes();
  }
  return sum;
}

}  // namespace heed
