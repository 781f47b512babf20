// A tile of queries, a block of keys, and which of their pairs are attended.
#if defined(HEED_KERNELS_ATTENTION_TILE_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_TILE_TILE_INL_H_
#undef HEED_KERNELS_ATTENTION_TILE_TILE_INL_H_
#else
#define HEED_KERNELS_ATTENTION_TILE_TILE_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "kernels/attention/group.h"
#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

using kernels::AttentionGroup;
using kernels::kBlockKeys;
using kernels::kTileQueries;
using kernels::padded;

// Which pairs of a tile and a block are attended, or kept by dropout: for each lane one bit a key, the low 32 keys in
// word[0] and the high ones in word[1].
struct Bits {
  HWY_ALIGN uint32_t word[2][kTileQueries];
  void set(int64_t lane, uint64_t bits) {
    word[0][lane] = static_cast<uint32_t>(bits);
    word[1][lane] = static_cast<uint32_t>(bits >> 32);
  }
};

HWY_INLINE auto test_bit(const uint32_t (&word)[2][kTileQueries], int64_t key, int64_t lane) {
  const UV words = hn::Load(kU, word[key / 32] + lane);
  const UV bit = hn::Set(kU, uint32_t{1} << (key % 32));
  return hn::RebindMask(kF, hn::Ne(hn::And(words, bit), hn::Zero(kU)));
}

inline uint64_t low_bits(int64_t count) { return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1; }

// Up to kTileQueries rows of the group. Lanes beyond `rows` repeat row 0, and nothing of them is written.
struct Tile {
  const AttentionGroup& group;
  int64_t rows, width;         // width: rows rounded up to 16
  int64_t begin, end;          // keys that any row may see by position
  int64_t all_begin, all_end;  // keys that every row may see by position
  int64_t head[kTileQueries], query[kTileQueries];
  int64_t first_key[kTileQueries], last_key[kTileQueries];

  Tile(const AttentionGroup& g, int64_t first, int64_t count)
      : group(g), rows(count), width(padded(count)), begin(g.keys), end(0), all_begin(0), all_end(g.keys) {
    int64_t h = 0, i = first;
    if (first >= g.queries) h = first / g.queries, i = first % g.queries;  // the division takes some 80 cycles
    for (int64_t r = 0; r < width; ++r) {
      head[r] = r < rows ? h : head[0];
      query[r] = r < rows ? i : query[0];
      if (++i == g.queries) i = 0, ++h;
    }
    if (g.queries - 1 + g.first_shift <= 0 && g.last_shift >= g.keys) {  // all rows see all keys
      std::fill_n(first_key, width, 0);
      std::fill_n(last_key, width, g.keys);
      begin = 0, end = g.keys;
      return;
    }
    for (int64_t r = 0; r < width; ++r) {
      first_key[r] = std::clamp<int64_t>(query[r] + g.first_shift, 0, g.keys);
      last_key[r] = std::max(first_key[r], std::clamp<int64_t>(query[r] + g.last_shift, 0, g.keys));
      if (first_key[r] < last_key[r]) {
        begin = std::min(begin, first_key[r]);
        end = std::max(end, last_key[r]);
      }
      all_begin = std::max(all_begin, first_key[r]);
      all_end = std::min(all_end, last_key[r]);
    }
  }
};

// The keys of a block that a tile visits: [from, from + count). `from` is a multiple of 8, as dropout draws random
// numbers for eight keys together.
struct Block {
  int64_t from, count;
};
inline Block clip(const Tile& tile, int64_t block_begin, int64_t begin, int64_t end) {
  const int64_t from = std::max({block_begin, tile.begin / 8 * 8, begin});
  const int64_t to = std::min({block_begin + kBlockKeys, tile.end, end});
  return {from, std::max<int64_t>(0, to - from)};
}

enum class Coverage { none, part, all };

inline uint64_t mask_bits(const bool* mask, int64_t stride, int64_t count) {
  uint64_t bits = 0;
  int64_t j = 0;
  if (stride == 1) {
    for (; j + 8 <= count; j += 8) {
      uint64_t bytes;  // eight bytes of 0 or 1: the product brings one bit of each to the top byte
      std::memcpy(&bytes, mask + j, 8);
      bits |= (((bytes & 0x0101010101010101u) * 0x0102040810204080u) >> 56) << j;
    }
  }
  for (; j < count; ++j) bits |= uint64_t{mask[j * stride]} << j;
  return bits;
}

inline uint64_t document_bits(int32_t document, const int32_t* keys, int64_t stride, int64_t count) {
  uint64_t bits = 0;
  for (int64_t j = 0; j < count; ++j) bits |= uint64_t{keys[j * stride] == document} << j;
  return bits;
}

// Which pairs of the block are attended by position, boolean mask and documents. `bits` is filled unless the answer is
// `all` and there is no bias. (A bias of -inf clears more bits later.)
inline Coverage find_attended(const Tile& tile, const Block& block, Bits& bits) {
  const AttentionGroup& g = tile.group;
  const bool simple = g.mask.data == nullptr && g.query_documents.data == nullptr;
  if (simple && g.bias.data == nullptr && tile.all_begin <= block.from && block.from + block.count <= tile.all_end) {
    return Coverage::all;
  }
  const uint64_t full = low_bits(block.count);
  const bool one_mask = g.mask.head == 0 && g.mask.row == 0;
  uint64_t any = 0, every = full, shared_mask = full;
  if (g.mask.data != nullptr && one_mask) {
    shared_mask = mask_bits(g.mask.data + block.from * g.mask.column, g.mask.column, block.count);
  }
  for (int64_t r = 0; r < tile.width; ++r) {
    if (r >= tile.rows) {
      bits.word[0][r] = bits.word[0][0];
      bits.word[1][r] = bits.word[1][0];
      continue;
    }
    const int64_t from = std::clamp<int64_t>(tile.first_key[r] - block.from, 0, block.count);
    const int64_t to = std::clamp<int64_t>(tile.last_key[r] - block.from, from, block.count);
    uint64_t attended = low_bits(to) & ~low_bits(from) & shared_mask;
    if (g.mask.data != nullptr && !one_mask && attended != 0) {
      attended &=
          mask_bits(g.mask.at(tile.head[r], tile.query[r]) + block.from * g.mask.column, g.mask.column, block.count);
    }
    if (g.query_documents.data != nullptr && attended != 0) {
      attended &=
          document_bits(*g.query_documents.at(0, tile.query[r]),
                        g.key_documents.data + block.from * g.key_documents.row, g.key_documents.row, block.count);
    }
    any |= attended;
    every &= attended;
    bits.set(r, attended);
  }
  return any == 0 ? Coverage::none : every == full ? Coverage::all : Coverage::part;
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
