// The scores of a decoded group, and their way to weights: the lanes run over keys.
#if defined(HEED_KERNELS_ATTENTION_DECODE_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_DECODE_SCORES_INL_H_
#undef HEED_KERNELS_ATTENTION_DECODE_SCORES_INL_H_
#else
#define HEED_KERNELS_ATTENTION_DECODE_SCORES_INL_H_
#endif

#include <algorithm>

#include "kernels/attention/decode/rows-inl.h"
#include "kernels/attention/forward/state-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// Columns of a key in one 32-bit word.
template <Element kElement>
constexpr int kPerWord = 4 / static_cast<int>(bytes_of(kElement));
// Whether f16 can be converted where it stands in the words.
constexpr bool kConvertsF16 = HWY_TARGET <= HWY_AVX2;
// Column n of each word as f32.
template <Element kElement>
HWY_INLINE FV column_of(FV words, int n, FV scale) {
  if constexpr (kElement == Element::bf16) {
    const auto bits = hn::BitCast(kU, words);
    return hn::BitCast(kF, n == 0 ? hn::ShiftLeft<16>(bits) : hn::And(bits, hn::Set(kU, 0xFFFF0000u)));
  } else if constexpr (kElement == Element::f16 && kConvertsF16) {
    const auto bits = hn::BitCast(kU, words);
    const hn::Rebind<uint16_t, F> d16;
    const auto halves = hn::TruncateTo(d16, n == 0 ? bits : hn::ShiftRight<16>(bits));
    return hn::PromoteTo(kF, hn::BitCast(hn::Rebind<hwy::float16_t, F>(), halves));
  } else if constexpr (kElement == Element::i8) {
    const auto bits = hn::BitCast(kI, words);
    const auto high = n == 0   ? hn::ShiftLeft<24>(bits)
                      : n == 1 ? hn::ShiftLeft<16>(bits)
                      : n == 2 ? hn::ShiftLeft<8>(bits)
                               : bits;
    return hn::Mul(hn::ConvertTo(kF, hn::ShiftRight<24>(high)), scale);
  } else {
    return words;
  }
}

#if HWY_TARGET != HWY_SCALAR
// Adds to the scores the products of the four words at column c of a vector of keys. The words are transposed in
// registers, once for all rows.
template <int kRows, Element kElement>
HWY_INLINE void add_columns(const RowVector& keys, const float* query, int64_t size, int64_t c, FV scale,
                            FV (&sum)[kRows]) {
  // Otherwise GCC 12 keeps the addresses of 16 rows in vector registers (one query, f32: 2 to 7 % slower).
  if constexpr (kLanes > 8) asm volatile("" : : : "memory");
  FV words[4];
  HWY_UNROLL(4)
  for (int m = 0; m < 4; ++m) words[m] = load_blocks(keys.row + m, c / kPerWord<kElement>);
  transpose_blocks(words);
  HWY_UNROLL(4)
  for (int m = 0; m < 4; ++m) {
    HWY_UNROLL(4)
    for (int n = 0; n < kPerWord<kElement>; ++n) {
      const FV v = column_of<kElement>(words[m], n, scale);
      HWY_UNROLL(8)
      for (int r = 0; r < kRows; ++r) sum[r] = fma(v, all(query[r * size + c + m * kPerWord<kElement> + n]), sum[r]);
    }
  }
}
#endif

// The scores of kRows queries against a vector of keys, to (rows, kChunkKeys).
template <int kRows, Element kElement>
HWY_NOINLINE void score_rows(const DecodeGroup& g, const float* query, const RowVector& keys,
                             [[maybe_unused]] RowPrefetch prefetch, float* to) {
  const int64_t size = g.group.size;
  [[maybe_unused]] const FV scale = kElement == Element::i8 ? hn::Load(kF, keys.scale) : hn::Zero(kF);
  FV sum[kRows];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) sum[r] = hn::Zero(kF);
  int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr int64_t kStep = 4 * kPerWord<kElement>;
  if (prefetch.contiguous()) {
    for (; c + kStep <= size; c += kStep) {
      prefetch.issue_contiguous();
      add_columns<kRows, kElement>(keys, query, size, c, scale, sum);
    }
  }
  for (; c + kStep <= size; c += kStep) {
    prefetch.issue();
    add_columns<kRows, kElement>(keys, query, size, c, scale, sum);
  }
#endif
  for (; c < size; ++c) {
    HWY_ALIGN float lanes[kLanes];
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = one_to_f32<kElement>(keys.row[lane], c, kElement == Element::i8 ? keys.scale[lane] : 1.0f);
    }
    const FV v = hn::Load(kF, lanes);
    for (int r = 0; r < kRows; ++r) sum[r] = fma(v, all(query[r * size + c]), sum[r]);
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) hn::Store(sum[r], kF, to + r * kChunkKeys);
}

// One function for each number of rows: the keys are then read and transposed once for all of them. The portable
// target takes the rows one by one, which compiles in a third of the time and gives the same bits.
#if HWY_TARGET == HWY_SCALAR
template <Element kElement>
void score_vector(const DecodeGroup& g, const RowVector& keys, const RowPrefetch& prefetch, float* to) {
  for (int64_t r = 0; r < g.tile.rows; ++r) {
    score_rows<1, kElement>(g, g.query + r * g.group.size, keys, prefetch, to + r * kChunkKeys);
  }
}
#else
template <Element kElement>
HWY_INLINE void score_vector(const DecodeGroup& g, const RowVector& keys, const RowPrefetch& prefetch, float* to) {
  using ScoreRows = void (*)(const DecodeGroup&, const float*, const RowVector&, RowPrefetch, float*);
  static constexpr ScoreRows kScoreRows[kDecodeRows] = {
      score_rows<1, kElement>, score_rows<2, kElement>, score_rows<3, kElement>, score_rows<4, kElement>,
      score_rows<5, kElement>, score_rows<6, kElement>, score_rows<7, kElement>, score_rows<8, kElement>};
  kScoreRows[g.tile.rows - 1](g, g.query, keys, prefetch, to);
}
#endif

