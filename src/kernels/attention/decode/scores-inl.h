// The scores of a few rows and what becomes of them until they are weights: the lanes run over keys.
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

// Of 32-bit words that hold kParts columns of a key each, column n as f32.
template <Element kElement>
constexpr int kParts = 4 / static_cast<int>(bytes_of(kElement));
// Whether f16 can be widened where it stands in the words.
constexpr bool kWidensHalves = HWY_TARGET <= HWY_AVX2;
template <Element kElement>
HWY_INLINE FV part(FV words, int n, FV scale) {
  if constexpr (kElement == Element::bf16) {
    const auto bits = hn::BitCast(kU, words);
    return hn::BitCast(kF, n == 0 ? hn::ShiftLeft<16>(bits) : hn::And(bits, hn::Set(kU, 0xFFFF0000u)));
  } else if constexpr (kElement == Element::f16 && kWidensHalves) {
    const auto bits = hn::BitCast(kU, words);
    const hn::Rebind<uint16_t, F> narrow;
    const auto halves = hn::TruncateTo(narrow, n == 0 ? bits : hn::ShiftRight<16>(bits));
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
// Adds to the scores what the four words at column c of a vector of keys add: turned around in registers, once for all
// rows.
template <int kRows, Element kElement>
HWY_INLINE void add_columns(const Rows& keys, const float* query, int64_t size, int64_t c, FV scale, FV (&sum)[kRows]) {
  // Otherwise GCC 12 keeps the addresses of 16 rows in vector registers (one query, f32: 2 to 7 % slower).
  if constexpr (kLanes > 8) asm volatile("" : : : "memory");
  FV words[4];
  HWY_UNROLL(4)
  for (int m = 0; m < 4; ++m) words[m] = load_blocks(keys.row + m, c / kParts<kElement>);
  transpose_blocks(words);
  HWY_UNROLL(4)
  for (int m = 0; m < 4; ++m) {
    HWY_UNROLL(4)
    for (int n = 0; n < kParts<kElement>; ++n) {
      const FV v = part<kElement>(words[m], n, scale);
      HWY_UNROLL(8)
      for (int r = 0; r < kRows; ++r) sum[r] = Fma(v, all(query[r * size + c + m * kParts<kElement> + n]), sum[r]);
    }
  }
}
#endif

// The scores of a vector of keys, to (rows, kChunkKeys).
template <int kRows, Element kElement>
HWY_NOINLINE void score_rows(const Few& f, const Rows& keys, [[maybe_unused]] Asking asking, float* to) {
  const int64_t size = f.group.size;
  const float* const query = f.query;
  [[maybe_unused]] const FV scale = kElement == Element::i8 ? hn::Load(kF, keys.scale) : hn::Zero(kF);
  FV sum[kRows];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) sum[r] = hn::Zero(kF);
  int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr int64_t kStep = 4 * kParts<kElement>;
  if (asking.in_line()) {
    for (; c + kStep <= size; c += kStep) {
      asking.ask_in_line();
      add_columns<kRows, kElement>(keys, query, size, c, scale, sum);
    }
  }
  for (; c + kStep <= size; c += kStep) {
    asking.ask();
    add_columns<kRows, kElement>(keys, query, size, c, scale, sum);
  }
#endif
  for (; c < size; ++c) {
    HWY_ALIGN float lanes[kLanes];
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = widen_one<kElement>(keys.row[lane], c, kElement == Element::i8 ? keys.scale[lane] : 1.0f);
    }
    const FV v = hn::Load(kF, lanes);
    for (int r = 0; r < kRows; ++r) sum[r] = Fma(v, all(query[r * size + c]), sum[r]);
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) hn::Store(sum[r], kF, to + r * kChunkKeys);
}

using ScoreRows = void (*)(const Few&, const Rows&, Asking, float*);
template <Element kElement>
constexpr ScoreRows kScoreRows[kFewRows] = {score_rows<1, kElement>, score_rows<2, kElement>, score_rows<3, kElement>,
                                            score_rows<4, kElement>, score_rows<5, kElement>, score_rows<6, kElement>,
                                            score_rows<7, kElement>, score_rows<8, kElement>};

void score(const Few& f, const Block& block, float* scores) {
  const bool direct = f.key.element != Element::f16 || kWidensHalves;
  const BlockRows keys(f, f.key, f.group.next_key, f.group.size, block, direct, padded(f.group.size));
  RowsWalk walk = keys.walk(), walk_ahead = keys.walk_ahead();
  with_element(keys.element(), [&]<Element kElement>() HWY_ATTR {
    for (int64_t j = 0; j < block.count; j += kLanes) {
      Rows now;
      const float* ahead[kLanes];
      walk.take(now);
      walk_ahead.take(ahead);
      kScoreRows<kElement>[f.tile.rows - 1](f, now, Asking(ahead, keys.lines()), scores + j);
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

// All rules, as apply_rules() has them.
void apply_rules(const Few& f, Part& p) {
  const AttentionGroup& g = f.group;
  const Block& block = p.block;
  p.partial = p.coverage == Coverage::part;
  for (int64_t r = 0; r < f.tile.rows; ++r) {
    float* const scores = p.scores + r * kChunkKeys;
    const int64_t h = f.tile.head[r], i = f.tile.query[r];
    if (g.stage_count > 0) {
      HWY_ALIGN int32_t head[kBlockKeys], query[kBlockKeys], key[kBlockKeys];
      std::fill_n(head, kBlockKeys, static_cast<int32_t>(g.first_head) + static_cast<int32_t>(h));
      std::fill_n(query, kBlockKeys, static_cast<int32_t>(i));
      for (int64_t j = 0; j < kBlockKeys; ++j) key[j] = static_cast<int32_t>(block.from + j);
      score::Block b;
      b.scores = scores;
      b.lines = 1, b.width = padded(block.count);
      b.head = head, b.query = query, b.key = key;
      b.sequence = g.sequence, b.offset = g.offset;
      run_stages(g, b, b.width, {});
    }
    uint64_t attended = p.coverage == Coverage::all && g.bias.data == nullptr ? ~uint64_t{0} : bits_of(p.bits, r);
    if (g.bias.data != nullptr) {
      const float* const row = g.bias.at(h, i) + block.from * g.bias.column;
      float* const bias = f.bias + r * kBlockKeys;
      for (int64_t j = 0; j < block.count; ++j) {
        bias[j] = row[j * g.bias.column];
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

// Scores become weights.
void weigh(const Few& f, Part& p, State& state) {
  for (int64_t r = 0; r < f.tile.rows; ++r) {
    float* const scores = p.scores + r * kChunkKeys;
    FV most = all(kMinusInfinity);
    for (int64_t j = 0; j < p.block.count; j += kLanes) most = larger(hn::Load(kF, scores + j), most);
    const float before = state.largest[r], now = hn::GetLane(hn::MaxOfLanes(kF, most));
    const float largest = now > before ? now : before;
    state.largest[r] = largest;
    const FV from = origin(all(largest));
    p.factors[r] = largest > before ? hn::GetLane(exponential(hn::Sub(all(before), from))) : 1.0f;
    for (int64_t j = 0; j < p.block.count; j += kLanes) {
      hn::Store(weight_of(hn::Sub(hn::Load(kF, scores + j), from)), kF, scores + j);
    }
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
