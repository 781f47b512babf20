// A cache of keys and values: one piece a sequence, or pages that sequences share.
#include "heed/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "attention/call/group.h"
#include "base/threads.h"
#include "heed/error.h"
#include "kernels/attention/decode/heads.h"

namespace heed {
namespace {

// Keys of a piece, or pages, of a cache that grows. Many short texts in one batch take as much memory for their caches
// as the weights do: with 16 keys the shipped translator took 193 MB in all, with 8 it takes 131.
constexpr int64_t kFirstRoom = 8;
constexpr int64_t kCopyGrain = 65536;                       // numbers that a thread copies at least
constexpr int64_t kMostTogether = kernels::kMostHeadsKeys;  // keys of a piece whose heads lie together

// A row (of one head) of a piece: a sequence's own memory, or a page.
void* row_at(const Tensor& rows, int64_t piece, int64_t h, int64_t j) {
  return static_cast<char*>(rows.raw()) +
         (piece * rows.stride(0) + h * rows.stride(1) + j * rows.stride(2)) * size_of(rows.dtype());
}

// The tensors of a cache that hold rows; scales are rows of one number.
std::vector<Tensor*> tensors_of(KeyValues& memory) {
  std::vector<Tensor*> tensors = {&memory.key, &memory.value};
  if (memory.key_scales.defined()) tensors.insert(tensors.end(), {&memory.key_scales, &memory.value_scales});
  return tensors;
}

// Whether all heads of a position are one piece of memory.
bool heads_lie_together(const Tensor& rows) {
  return rows.rank() == 4 && rows.size(1) > 1 && rows.stride(2) == rows.size(1) * rows.size(3);
}

// Memory for `rows` rows of each head and piece, (pieces, heads, rows, columns).
Tensor empty_pieces(const Tensor& like, int64_t pieces, int64_t rows) {
  Shape shape = like.shape();
  shape[0] = pieces;
  shape[2] = rows;
  return Tensor::empty(shape, like.dtype());
}
Tensor empty_keys_together(int64_t pieces, int64_t heads, int64_t rows, int64_t size) {
  return Tensor::empty({pieces, rows, size, heads}).transpose(2, 3).transpose(1, 2);
}
Tensor empty_values_together(int64_t pieces, int64_t heads, int64_t rows, int64_t size) {
  return Tensor::empty({pieces, rows, heads, size}).transpose(1, 2);
}

// The first `count` rows of every head of piece `from` become those of piece `to`.
void copy_piece(const Tensor& source, int64_t from, const Tensor& target, int64_t to, int64_t count) {
  if (count == 0) return;
  const bool together = heads_lie_together(source);
  if (together != heads_lie_together(target)) {
    target.select(0, to).slice(1, 0, count).copy_from(source.select(0, from).slice(1, 0, count));
    return;
  }
  const int64_t columns = source.rank() > 3 ? source.size(3) : 1;
  const int64_t heads = source.size(1), copies = together ? 1 : heads, rows = together ? heads * count : count;
  for (int64_t h = 0; h < copies; ++h) {
    std::memcpy(row_at(target, to, h, 0), row_at(source, from, h, 0),
                static_cast<size_t>(rows * columns * size_of(source.dtype())));
  }
}

// `pieces[r]`, whose first counts[r] rows matter, becomes piece r of `target`.
void gather(const Tensor& source, std::span<const int64_t> pieces, std::span<const int64_t> counts,
            const Tensor& target) {
  const int64_t columns = source.rank() > 3 ? source.size(3) : 1;
  const int64_t longest = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
  parallel_for(static_cast<int64_t>(pieces.size()), kCopyGrain / (source.size(1) * longest * columns + 1) + 1,
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end; ++r)
                   copy_piece(source, pieces[static_cast<size_t>(r)], target, r, counts[static_cast<size_t>(r)]);
               });
}

// Rows [old, old + count) of a sequence's piece, whose heads lie together, from source[i] on.
void append_together(const Tensor& source, int64_t i, const Tensor& target, int64_t piece, int64_t old, int64_t count,
                     bool key) {
  const int64_t heads = source.size(1), size = source.size(3);
  const float* row = source.data<float>() + i * source.stride(0);
  for (int64_t j = old; j < old + count; ++j, row += source.stride(2)) {
    auto* const to = static_cast<float*>(row_at(target, piece, 0, j));
    if (key) {
      kernels::interleave_heads(row, source.stride(1), heads, size, to);
    } else {
      for (int64_t h = 0; h < heads; ++h)
        std::memcpy(to + h * size, row + h * source.stride(1), static_cast<size_t>(size) * sizeof(float));
    }
  }
}

}  // namespace