// Products of all queries with the keys of a block.
void score_block(const DecodeGroup& g, const Block& block, float* scores) {
  const bool direct = g.key.element != Element::f16 || kConvertsF16;
  const BlockRows keys(g, g.key, g.group.next_key, g.group.size, block, direct, padded(g.group.size));
  RowVectorReader reader = keys.reader(), prefetch_reader = keys.prefetch_reader();
  with_element(keys.element(), [&]<Element kElement>() HWY_ATTR {
    for (int64_t j = 0; j < block.count; j += kLanes) {
      RowVector now;
      const float* later[kLanes];
      reader.read(now);
      prefetch_reader.read(later);
      score_vector<kElement>(g, now, RowPrefetch(later, keys.lines()), scores + j);
    }
  });
}

// True where bit j of `bits` is set, for the keys j of a vector.
HWY_INLINE auto test_keys(uint64_t bits, int64_t j) {
  HWY_ALIGN uint32_t lanes[kLanes];
  for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] = static_cast<uint32_t>(bits >> (j + lane)) & 1u;
  return hn::RebindMask(kF, hn::Ne(hn::Load(kU, lanes), hn::Zero(kU)));
}

uint64_t bits_of(const Bits& bits, int64_t r) { return bits.word[0][r] | (uint64_t{bits.word[1][r]} << 32); }

// Score functions, bias and masks, as modify_scores() of the tiles applies them.
void modify_scores(const DecodeGroup& g, DecodeBlock& p) {
  const AttentionGroup& group = g.group;
  const Block& block = p.block;
  p.partial = p.coverage == Coverage::part;
  for (int64_t r = 0; r < g.tile.rows; ++r) {
    float* const scores = p.scores + r * kChunkKeys;
    const int64_t h = g.tile.head[r], i = g.tile.query[r];
    if (group.stage_count > 0) {
      HWY_ALIGN int32_t head[kBlockKeys], query[kBlockKeys], key[kBlockKeys];
      std::fill_n(head, kBlockKeys, static_cast<int32_t>(group.first_head) + static_cast<int32_t>(h));
      std::fill_n(query, kBlockKeys, static_cast<int32_t>(i));
      for (int64_t j = 0; j < kBlockKeys; ++j) key[j] = static_cast<int32_t>(block.from + j);
      score::Block b;
      b.scores = scores;
      b.lines = 1, b.width = padded(block.count);
      b.head = head, b.query = query, b.key = key;
      b.sequence = group.sequence, b.offset = group.offset;
      run_score_functions(group, b, b.width, {});
    }
    uint64_t attended = p.coverage == Coverage::all && group.bias.data == nullptr ? ~uint64_t{0} : bits_of(p.bits, r);
    if (group.bias.data != nullptr) {
      const float* const row = group.bias.at(h, i) + block.from * group.bias.column;
      float* const bias = g.bias + r * kBlockKeys;
      for (int64_t j = 0; j < block.count; ++j) {
        bias[j] = row[j * group.bias.column];
        if (bias[j] != kMinusInfinity) continue;
        p.partial = p.partial || (attended >> j & 1u) != 0;
        attended &= ~(uint64_t{1} << j);
      }
      for (int64_t j = 0; j < block.count; j += kLanes) {
        const FV b = hn::Load(kF, bias + j), s = hn::Load(kF, scores + j);
        hn::Store(hn::IfThenElse(hn::Eq(b, all(kMinusInfinity)), b, hn::Add(s, b)), kF, scores + j);
      }
      p.bits.set(r, attended);
    }
    if (p.coverage == Coverage::part) {
      for (int64_t j = 0; j < block.count; j += kLanes) {
        const FV s = hn::Load(kF, scores + j);
        hn::Store(hn::IfThenElse(test_keys(attended, j), s, all(kMinusInfinity)), kF, scores + j);
      }
    }
    for (int64_t j = block.count; j < kBlockKeys; ++j) scores[j] = kMinusInfinity;
  }
}

// The scores of a block become weights exp(score - largest); `state` takes in the largest score.
void to_weights(const DecodeGroup& g, DecodeBlock& p, State& state) {
  for (int64_t r = 0; r < g.tile.rows; ++r) {
    float* const scores = p.scores + r * kChunkKeys;
    FV most = all(kMinusInfinity);
    for (int64_t j = 0; j < p.block.count; j += kLanes) most = larger(hn::Load(kF, scores + j), most);
    const float before = state.largest[r], now = hn::GetLane(hn::MaxOfLanes(kF, most));
    const float largest = now > before ? now : before;
    state.largest[r] = largest;
    const FV from = origin(all(largest));
    p.factors[r] = largest > before ? hn::GetLane(attention_exp(hn::Sub(all(before), from))) : 1.0f;
    for (int64_t j = 0; j < p.block.count; j += kLanes) {
      hn::Store(weight_of(hn::Sub(hn::Load(kF, scores + j), from)), kF, scores + j);
    }
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
