// What forward and backward share of a tile: which keys each lane may see, packing, and the rules that act on scores.
#if defined(HEED_KERNELS_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_TILE_INL_H_
#undef HEED_KERNELS_ATTENTION_TILE_INL_H_
#else
#define HEED_KERNELS_ATTENTION_TILE_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "base/philox.h"
#include "kernels/attention.h"
#include "kernels/attention_multiply-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

using kernels::AttentionGroup;
using kernels::kBlockKeys;
using kernels::kTileRows;
using kernels::padded;

// A bit a key of the block, a word a lane: low 32 keys, then high. A set bit lets the pair through.
struct Bits {
  HWY_ALIGN uint32_t word[2][kTileRows];
  void set(int64_t lane, uint64_t bits) {
    word[0][lane] = static_cast<uint32_t>(bits);
    word[1][lane] = static_cast<uint32_t>(bits >> 32);
  }
};

HWY_INLINE auto test_bit(const uint32_t (&word)[2][kTileRows], int64_t key, int64_t lane) {
  const UV words = hn::Load(kU, word[key / 32] + lane);
  const UV bit = hn::Set(kU, uint32_t{1} << (key % 32));
  return hn::RebindMask(kF, hn::Ne(hn::And(words, bit), hn::Zero(kU)));
}

inline uint64_t low_bits(int64_t count) { return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1; }

// Up to 48 rows of the group. Lanes beyond `rows` repeat row 0; nothing of them is written.
struct Tile {
  const AttentionGroup& group;
  int64_t rows, width;         // width: rows rounded up to 16
  int64_t begin, end;          // keys that any row may see by position
  int64_t all_begin, all_end;  // keys that every row may see by position
  int64_t head[kTileRows], query[kTileRows];
  int64_t first_key[kTileRows], last_key[kTileRows];