AttentionResult attention(const Tensor& query, const KeyValueCache& cache, const AttentionOptions& options) {
  return attention(query, cache.memory(), options);
}

KeyValueCache::KeyValueCache(int64_t batch, int64_t heads, int64_t capacity, int64_t size, int64_t value_size)
    : KeyValueCache(batch, heads, capacity, size, value_size, Options{}) {}

KeyValueCache::KeyValueCache(int64_t batch, int64_t heads, int64_t capacity, int64_t size, int64_t value_size,
                             const Options& options)
    : capacity_(capacity),
      together_(options.heads_together && options.page == 0 && options.dtype == DType::f32 &&
                kernels::fits_heads_decode(heads, size, value_size)),
      page_(options.page),
      fixed_pages_(options.pages > 0) {
  constexpr std::string_view kName = "KeyValueCache";
  require(batch >= 1 && heads >= 1, kName, "a batch and heads of 1 or more; found ", batch, " and ", heads);
  require(capacity >= 0 && size >= 0 && value_size >= 0, kName, "a capacity and sizes of 0 or more; found ", capacity,
          ", ", size, " and ", value_size);
  require(capacity <= INT32_MAX, kName, "a capacity below 2^31; found ", capacity);
  require(is_element(options.dtype), kName, "a dtype of f32, bf16, f16 or i8; found ", options.dtype);
  require(options.page >= 0 && options.pages >= 0, kName, "a page and a number of pages of 0 or more; found ",
          options.page, " and ", options.pages);
  require(options.pages == 0 || options.page > 0, kName, "the size of a page where there are pages; found 0");
  memory_.key = Tensor::empty({0, heads, 0, size}, options.dtype);
  memory_.value = Tensor::empty({0, heads, 0, value_size}, options.dtype);
  if (options.dtype == DType::i8) {
    memory_.key_scales = Tensor::empty({0, heads, 0});
    memory_.value_scales = Tensor::empty({0, heads, 0});
  }
  memory_.lengths = Tensor::zeros({batch}, DType::i32);
  if (page_ == 0) {
    resize(batch, capacity);
    return;
  }
  const int64_t each = pages_for(capacity);
  require(each <= INT32_MAX / batch, kName, "fewer than 2^31 pages; found ", each, " for each of ", batch,
          " sequences");
  require(options.pages <= INT32_MAX, kName, "fewer than 2^31 pages; found ", options.pages);
  memory_.pages = Tensor::zeros({batch, each}, DType::i32);
  resize(fixed_pages_ ? options.pages : batch * each, page_);
}

// Gives the memory `pieces` pieces of `rows` rows; what they hold stays.
void KeyValueCache::resize(int64_t pieces, int64_t rows) {
  const int64_t before = memory_.key.size(0), kept = std::min(rows, memory_.key.size(2));
  std::vector<int64_t> from(static_cast<size_t>(pieces)), counts(static_cast<size_t>(pieces));
  for (int64_t p = 0; p < std::min(pieces, paged() ? before : batch()) && before > 0; ++p) {
    from[static_cast<size_t>(p)] = paged() ? p : piece_of(p);
    counts[static_cast<size_t>(p)] = paged() ? kept : std::min<int64_t>(kept, length(p));
  }
  gather_pieces(from, counts, rows);
  if (!paged()) {
    memory_.pieces = {};
    return;
  }
  users_.resize(static_cast<size_t>(pieces), 0);
  std::vector<int32_t> free;  // the new ones below those that were free already
  for (int64_t p = pieces; p-- > before;) free.push_back(static_cast<int32_t>(p));
  free_.insert(free_.begin(), free.begin(), free.end());
}

void KeyValueCache::gather_pieces(std::span<const int64_t> from, std::span<const int64_t> counts, int64_t rows) {
  const auto pieces = static_cast<int64_t>(from.size());
  const bool together = together_ && rows <= kMostTogether;
  for (Tensor* const x : tensors_of(memory_)) {
    Tensor target;
    if (!together) {
      target = empty_pieces(*x, pieces, rows);
    } else if (x == &memory_.key) {
      target = empty_keys_together(pieces, x->size(1), rows, x->size(3));
    } else {
      target = empty_values_together(pieces, x->size(1), rows, x->size(3));
    }
    gather(*x, from, counts, target);
    *x = target;
  }
}

