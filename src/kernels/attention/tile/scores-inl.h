// The scores of a tile against a block of keys, and what modifies them: score functions, bias and masks; and dropout.
#if defined(HEED_KERNELS_ATTENTION_TILE_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_TILE_SCORES_INL_H_
#undef HEED_KERNELS_ATTENTION_TILE_SCORES_INL_H_
#else
#define HEED_KERNELS_ATTENTION_TILE_SCORES_INL_H_
#endif

#include <algorithm>

#include "base/philox.h"
#include "kernels/attention/tile/columns-inl.h"
#include "kernels/attention/tile/multiply-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// The derivatives of the score functions, as far as they are wanted, each (64, width).
struct ScoreSlopes {
  float* by_score = nullptr;  // of the last function's result by the first one's argument
  float* spare = nullptr;
  float* by_entry = nullptr;  // by the entry of the table of function `stage`
  int32_t* entry = nullptr;   // which entry that is
  int64_t stage = -1;
};

// Runs the group's score functions on `count` scores. `block` is filled but for what belongs to one function.
inline void run_score_functions(const AttentionGroup& g, score::Block block, int64_t count, const ScoreSlopes& slopes) {
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
    const bool after = slopes.stage >= 0 && n > slopes.stage;  // the entry acts on the result through this function
    for (int64_t at = 0; at < count; at += kLanes) {
      const FV slope = hn::LoadU(kF, slopes.spare + at);
      hn::StoreU(hn::Mul(hn::LoadU(kF, slopes.by_score + at), slope), kF, slopes.by_score + at);
      if (after) hn::StoreU(hn::Mul(hn::LoadU(kF, slopes.by_entry + at), slope), kF, slopes.by_entry + at);
    }
  }
}

inline void apply_score_functions(const Tile& tile, const Block& block, float* scores, const ScoreSlopes& slopes) {
  const AttentionGroup& g = tile.group;
  HWY_ALIGN int32_t head[kTileQueries], query[kTileQueries], key[kTileQueries];
  for (int64_t r = 0; r < tile.width; ++r) {
    head[r] = static_cast<int32_t>(g.first_head) + static_cast<int32_t>(tile.head[r]);
    query[r] = static_cast<int32_t>(g.first_query + tile.query[r]);
    key[r] = static_cast<int32_t>(g.first_key + block.from);
  }
  score::Block b;
  b.scores = scores;
  b.lines = block.count, b.width = tile.width;
  b.head = head, b.query = query, b.key = key;
  b.key_step = 1;
  b.sequence = g.sequence, b.offset = g.offset;
  run_score_functions(g, b, block.count * tile.width, slopes);
}

// Adds the bias. Where it is -inf the score becomes -inf, whatever it was, and the bit is cleared. Returns whether a
// bit was cleared.
inline bool apply_bias(const Tile& tile, const Block& block, float* scores, float* bias, Bits& bits) {
  kernels::StridedRows<const float> source = tile.group.bias;
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

// From products of queries and keys to scores: applies score functions, bias and masks. scores[j][r] is -inf where not
// attended. `spare` has room for a bias tile. Returns whether some pair of the block is not attended; `bits` is then
// valid.
inline bool modify_scores(const Tile& tile, const Block& block, Coverage coverage, float* scores, float* spare,
                          const ScoreSlopes& slopes, Bits& bits) {
  const AttentionGroup& g = tile.group;
  if (g.stage_count > 0) apply_score_functions(tile, block, scores, slopes);
  bool partial = coverage == Coverage::part;
  if (g.bias.data != nullptr) partial = apply_bias(tile, block, scores, spare, bits) || partial;
  if (coverage == Coverage::part) apply_bits(tile, block, bits, scores);
  return partial;
}

// Floats of the packed queries and, after them, of the weights of additive scores.
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
inline void additive_scores(const Tile& tile, const Block& block, const float* columns, float* scores) {
  const AttentionGroup& g = tile.group;
  const float* const weights = columns + g.size * tile.width;
  for (int64_t j = 0; j < block.count; ++j) {
    const float* const key = g.key.at(0, block.from + j);
    for (int64_t lane = 0; lane < tile.width; lane += kLanes) {
      FV sum = hn::Zero(kF);
      for (int64_t d = 0; d < g.size; ++d) {
        const int64_t at = d * tile.width + lane;
        const FV tangent = attention_tanh(hn::Add(hn::Load(kF, columns + at), all(key[d * g.key.column])));
        sum = fma(hn::Load(kF, weights + at), tangent, sum);
      }
      hn::Store(sum, kF, scores + j * tile.width + lane);
    }
  }
}

// Prefetches the next block's bias while this block is multiplied. Its rows are far apart, so no processor prefetches
// them by itself. A bias (L, S) of 4 MB costs 1.38 times plain attention, without this 1.45. `calls`: of
// Prefetch::issue() until then.
HWY_INLINE void prefetch_bias(const Tile& tile, const Block& block, int64_t calls, kernels::Prefetch& prefetch) {
  const AttentionGroup& g = tile.group;
  const int64_t from = block.from + block.count, count = std::min(kBlockKeys, tile.end - from);
  prefetch.clear();
  if (count <= 0 || g.bias.column != 1 || tile.head[0] != tile.head[tile.rows - 1]) return;
  prefetch.add(g.bias.at(tile.head[0], tile.query[0]) + from, g.bias.row, count, g.bias.row == 0 ? 1 : tile.rows);
  prefetch.spread(calls);
}

// The block's keys times the packed queries: scores before anything modifies them.
inline void key_products(const Tile& tile, const Block& block, const float* columns, float* scores,
                         kernels::Prefetch* prefetch = nullptr) {
  const AttentionGroup& g = tile.group;
  if (g.additive.data != nullptr) return additive_scores(tile, block, columns, scores);
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
                         .prefetch = prefetch});
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
      const uint64_t low = (static_cast<uint64_t>((g.first_key + block.from + j) / 8) << 32) |
                           static_cast<uint32_t>(g.first_query + tile.query[r]);
      const auto words = philox(g.dropout_seed, high, low);
      for (size_t n = 0; n < 8; ++n) {
        const uint32_t half = (n % 2 == 0) ? words[n / 2] & 0xFFFFu : words[n / 2] >> 16;
        bits |= uint64_t{half >= g.dropout_threshold} << (j + static_cast<int64_t>(n));
      }
    }
    kept.set(r, bits);
  }
