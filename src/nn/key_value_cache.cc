// KeyValueCache: keys and values of the positions already seen.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/threads.h"
#include "heed/error.h"
#include "heed/nn.h"

namespace heed::nn {
namespace {

constexpr int64_t kFirstCapacity = 16;
constexpr int64_t kCopyGrain = 65536;  // elements a thread gets at least: appending one position needs no second thread

// to[r, h, at + l] = from[rows[r], h, l] for l < length. Both (B, Hkv, length, D) with contiguous vectors.
void copy_positions(const Tensor& from, std::span<const int64_t> rows, int64_t length, const Tensor& to, int64_t at) {
  const int64_t heads = from.size(1), size = from.size(3);
  if (size == 0 || length == 0) return;
  const float* source = from.data<float>();
  float* target = to.data<float>();
  const auto bytes = static_cast<size_t>(size) * sizeof(float);
  const bool packed = from.stride(2) == size && to.stride(2) == size;
  parallel_for(static_cast<int64_t>(rows.size()) * heads, kCopyGrain / (length * size) + 1,
               [&](int64_t begin, int64_t end) {
                 for (int64_t pair = begin; pair < end; ++pair) {
                   const int64_t row = pair / heads, head = pair % heads;
                   const float* s = source + rows[static_cast<size_t>(row)] * from.stride(0) + head * from.stride(1);
                   float* t = target + row * to.stride(0) + head * to.stride(1) + at * to.stride(2);
                   if (packed) {
                     std::memcpy(t, s, bytes * static_cast<size_t>(length));
                   } else {
                     for (int64_t l = 0; l < length; ++l)
                       std::memcpy(t + l * to.stride(2), s + l * from.stride(2), bytes);
                   }
                 }
               });
}

std::vector<int64_t> all_rows(int64_t count) {
  std::vector<int64_t> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  return rows;
}

Tensor unit_stride(const Tensor& x) { return x.size(3) <= 1 || x.stride(3) == 1 ? x : x.contiguous(); }

// A tensor of another capacity with the first `length` positions of the given rows.
Tensor moved(const Tensor& from, std::span<const int64_t> rows, int64_t length, int64_t capacity) {
  Tensor to = Tensor::empty({static_cast<int64_t>(rows.size()), from.size(1), capacity, from.size(3)});
  copy_positions(from, rows, length, to, 0);
  return to;
}

}  // namespace

void KeyValueCache::append(const Tensor& key, const Tensor& value) {
  require(key.rank() == 4 && value.rank() == 4, "KeyValueCache::append", "key and value (B, Hkv, L, D); found ",
          key.shape(), " and ", value.shape());
  const int64_t batch = key.size(0), heads = key.size(1), added = key.size(2);
  require(value.size(0) == batch && value.size(1) == heads && value.size(2) == added, "KeyValueCache::append",
          "key and value of the same batch, heads and length; found ", key.shape(), " and ", value.shape());
  const std::vector<int64_t> rows = all_rows(batch);
  if (!keys.defined()) {
    const int64_t capacity = std::max(added, kFirstCapacity);
    keys = Tensor::empty({batch, heads, capacity, key.size(3)});
    values = Tensor::empty({batch, heads, capacity, value.size(3)});
  }
  require(
      keys.size(0) == batch && keys.size(1) == heads && keys.size(3) == key.size(3) && values.size(3) == value.size(3),
      "KeyValueCache::append", "what fits the cache ", keys.shape(), " and ", values.shape(), "; found ", key.shape(),
      " and ", value.shape());
  if (length + added > keys.size(2)) {
    const int64_t capacity = std::max(length + added, 2 * keys.size(2));
    keys = moved(keys, rows, length, capacity);
    values = moved(values, rows, length, capacity);
  }
  copy_positions(unit_stride(key), rows, added, keys, length);
  copy_positions(unit_stride(value), rows, added, values, length);
  length += added;
}

void KeyValueCache::reorder(std::span<const int64_t> rows) {
  if (!keys.defined()) return;
  const int64_t before = keys.size(0), after = static_cast<int64_t>(rows.size());
  bool in_place = after <= before;
  for (int64_t r = 0; r < after; ++r) {
    const int64_t row = rows[static_cast<size_t>(r)];
    require(row >= 0 && row < before, "KeyValueCache::reorder", "rows below ", before, "; found ", row);
    in_place = in_place && row == r;
  }
  if (in_place) {
    keys = keys.slice(0, 0, after);
    values = values.slice(0, 0, after);
  } else {
    keys = moved(keys, rows, length, keys.size(2));
    values = moved(values, rows, length, values.size(2));
  }
}

}  // namespace heed::nn