int32_t& KeyValueCache::page_of(int64_t sequence, int64_t n) {
  return memory_.pages.data<int32_t>()[sequence * memory_.pages.stride(0) + n];
}

int64_t KeyValueCache::piece_of(int64_t sequence) const {
  return memory_.pieces.defined() ? memory_.pieces.data<int32_t>()[sequence] : sequence;
}

void KeyValueCache::release(int32_t page) {
  if (--users_[static_cast<size_t>(page)] == 0) free_.push_back(page);
}

void KeyValueCache::require_fit(int64_t sequences, const Tensor& key, const Tensor& value,
                                const Tensor& lengths) const {
  constexpr std::string_view kName = "KeyValueCache::append";
  const int64_t heads = memory_.key.size(1);
  require(key.defined() && value.defined() && key.rank() == 4 && value.rank() == 4, kName,
          "key (B, Hkv, n, D) and value (B, Hkv, n, Dv); found ", key.shape(), " and ", value.shape());
  const Shape key_shape = {sequences, heads, key.size(2), memory_.key.size(3)};
  const Shape value_shape = {sequences, heads, key.size(2), memory_.value.size(3)};
  require(key.shape() == key_shape && value.shape() == value_shape, kName, "key ", key_shape, " and value ",
          value_shape, "; found ", key.shape(), " and ", value.shape());
  for (const Tensor* x : {&key, &value}) {
    require(x->dtype() == DType::f32 || is_half(x->dtype()), kName, "key and value in f32, bf16 or f16; found ",
            x->dtype());
  }
  require(!lengths.defined() || (lengths.shape() == Shape({sequences}) && lengths.dtype() == DType::i32), kName,
          "lengths of shape (B) = (", sequences, ") in i32; found ", lengths.shape());
}

void KeyValueCache::append(const Tensor& key, const Tensor& value, const Tensor& lengths) {
  std::vector<int64_t> all(static_cast<size_t>(batch()));
  std::iota(all.begin(), all.end(), 0);
  append_to(all, key, value, lengths);
}

void KeyValueCache::append_to(std::span<const int64_t> sequences, const Tensor& key, const Tensor& value,
                              const Tensor& lengths) {
  constexpr std::string_view kName = "KeyValueCache::append";
  require_fit(std::ssize(sequences), key, value, lengths);
  const int64_t rows = key.size(2), heads = key.size(1), most = capacity_ > 0 ? capacity_ : INT32_MAX;
  std::vector<int64_t> added(static_cast<size_t>(batch()), 0);
  std::vector<uint8_t> named(added.size(), 0);
  for (int64_t i = 0; i < std::ssize(sequences); ++i) {
    const int64_t b = sequences[static_cast<size_t>(i)];
    require(b >= 0 && b < batch() && named[static_cast<size_t>(b)] == 0, kName, "sequences below ", batch(),
            ", each once; found ", b);
    named[static_cast<size_t>(b)] = 1;
    int64_t& count = added[static_cast<size_t>(b)];
    count = lengths.defined() ? lengths.data<int32_t>()[i * lengths.stride(0)] : rows;
    require(count >= 0 && count <= rows, kName, "lengths from 0 to n = ", rows, "; found ", count, " for sequence ", b);
    require(length(b) + count <= most, kName, "room within the capacity of ", most, "; found ", length(b), " keys and ",
            count, " more for sequence ", b);
  }
  // Nothing is written before all is checked and there is memory for everything.
  if (paged()) {
    make_pages(added);
  } else {
    make_room(added);
  }
  const auto write = [&](const Tensor& from, const Tensor& to, const Tensor& scales) {
    const int64_t size = from.size(3);
    const Tensor source =
        from.dtype() == DType::f32 && (size <= 1 || from.stride(3) == 1) ? from : from.to(DType::f32).contiguous();
    const bool copied = to.dtype() == DType::f32;
    if (heads_lie_together(to)) {
      parallel_for(std::ssize(sequences), 1 + 16384 / (rows * heads * size + 1), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t b = sequences[static_cast<size_t>(i)];
          append_together(source, i, to, piece_of(b), length(b), added[static_cast<size_t>(b)], &to == &memory_.key);
        }
      });
      return;
    }
    parallel_for(std::ssize(sequences) * heads, 1 + 16384 / (rows * size + 1), [&](int64_t begin, int64_t end) {
      for (int64_t index = begin; index < end; ++index) {
        const int64_t i = index / heads, h = index % heads, b = sequences[static_cast<size_t>(i)], old = length(b);
        const float* row = source.data<float>() + i * source.stride(0) + h * source.stride(1);
        for (int64_t j = old; j < old + added[static_cast<size_t>(b)]; ++j, row += source.stride(2)) {
          const int64_t piece = paged() ? page_of(b, j / page_) : piece_of(b), at = paged() ? j % page_ : j;
          void* const target = row_at(to, piece, h, at);
          if (copied) {
            std::memcpy(target, row, static_cast<size_t>(size) * sizeof(float));
          } else {
            float* const scale = scales.defined() ? static_cast<float*>(row_at(scales, piece, h, at)) : nullptr;
            kernels::store_cache_row(row, size, element_of(to.dtype()), target, scale);
          }
        }
      }
    });
  };
  write(key, memory_.key, memory_.key_scales);
  write(value, memory_.value, memory_.value_scales);
  for (int64_t b = 0; b < batch(); ++b) {
    memory_.lengths.data<int32_t>()[b] += static_cast<int32_t>(added[static_cast<size_t>(b)]);
  }
}