#else
  HWY_ALIGN uint32_t queries[kTileQueries], heads[kTileQueries];
  for (int64_t r = 0; r < tile.width; ++r) {
    queries[r] = static_cast<uint32_t>(g.first_query + tile.query[r]);
    heads[r] = g.first_head + static_cast<uint32_t>(tile.head[r]);
  }
  const auto threshold = hn::Set(kI, static_cast<int32_t>(g.dropout_threshold));
  for (int64_t lane = 0; lane < tile.width; lane += kLanes) {
    UV words[2] = {hn::Zero(kU), hn::Zero(kU)};
    for (int64_t j = 0; j < block.count; j += 8) {
      uint32_t k0 = static_cast<uint32_t>(g.dropout_seed), k1 = static_cast<uint32_t>(g.dropout_seed >> 32);
      UV c[4] = {hn::Load(kU, queries + lane), hn::Set(kU, static_cast<uint32_t>((g.first_key + block.from + j) / 8)),
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

// True when every element is finite: only then is 0 * x zero for all of them.
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

// multiply<kInto> with lanes = queries and depth = keys, where a pair that is not attended adds nothing at all. For
// blocks that hold a NaN or an infinity: a weight of zero would let it through.
template <Into kInto>
void multiply_attended_lanes(const Product& p, const Bits& bits) {
  for (int64_t row = 0; row < p.rows; ++row) {
    for (int64_t lane = 0; lane < p.n; lane += kLanes) {
      FV sum = hn::Zero(kF);
      for (int64_t k = 0; k < p.depth; ++k) {
        const FV next = fma(all(p.a[row * p.a_row + k * p.a_depth]), hn::Load(kF, p.x + k * p.x_row + lane), sum);
        sum = hn::IfThenElse(test_bit(bits.word, k, lane), next, sum);
      }
      float* const c = p.c + row * p.c_row + lane;
      const FV factor = kInto == Into::scaled ? hn::Load(kF, p.factors + lane) : hn::Zero(kF);
      hn::Store(combine<kInto>(kInto == Into::fresh ? factor : hn::Load(kF, c), sum, factor), kF, c);
    }
  }
}

// The same for multiply<Into::added> with rows = keys and depth = queries.
inline void multiply_attended_depth(const Product& p, const Bits& bits) {
  for (int64_t row = 0; row < p.rows; ++row) {
    for (int64_t lane = 0; lane < p.n; lane += kLanes) {
      FV sum = hn::Zero(kF);
      for (int64_t k = 0; k < p.depth; ++k) {
        if ((bits.word[row / 32][k] >> (row % 32) & 1u) == 0) continue;
        sum = fma(all(p.a[row * p.a_row + k * p.a_depth]), hn::Load(kF, p.x + k * p.x_row + lane), sum);
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