  Tile(const AttentionGroup& g, int64_t first, int64_t count)
      : group(g), rows(count), width(padded(count)), begin(g.keys), end(0), all_begin(0), all_end(g.keys) {
    int64_t h = 0, i = first;
    if (first >= g.queries) h = first / g.queries, i = first % g.queries;  // some 80 cycles
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

// The keys of a block that a tile visits: [from, from + count), from a multiple of 8 (a dropout block).
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
      uint64_t bytes;  // eight bytes of 0 or 1: the product brings one bit of each into the top byte
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

// Which pairs of the block are attended, by position, boolean mask and documents. `bits` is filled unless the answer is
// `all` and there is no bias (whose -inf may clear more).
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

#if HWY_TARGET != HWY_SCALAR
using Quad = hn::CappedTag<float, 4>;
constexpr Quad kQuad;
constexpr int64_t kQuads = kLanes / 4;  // 128-bit blocks of a vector

// The four 4 x 4 transposes within 128-bit blocks: element m of block b of in[n] becomes element n of block b of
// out[m].
HWY_INLINE void transpose_blocks(FV (&v)[4]) {
  const FV ac_low = hn::InterleaveLower(kF, v[0], v[2]), bd_low = hn::InterleaveLower(kF, v[1], v[3]);
  const FV ac_high = hn::InterleaveUpper(kF, v[0], v[2]), bd_high = hn::InterleaveUpper(kF, v[1], v[3]);
  v[0] = hn::InterleaveLower(kF, ac_low, bd_low);
  v[1] = hn::InterleaveUpper(kF, ac_low, bd_low);
  v[2] = hn::InterleaveLower(kF, ac_high, bd_high);
  v[3] = hn::InterleaveUpper(kF, ac_high, bd_high);
}

// Four floats at column c of rows[0], rows[4], ... as the blocks of one vector: in registers, because a load across
// several just written stores would wait for them all to reach the cache.
HWY_INLINE FV load_blocks(const float* const* rows, int64_t c) {
#if HWY_TARGET <= HWY_AVX3
  const hn::Half<F> half;
  return hn::Combine(kF, hn::Combine(half, hn::LoadU(kQuad, rows[12] + c), hn::LoadU(kQuad, rows[8] + c)),
                     hn::Combine(half, hn::LoadU(kQuad, rows[4] + c), hn::LoadU(kQuad, rows[0] + c)));
#elif HWY_TARGET == HWY_AVX2
  return hn::Combine(kF, hn::LoadU(kQuad, rows[4] + c), hn::LoadU(kQuad, rows[0] + c));
#else
  return hn::LoadU(kQuad, rows[0] + c);
#endif
}

// The other way round.
HWY_INLINE void store_blocks(FV v, float* const* rows, int64_t c) {
#if HWY_TARGET <= HWY_AVX3
  const hn::Half<F> half;
  const auto low = hn::LowerHalf(half, v), high = hn::UpperHalf(half, v);
  hn::StoreU(hn::LowerHalf(kQuad, low), kQuad, rows[0] + c);
  hn::StoreU(hn::UpperHalf(kQuad, low), kQuad, rows[4] + c);
  hn::StoreU(hn::LowerHalf(kQuad, high), kQuad, rows[8] + c);
  hn::StoreU(hn::UpperHalf(kQuad, high), kQuad, rows[12] + c);
#elif HWY_TARGET == HWY_AVX2
  hn::StoreU(hn::LowerHalf(kQuad, v), kQuad, rows[0] + c);
  hn::StoreU(hn::UpperHalf(kQuad, v), kQuad, rows[4] + c);
#else
  hn::StoreU(v, kQuad, rows[0] + c);
#endif
}

// Columns of rows that are far apart, beside each other. Rows some power of two apart share a few sets of the L1 cache;
// 48 of them, walked over four columns at a time, would be fetched again for every step (16 heads forward: 1.5 %
// slower; with a bias: 4 %).
constexpr int64_t kNear = 64;
struct Near {
  HWY_ALIGN float memory[kTileRows * kNear];
  float* rows[kTileRows];
  void prepare(int64_t width) {
    for (int64_t r = 0; r < width; ++r) rows[r] = memory + r * kNear;
  }
};
// Whether more of these rows share a set than a cache of 8 ways and 4 KB a way holds.
HWY_INLINE bool crowd(const float* const* rows, int64_t count) {
  if (count <= 8) return false;
  const int64_t stride = (rows[1] - rows[0]) * 4, power_of_two = stride & -stride;
  return count * std::min<int64_t>(power_of_two, 4096) > 8 * 4096;
}
#endif

// destination[c][r] = scale * source row r, column c. Lanes beyond the tile's rows repeat row 0.
inline void pack_columns(const Tile& tile, const kernels::Strided<const float>& source, int64_t columns, float scale,
                         float* HWY_RESTRICT destination) {
  const int64_t width = tile.width;
  const float* rows[kTileRows];
  for (int64_t r = 0; r < width; ++r) rows[r] = source.at(tile.head[r], tile.query[r]);
  int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  if (source.column == 1) {
    Near near;
    const bool crowded = crowd(rows, tile.rows);
    if (crowded) near.prepare(width);
    const int64_t whole = columns / 4 * 4;
    for (; c < whole; c += std::min(kNear, whole - c)) {
      const int64_t count = std::min(kNear, whole - c), first = crowded ? 0 : c;
      const float* const* const lines = crowded ? near.rows : rows;
      for (int64_t r = 0; crowded && r < width; ++r) {
        int64_t n = 0;
        for (; n + kLanes <= count; n += kLanes) hn::Store(hn::LoadU(kF, rows[r] + c + n), kF, near.rows[r] + n);
        for (; n < count; n += 4) hn::Store(hn::LoadU(kQuad, rows[r] + c + n), kQuad, near.rows[r] + n);
      }
      for (int64_t at = 0; at < count; at += 4) {
        for (int64_t lane = 0; lane < width; lane += kLanes) {
          FV v[4];
          HWY_UNROLL(4)
          for (int n = 0; n < 4; ++n) v[n] = load_blocks(lines + lane + n, first + at);
          transpose_blocks(v);
          HWY_UNROLL(4)
          for (int n = 0; n < 4; ++n) {
            hn::Store(hn::Mul(v[n], all(scale)), kF, destination + (c + at + n) * width + lane);
          }
        }
      }
    }
  }
#endif
  for (; c < columns; ++c) {
    for (int64_t r = 0; r < width; ++r) destination[c * width + r] = rows[r][c * source.column] * scale;
  }
}

// destination row r, column c = f(source[c][r], r): f maps a vector of lanes. Unit column stride.
template <class Map>
HWY_INLINE void unpack_columns(const Tile& tile, const float* HWY_RESTRICT source, int64_t columns,
                               float* const* destination, const Map& f) {
  const int64_t width = tile.width;
  int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  Near near;
  const bool direct = tile.rows == width && !crowd(destination, tile.rows);
  if (!direct) near.prepare(width);
  const int64_t whole = columns / 4 * 4;
  for (; c < whole; c += std::min(kNear, whole - c)) {
    const int64_t count = std::min(kNear, whole - c), first = direct ? c : 0;
    float* const* const lines = direct ? destination : near.rows;
    for (int64_t at = 0; at < count; at += 4) {
      for (int64_t lane = 0; lane < width; lane += kLanes) {
        FV v[4];
        HWY_UNROLL(4)
        for (int n = 0; n < 4; ++n) v[n] = f(hn::Load(kF, source + (c + at + n) * width + lane), lane);
        transpose_blocks(v);
        HWY_UNROLL(4)
        for (int n = 0; n < 4; ++n) store_blocks(v[n], lines + lane + n, first + at);
      }
    }
    for (int64_t r = 0; !direct && r < tile.rows; ++r) {
      int64_t n = 0;
      for (; n + kLanes <= count; n += kLanes) hn::StoreU(hn::Load(kF, near.rows[r] + n), kF, destination[r] + c + n);
      for (; n < count; n += 4) hn::StoreU(hn::Load(kQuad, near.rows[r] + n), kQuad, destination[r] + c + n);
    }
  }
#endif
  HWY_ALIGN float column[kLanes];
  for (; c < columns; ++c) {
    for (int64_t lane = 0; lane < width; lane += kLanes) {
      hn::Store(f(hn::Load(kF, source + c * width + lane), lane), kF, column);
      const int64_t live = std::min(kLanes, tile.rows - lane);
      for (int64_t n = 0; n < live; ++n) destination[lane + n][c] = column[n];
    }
  }
}

// The derivatives of the stages, as far as they are wanted, each (64, width).
struct StageSlopes {
  float* by_score = nullptr;  // of what leaves the last stage, by what enters the first
  float* spare = nullptr;
  float* by_entry = nullptr;  // by the entry of stage `stage`'s table
  int32_t* entry = nullptr;   // which that is
  int64_t stage = -1;
};

// `block` is filled but for the stage's own fields; `count` numbers.
inline void run_stages(const AttentionGroup& g, score::Block block, int64_t count, const StageSlopes& slopes) {
  for (int64_t n = 0; n < g.stage_count; ++n) {
    const kernels::ScoreStage& stage = g.stages[n];
    block.table = stage.table;
    block.entries = stage.entries;
    if (slopes.by_score != nullptr) {
      block.by_score = n == 0 ? slopes.by_score : slopes.spare;
      block.by_entry = n == slopes.stage ? slopes.by_entry : nullptr;
      block.entry = n == slopes.stage ? slopes.entry : nullptr;
    }
    stage.run(stage.function, block);
    if (slopes.by_score == nullptr || n == 0) continue;
    const bool after = slopes.stage >= 0 && n > slopes.stage;  // the entry's way to the result leads through this stage
    for (int64_t at = 0; at < count; at += kLanes) {
      const FV slope = hn::LoadU(kF, slopes.spare + at);
      hn::StoreU(hn::Mul(hn::LoadU(kF, slopes.by_score + at), slope), kF, slopes.by_score + at);
      if (after) hn::StoreU(hn::Mul(hn::LoadU(kF, slopes.by_entry + at), slope), kF, slopes.by_entry + at);
    }
  }
}

inline void apply_stages(const Tile& tile, const Block& block, float* scores, const StageSlopes& slopes) {
  const AttentionGroup& g = tile.group;
  HWY_ALIGN int32_t head[kTileRows], query[kTileRows], key[kTileRows];
  for (int64_t r = 0; r < tile.width; ++r) {
    head[r] = static_cast<int32_t>(g.first_head) + static_cast<int32_t>(tile.head[r]);
    query[r] = static_cast<int32_t>(tile.query[r]);
    key[r] = static_cast<int32_t>(block.from);
  }
  score::Block b;
  b.scores = scores;
  b.lines = block.count, b.width = tile.width;
  b.head = head, b.query = query, b.key = key;
  b.key_step = 1;
  b.sequence = g.sequence, b.offset = g.offset;
  run_stages(g, b, block.count * tile.width, slopes);
}

// Adds the bias; where it is -inf the score is exactly that, whatever it was, and the bit is cleared.
inline bool apply_bias(const Tile& tile, const Block& block, float* scores, float* bias, Bits& bits) {
  kernels::Strided<const float> source = tile.group.bias;
  source.data += block.from * source.column;
  pack_columns(tile, source, block.count, 1.0f, bias);
  bool cleared = false;
  for (int64_t lane = 0; lane < tile.width; lane += kLanes) {
    UV words[2] = {hn::Load(kU, bits.word[0] + lane), hn::Load(kU, bits.word[1] + lane)};
    const UV before[2] = {words[0], words[1]};
    for (int64_t j = 0; j < block.count; ++j) {
      float* const s = scores + j * tile.width + lane;
      const FV b = hn::Load(kF, bias + j * tile.width + lane);
      const auto blocked = hn::Eq(b, all(kMinusInfinity));
      const UV bit = hn::Set(kU, uint32_t{1} << (j % 32));
      words[j / 32] = hn::AndNot(hn::IfThenElseZero(hn::RebindMask(kU, blocked), bit), words[j / 32]);
      hn::Store(hn::IfThenElse(blocked, b, hn::Add(hn::Load(kF, s), b)), kF, s);
    }
    for (int half = 0; half < 2; ++half) {
      cleared = cleared || !hn::AllTrue(kU, hn::Eq(words[half], before[half]));
      hn::Store(words[half], kU, bits.word[half] + lane);
    }
  }
  return cleared;
}

inline void apply_bits(const Tile& tile, const Block& block, const Bits& bits, float* scores) {
  for (int64_t lane = 0; lane < tile.width; lane += kLanes) {
    for (int64_t j = 0; j < block.count; ++j) {
      float* const s = scores + j * tile.width + lane;
      hn::Store(hn::IfThenElse(test_bit(bits.word, j, lane), hn::Load(kF, s), all(kMinusInfinity)), kF, s);
    }
  }
}

// From products of queries and keys to scores: scores[j][r], -inf where not attended. `spare` is room for a bias tile.
// Returns whether some pair of the block is not attended; `bits` is then valid.
inline bool apply_rules(const Tile& tile, const Block& block, Coverage coverage, float* scores, float* spare,
                        const StageSlopes& slopes, Bits& bits) {
  const AttentionGroup& g = tile.group;
  if (g.stage_count > 0) apply_stages(tile, block, scores, slopes);
  bool partial = coverage == Coverage::part;
  if (g.bias.data != nullptr) partial = apply_bias(tile, block, scores, spare, bits) || partial;
  if (coverage == Coverage::part) apply_bits(tile, block, bits, scores);
  return partial;
}

// Floats of the packed queries, and behind them of the weights of additive scores.
[[nodiscard]] inline int64_t packed_queries(const AttentionGroup& g, int64_t width) {
  return (g.additive.data == nullptr ? 1 : 2) * g.size * width;
}

// The tile's queries (D, width), scaled; for additive scores followed by their weights (D, width).
inline void pack_queries(const Tile& tile, float scale, float* columns) {
  const AttentionGroup& g = tile.group;
  pack_columns(tile, g.query, g.size, scale, columns);
  if (g.additive.data != nullptr) pack_columns(tile, g.additive, g.size, 1.0f, columns + g.size * tile.width);
}

// scores (64, width) = sum_d weight_d tanh(query_d + key_d) of the block's keys.
inline void add_tangents(const Tile& tile, const Block& block, const float* columns, float* scores) {
  const AttentionGroup& g = tile.group;
  const float* const weights = columns + g.size * tile.width;
  for (int64_t j = 0; j < block.count; ++j) {
    const float* const key = g.key.at(0, block.from + j);
    for (int64_t lane = 0; lane < tile.width; lane += kLanes) {
      FV sum = hn::Zero(kF);
      for (int64_t d = 0; d < g.size; ++d) {
        const int64_t at = d * tile.width + lane;
        const FV tangent = hyperbolic_tangent(hn::Add(hn::Load(kF, columns + at), all(key[d * g.key.column])));
        sum = Fma(hn::Load(kF, weights + at), tangent, sum);
      }
      hn::Store(sum, kF, scores + j * tile.width + lane);
    }
  }
}

// The block's keys against the packed queries: scores before any rule.
inline void multiply_keys(const Tile& tile, const Block& block, const float* columns, float* scores,
                          kernels::Ahead* ahead = nullptr) {
  const AttentionGroup& g = tile.group;
  if (g.additive.data != nullptr) return add_tangents(tile, block, columns, scores);
  multiply<Into::fresh>({.c = scores,
                         .c_row = tile.width,
                         .a = g.key.data + block.from * g.key.row,
                         .a_row = g.key.row,
                         .a_depth = g.key.column,
                         .x = columns,
                         .x_row = tile.width,
                         .rows = block.count,
                         .depth = g.size,
                         .n = tile.width,
                         .ahead = ahead});
}

#if HWY_TARGET != HWY_SCALAR
HWY_INLINE void multiply_wide(UV a, uint32_t b, UV& high, UV& low) {
  const hn::Repartition<uint64_t, U> d64;
  const UV factor = hn::Set(kU, b);
  const auto even = hn::MulEven(a, factor);
  const auto odd = hn::MulEven(hn::BitCast(kU, hn::ShiftRight<32>(hn::BitCast(d64, a))), factor);
  low = hn::OddEven(hn::BitCast(kU, hn::ShiftLeft<32>(odd)), hn::BitCast(kU, even));
  high = hn::OddEven(hn::BitCast(kU, odd), hn::BitCast(kU, hn::ShiftRight<32>(even)));
}
#endif

// Which weights of the block dropout keeps: attention_dropout_keeps() for a whole tile.
inline void find_kept(const Tile& tile, const Block& block, Bits& kept) {
  const AttentionGroup& g = tile.group;
#if HWY_TARGET == HWY_SCALAR
  for (int64_t r = 0; r < tile.width; ++r) {
    const uint64_t high = (uint64_t{g.sequence} << 32) | (g.first_head + static_cast<uint32_t>(tile.head[r]));
    uint64_t bits = 0;
    for (int64_t j = 0; j < block.count; j += 8) {
      const uint64_t low = (static_cast<uint64_t>((block.from + j) / 8) << 32) | static_cast<uint32_t>(tile.query[r]);
      const auto words = philox(g.dropout_seed, high, low);
      for (size_t n = 0; n < 8; ++n) {
        const uint32_t half = (n % 2 == 0) ? words[n / 2] & 0xFFFFu : words[n / 2] >> 16;
        bits |= uint64_t{half >= g.dropout_threshold} << (j + static_cast<int64_t>(n));
      }
    }
    kept.set(r, bits);
  }
#else
  HWY_ALIGN uint32_t queries[kTileRows], heads[kTileRows];
  for (int64_t r = 0; r < tile.width; ++r) {
    queries[r] = static_cast<uint32_t>(tile.query[r]);
    heads[r] = g.first_head + static_cast<uint32_t>(tile.head[r]);
  }
  const auto threshold = hn::Set(kI, static_cast<int32_t>(g.dropout_threshold));
  for (int64_t lane = 0; lane < tile.width; lane += kLanes) {
    UV words[2] = {hn::Zero(kU), hn::Zero(kU)};
    for (int64_t j = 0; j < block.count; j += 8) {
      uint32_t k0 = static_cast<uint32_t>(g.dropout_seed), k1 = static_cast<uint32_t>(g.dropout_seed >> 32);
      UV c[4] = {hn::Load(kU, queries + lane), hn::Set(kU, static_cast<uint32_t>((block.from + j) / 8)),
                 hn::Load(kU, heads + lane), hn::Set(kU, g.sequence)};
      for (int round = 0; round < 10; ++round) {
        UV a_high, a_low, b_high, b_low;
        multiply_wide(c[0], 0xD2511F53u, a_high, a_low);
        multiply_wide(c[2], 0xCD9E8D57u, b_high, b_low);
        c[0] = hn::Xor(hn::Xor(b_high, c[1]), hn::Set(kU, k0));
        c[2] = hn::Xor(hn::Xor(a_high, c[3]), hn::Set(kU, k1));
        c[1] = b_low;
        c[3] = a_low;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
      }
      UV& word = words[j / 32];
      for (int n = 0; n < 8; ++n) {
        const UV half = n % 2 == 0 ? hn::And(c[n / 2], hn::Set(kU, 0xFFFFu)) : hn::ShiftRight<16>(c[n / 2]);
        const auto dropped = hn::RebindMask(kU, hn::Lt(hn::BitCast(kI, half), threshold));
        word = hn::Or(word, hn::IfThenZeroElse(dropped, hn::Set(kU, uint32_t{1} << (j % 32 + n))));
      }
    }
    hn::Store(words[0], kU, kept.word[0] + lane);
    hn::Store(words[1], kU, kept.word[1] + lane);
  }
#endif
}

// True when every element is finite: 0 * x is 0 for those alone.
inline bool all_finite(const float* data, int64_t row_stride, int64_t column_stride, int64_t rows, int64_t columns) {
  FV sums = hn::Zero(kF);
  float sum = 0.0f;
  for (int64_t r = 0; r < rows; ++r) {
    const float* const row = data + r * row_stride;
    int64_t c = 0;
    if (column_stride == 1) {
      for (; c + kLanes <= columns; c += kLanes) sums = hn::Add(sums, hn::Mul(hn::LoadU(kF, row + c), hn::Zero(kF)));
    }
    for (; c < columns; ++c) sum += row[c * column_stride] * 0.0f;
  }
  return sum == 0.0f && hn::AllTrue(kF, hn::Eq(sums, hn::Zero(kF)));
}

// multiply<kInto> with lanes = queries and depth = keys, where a pair that is not attended adds nothing at all: for
// blocks that hold a NaN or an infinity, which zero times would let through.
template <Into kInto>
void multiply_attended_lanes(const Product& p, const Bits& bits) {
  for (int64_t row = 0; row < p.rows; ++row) {
    for (int64_t lane = 0; lane < p.n; lane += kLanes) {
      FV sum = hn::Zero(kF);
      for (int64_t k = 0; k < p.depth; ++k) {
        const FV next = Fma(all(p.a[row * p.a_row + k * p.a_depth]), hn::Load(kF, p.x + k * p.x_row + lane), sum);
        sum = hn::IfThenElse(test_bit(bits.word, k, lane), next, sum);
      }
      float* const c = p.c + row * p.c_row + lane;
      const FV factor = kInto == Into::scaled ? hn::Load(kF, p.factors + lane) : hn::Zero(kF);
      hn::Store(combine<kInto>(kInto == Into::fresh ? factor : hn::Load(kF, c), sum, factor), kF, c);
    }
  }
}

// multiply<Into::added> likewise, with rows = keys and depth = queries.
inline void multiply_attended_depth(const Product& p, const Bits& bits) {
  for (int64_t row = 0; row < p.rows; ++row) {
    for (int64_t lane = 0; lane < p.n; lane += kLanes) {
      FV sum = hn::Zero(kF);
      for (int64_t k = 0; k < p.depth; ++k) {
        if ((bits.word[row / 32][k] >> (row % 32) & 1u) == 0) continue;
        sum = Fma(all(p.a[row * p.a_row + k * p.a_depth]), hn::Load(kF, p.x + k * p.x_row + lane), sum);
      }
      float* const c = p.c + row * p.c_row + lane;
      hn::Store(hn::Add(hn::Load(kF, c), sum), kF, c);
    }
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