// In one piece: the pieces become twice as long where the cache grows.
void KeyValueCache::make_room(std::span<const int64_t> added) {
  int64_t longest = 0;
  for (int64_t b = 0; b < batch(); ++b) longest = std::max(longest, length(b) + added[static_cast<size_t>(b)]);
  const int64_t room = memory_.key.size(2);
  if (longest > room) resize(batch(), std::max({longest, 2 * room, kFirstRoom}));
}

// In pages: new ones for what is added, and a copy of a last page that other sequences use too.
void KeyValueCache::make_pages(std::span<const int64_t> added) {
  int64_t needed = 0, widest = 0;
  // True where sequence b is about to write into a page of several.
  const auto splits = [&](int64_t b, const std::vector<int32_t>& users) {
    return added[static_cast<size_t>(b)] > 0 && length(b) % page_ != 0 &&
           users[static_cast<size_t>(page_of(b, length(b) / page_))] > 1;
  };
  std::vector<int32_t> users = users_;  // as they will be: the last of them need not copy
  for (int64_t b = 0; b < batch(); ++b) {
    const int64_t pages = pages_for(length(b) + added[static_cast<size_t>(b)]);
    needed += pages - pages_for(length(b));
    widest = std::max(widest, pages);
    if (!splits(b, users)) continue;
    ++needed;
    --users[static_cast<size_t>(page_of(b, length(b) / page_))];
  }
  if (needed > free_pages()) {
    require(!fixed_pages_, "KeyValueCache::append", "pages that suffice; found ", free_pages(), " free of ", needed,
            " needed");
    const int64_t pages = memory_.key.size(0);
    resize(std::max({pages + needed - free_pages(), 2 * pages, kFirstRoom}), page_);
  }
  if (widest > memory_.pages.size(1)) {
    const int64_t before = memory_.pages.size(1);
    const Tensor table = Tensor::zeros({batch(), std::max(widest, 2 * before)}, DType::i32);
    if (before > 0) table.slice(1, 0, before).copy_from(memory_.pages);
    memory_.pages = table;
  }
  const auto take = [&] {
    const int32_t page = free_.back();
    free_.pop_back();
    users_[static_cast<size_t>(page)] = 1;
    return page;
  };
  for (int64_t b = 0; b < batch(); ++b) {
    const int64_t last = length(b) / page_;
    if (splits(b, users_)) {
      const int32_t shared = page_of(b, last), own = take();
      for (Tensor* const x : tensors_of(memory_)) copy_piece(*x, shared, *x, own, length(b) % page_);
      page_of(b, last) = own;
      release(shared);
    }
    for (int64_t n = pages_for(length(b)); n < pages_for(length(b) + added[static_cast<size_t>(b)]); ++n)
      page_of(b, n) = take();
  }
}

void KeyValueCache::truncate(int64_t sequence, int64_t length) {
  const int64_t before = this->length(sequence);
  require(length >= 0 && length <= before, "KeyValueCache::truncate", "a length from 0 to ", before, "; found ",
          length);
  memory_.lengths.data<int32_t>()[sequence] = static_cast<int32_t>(length);
  if (!paged()) return;
  for (int64_t n = pages_for(before); n-- > pages_for(length);) release(page_of(sequence, n));
}

// Without pages: gives each of `rows` a piece that holds what that sequence holds.
void KeyValueCache::fork_pieces(std::span<const int64_t> rows, std::span<const int64_t> lengths) {
  const int64_t pieces = memory_.key.size(0);
  if (static_cast<int64_t>(rows.size()) > pieces) {
    std::vector<int64_t> from;
    for (const int64_t row : rows) from.push_back(piece_of(row));
    gather_pieces(from, lengths, memory_.key.size(2));
    memory_.pieces = {};
    return;
  }
  std::vector<uint8_t> in_use(static_cast<size_t>(pieces), 0), kept(static_cast<size_t>(pieces), 0);
  for (const int64_t row : rows) in_use[static_cast<size_t>(piece_of(row))] = 1;
  const Tensor table = Tensor::empty({static_cast<int64_t>(rows.size())}, DType::i32);
  struct Copy {
    int64_t from, to, count;
  };
  std::vector<Copy> copies;
  int64_t free = 0, longest = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    int64_t piece = piece_of(rows[r]);
    if (kept[static_cast<size_t>(piece)] != 0) {
      while (in_use[static_cast<size_t>(free)] != 0) ++free;
      copies.push_back({piece, free, lengths[r]});
      longest = std::max(longest, lengths[r]);
      piece = free++;
    }
    kept[static_cast<size_t>(piece)] = 1;
    table.data<int32_t>()[r] = static_cast<int32_t>(piece);
  }
  for (Tensor* const x : tensors_of(memory_)) {
    const int64_t numbers = x->size(1) * longest * (x->rank() > 3 ? x->size(3) : 1);
    parallel_for(static_cast<int64_t>(copies.size()), kCopyGrain / (numbers + 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Copy& copy = copies[static_cast<size_t>(i)];
        copy_piece(*x, copy.from, *x, copy.to, copy.count);
      }
    });
  }
  memory_.pieces = table;
}

void KeyValueCache::reorder(std::span<const int64_t> rows) {
  const int64_t before = batch(), after = static_cast<int64_t>(rows.size());
  require(after >= 1, "KeyValueCache::reorder", "at least one sequence; found none");
  std::vector<int64_t> lengths;
  for (int64_t r = 0; r < after; ++r) {
    const int64_t row = rows[static_cast<size_t>(r)];
    require(row >= 0 && row < before, "KeyValueCache::reorder", "sequences below ", before, "; found ", row);
    lengths.push_back(length(row));
  }
  if (paged()) {
    const Tensor table = Tensor::zeros({after, memory_.pages.size(1)}, DType::i32);
    for (int64_t r = 0; r < after; ++r) {
      for (int64_t n = 0; n < pages_for(lengths[static_cast<size_t>(r)]); ++n) {
        const int32_t page = page_of(rows[static_cast<size_t>(r)], n);
        table.data<int32_t>()[r * table.stride(0) + n] = page;
        ++users_[static_cast<size_t>(page)];
      }
    }
    for (int64_t b = 0; b < before; ++b) {
      for (int64_t n = pages_for(length(b)); n-- > 0;) release(page_of(b, n));
    }
    memory_.pages = table;
  } else {
    fork_pieces(rows, lengths);
  }
  memory_.lengths = Tensor::empty({after}, DType::i32);
  for (int64_t r = 0; r < after; ++r)
    memory_.lengths.data<int32_t>()[r] = static_cast<int32_t>(lengths[static_cast<size_t>(r)]);
}

KeyValues KeyValueCache::memory_of(std::span<const int64_t> sequences) const {
  KeyValues some = memory_;
  const auto count = static_cast<int64_t>(sequences.size());
  some.lengths = Tensor::empty({count}, DType::i32);
  some.pieces = paged() ? Tensor() : Tensor::empty({count}, DType::i32);
  some.pages = paged() ? Tensor::empty({count, memory_.pages.size(1)}, DType::i32) : Tensor();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t b = sequences[static_cast<size_t>(i)];
    some.lengths.data<int32_t>()[i] = static_cast<int32_t>(length(b));
    if (paged()) {
      some.pages.select(0, i).copy_from(memory_.pages.select(0, b));
    } else {
      some.pieces.data<int32_t>()[i] = static_cast<int32_t>(piece_of(b));
    }
  }
  return some;
}

int64_t KeyValueCache::length(int64_t sequence) const {
  require(sequence >= 0 && sequence < batch(), "KeyValueCache", "a sequence below ", batch(), "; found ", sequence);
  return memory_.lengths.data<int32_t>()[sequence];
}

int64_t KeyValueCache::nbytes() const {
  int64_t sum = 0;
  for (const Tensor* x :
       {&memory_.key, &memory_.value, &memory_.key_scales, &memory_.value_scales, &memory_.pages, &memory_.pieces}) {
    if (x->defined()) sum += x->nbytes();
  }
  return sum;
}

}  // namespace heed
