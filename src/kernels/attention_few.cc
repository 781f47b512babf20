// The forward pass of a few rows, as in decoding: bound by reading keys and values, not by arithmetic.
//
// A tile of rows side by side would leave most lanes idle. Here the lanes run over keys for the scores (keys are turned
// around in registers, once for all rows) and over the columns of the values for the output. Every number is the same
// chain of fused multiply-adds as in attention_forward.cc, so the bits are the same: prefill and decoding agree.
#include "kernels/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_few.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention_state-inl.h"
#include "kernels/attention_stored-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

using kernels::kFewRows;

// Scores and weights here are (rows, 64); outputs (rows, padded(Dv)).
struct Few {
  const Tile& tile;
  const AttentionGroup& group;
  int64_t stride;           // padded(Dv)
  StoredRows key, value;    // the group's
  float* query = nullptr;   // (rows, D), scaled
  float* scores = nullptr;  // (rows, 64)
  float* bias = nullptr;    // (rows, 64)
  float* spare = nullptr;   // (64, padded(D or Dv)): the block's rows, where they cannot be read where they are
};

// Which vectors of keys are turned around together: enough chains to hide the latency of the multiply-add where there
// is one row only.
constexpr int kGroups = HWY_TARGET <= HWY_AVX3 ? 2 : 1;

// Of 32-bit words that hold kParts columns of a key each, column n as f32.
template <Element kElement>
constexpr int kParts = kElement == Element::i8     ? 4
                       : kElement == Element::bf16 ? 2
                                                   : 1;
template <Element kElement>
HWY_INLINE FV part(FV words, int n, FV scale) {
  if constexpr (kElement == Element::bf16) {
    const auto bits = hn::BitCast(kU, words);
    return hn::BitCast(kF, n == 0 ? hn::ShiftLeft<16>(bits) : hn::And(bits, hn::Set(kU, 0xFFFF0000u)));
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

// Keys [at, at + kGroups vectors) of the block. Their columns are turned around in registers, once for all rows.
template <int kRows, Element kElement>
HWY_NOINLINE void score_rows(const Few& f, const BlockRows& keys, int64_t at) {
  const int64_t size = f.group.size;
  FV sum[kGroups][kRows], scale[kGroups];
  HWY_UNROLL(2)
  for (int g = 0; g < kGroups; ++g) {
    scale[g] = kElement == Element::i8 ? hn::LoadU(kF, keys.scale + at + g * kLanes) : hn::Zero(kF);
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) sum[g][r] = hn::Zero(kF);
  }
  int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr int64_t kStep = 4 * kParts<kElement>;
  // The keys that come next, in the order in which they lie, into the second cache: for the first one they are too
  // many. In the order of use, column by column, Zen 4 reads 7 GB/s, in theirs 19; by itself it follows few rows at
  // once.
  const int64_t lines = size / keys.line;
  int64_t next = at, line = 0;
  for (; c + kStep <= size; c += kStep) {
    for (int64_t n = 0; n < kGroups * kLanes / 4 && lines > 0; ++n) {
      __builtin_prefetch(keys.next[next] + 16 * line, 0, 2);
      if (++line == lines) line = 0, ++next;
    }
    FV words[kGroups][4];
    HWY_UNROLL(2)
    for (int g = 0; g < kGroups; ++g) {
      HWY_UNROLL(4)
      for (int m = 0; m < 4; ++m) words[g][m] = load_blocks(keys.at(at + g * kLanes + m), c / kParts<kElement>);
      transpose_blocks(words[g]);
    }
    HWY_UNROLL(4)
    for (int m = 0; m < 4; ++m) {
      HWY_UNROLL(4)
      for (int n = 0; n < kParts<kElement>; ++n) {
        FV v[kGroups];
        HWY_UNROLL(2)
        for (int g = 0; g < kGroups; ++g) v[g] = part<kElement>(words[g][m], n, scale[g]);
        HWY_UNROLL(8)
        for (int r = 0; r < kRows; ++r) {
          const FV q = all(f.query[r * size + c + m * kParts<kElement> + n]);
          HWY_UNROLL(2)
          for (int g = 0; g < kGroups; ++g) sum[g][r] = Fma(v[g], q, sum[g][r]);
        }
      }
    }
  }
#endif
  for (; c < size; ++c) {
    HWY_UNROLL(2)
    for (int g = 0; g < kGroups; ++g) {
      HWY_ALIGN float lanes[kLanes];
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        const int64_t j = at + g * kLanes + lane;
        lanes[lane] = widen_one<kElement>(*keys.at(j), c, kElement == Element::i8 ? keys.scale[j] : 1.0f);
      }
      const FV v = hn::Load(kF, lanes);
      for (int r = 0; r < kRows; ++r) sum[g][r] = Fma(v, all(f.query[r * size + c]), sum[g][r]);
    }
  }
  HWY_UNROLL(2)
  for (int g = 0; g < kGroups; ++g) {
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) hn::Store(sum[g][r], kF, f.scores + r * kBlockKeys + at + g * kLanes);
  }
}

using ScoreRows = void (*)(const Few&, const BlockRows&, int64_t);
template <Element kElement>
constexpr ScoreRows kScoreRows[kFewRows] = {score_rows<1, kElement>, score_rows<2, kElement>, score_rows<3, kElement>,
                                            score_rows<4, kElement>, score_rows<5, kElement>, score_rows<6, kElement>,
                                            score_rows<7, kElement>, score_rows<8, kElement>};

// True where bit j of `bits` is set, for the keys j of a vector.
HWY_INLINE auto test_keys(uint64_t bits, int64_t j) {
  HWY_ALIGN uint32_t lanes[kLanes];
  for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] = static_cast<uint32_t>(bits >> (j + lane)) & 1u;
  return hn::RebindMask(kF, hn::Ne(hn::Load(kU, lanes), hn::Zero(kU)));
}

uint64_t bits_of(const Bits& bits, int64_t r) { return bits.word[0][r] | (uint64_t{bits.word[1][r]} << 32); }

// The scores of a block with all rules applied, as apply_rules() has them.
bool score(const Few& f, const Block& block, Coverage coverage, Bits& bits) {
  const AttentionGroup& g = f.group;
  const bool direct = f.key.element != Element::f16;  // two columns in a word cannot be told apart cheaply
  const BlockRows keys(f.key, g.next_key, g.size, block, g.keys, direct, f.spare, padded(g.size));
  with_element(keys.element, [&]<Element kElement>() HWY_ATTR {
    for (int64_t j = 0; j < block.count; j += kGroups * kLanes) kScoreRows<kElement>[f.tile.rows - 1](f, keys, j);
  });

  bool partial = coverage == Coverage::part;
  for (int64_t r = 0; r < f.tile.rows; ++r) {
    float* const scores = f.scores + r * kBlockKeys;
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
    uint64_t attended = coverage == Coverage::all && g.bias.data == nullptr ? ~uint64_t{0} : bits_of(bits, r);
    if (g.bias.data != nullptr) {
      const float* const row = g.bias.at(h, i) + block.from * g.bias.column;
      float* const bias = f.bias + r * kBlockKeys;
      for (int64_t j = 0; j < block.count; ++j) {
        bias[j] = row[j * g.bias.column];
        if (bias[j] != kMinusInfinity) continue;
        partial = partial || (attended >> j & 1u) != 0;
        attended &= ~(uint64_t{1} << j);
      }
      for (int64_t j = 0; j < block.count; j += kLanes) {
        const FV b = hn::Load(kF, bias + j), s = hn::Load(kF, scores + j);
        hn::Store(hn::IfThenElse(hn::Eq(b, all(kMinusInfinity)), b, hn::Add(s, b)), kF, scores + j);
      }
      bits.set(r, attended);
    }
    if (coverage == Coverage::part) {
      for (int64_t j = 0; j < block.count; j += kLanes) {
        const FV s = hn::Load(kF, scores + j);
        hn::Store(hn::IfThenElse(test_keys(attended, j), s, all(kMinusInfinity)), kF, scores + j);
      }
    }
    for (int64_t j = block.count; j < kBlockKeys; ++j) scores[j] = kMinusInfinity;
  }
  return partial;
}

// Scores become weights; sums are added up key by key, the rows side by side.
void weigh(const Few& f, const Block& block, State& state, float* factors) {
  const int64_t rows = f.tile.rows;
  for (int64_t r = 0; r < rows; ++r) {
    float* const scores = f.scores + r * kBlockKeys;
    FV most = all(kMinusInfinity);
    for (int64_t j = 0; j < block.count; j += kLanes) most = larger(hn::Load(kF, scores + j), most);
    HWY_ALIGN float lanes[kLanes];
    hn::Store(most, kF, lanes);
    const float before = state.largest[r];
    float largest = before;
    for (int64_t lane = 0; lane < kLanes; ++lane) largest = lanes[lane] > largest ? lanes[lane] : largest;
    state.largest[r] = largest;
    const FV from = origin(all(largest));
    factors[r] = largest > before ? hn::GetLane(exponential(hn::Sub(all(before), from))) : 1.0f;
    state.sum[r] *= factors[r];
    for (int64_t j = 0; j < block.count; j += kLanes) {
      hn::Store(weight_of(hn::Sub(hn::Load(kF, scores + j), from)), kF, scores + j);
    }
  }
  float sum[kFewRows];
  std::copy_n(state.sum, rows, sum);
  for (int64_t j = 0; j < block.count; ++j) {
    for (int64_t r = 0; r < rows; ++r) sum[r] += f.scores[r * kBlockKeys + j];
  }
  std::copy_n(sum, rows, state.sum);
}

void drop(const Few& f, const Block& block) {
  Bits kept;
  find_kept(f.tile, block, kept);
  for (int64_t r = 0; r < f.tile.rows; ++r) {
    float* const weights = f.scores + r * kBlockKeys;
    for (int64_t j = 0; j < block.count; j += kLanes) {
      hn::Store(hn::IfThenElseZero(test_keys(bits_of(kept, r), j), hn::Load(kF, weights + j)), kF, weights + j);
    }
  }
}

// Columns [column, column + kVectors vectors) of the output: output * factor + weights * values.
template <int kRows, int kVectors, Element kElement>
HWY_INLINE void add_panel(const Few& f, const BlockRows& values, int64_t count, int64_t first_row, int64_t column,
                          const float* factors, State& state) {
  FV sum[kRows][kVectors];
  HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(kF);
  }
  const float* const weights = f.scores + first_row * kBlockKeys;
  const int64_t lines = f.stride * 16 / values.line;  // in floats
  for (int64_t j = 0; j < count; ++j) {
    if (column == 0 && first_row == 0) {
      for (int64_t line = 0; line < lines; line += 16) __builtin_prefetch(values.next[j] + line, 0, 2);
    }
    const FV scale = all(kElement == Element::i8 ? values.scale[j] : 1.0f);
    FV lanes[kVectors];
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) lanes[v] = widen<kElement>(*values.at(j), column + v * kLanes, scale);
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) {
      const FV weight = all(weights[r * kBlockKeys + j]);
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) sum[r][v] = Fma(weight, lanes[v], sum[r][v]);
    }
  }
  HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) {
    float* const out = state.output + (first_row + r) * f.stride + column;
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) {
      const FV all_keys =
          state.empty ? sum[r][v] : Fma(hn::Load(kF, out + v * kLanes), all(factors[first_row + r]), sum[r][v]);
      hn::Store(all_keys, kF, out + v * kLanes);
    }
  }
}

template <int kRows, Element kElement>
HWY_NOINLINE void add_rows(const Few& f, const BlockRows& values, int64_t count, int64_t first_row,
                           const float* factors, State& state) {
  constexpr int kMost = HWY_TARGET <= HWY_AVX3 ? 4 : 2;
  int64_t column = 0;
  for (; column + kMost * kLanes <= f.stride; column += kMost * kLanes) {
    add_panel<kRows, kMost, kElement>(f, values, count, first_row, column, factors, state);
  }
  for (; column < f.stride; column += kLanes) {
    add_panel<kRows, 1, kElement>(f, values, count, first_row, column, factors, state);
  }
}

// One key after the other, and only those that are attended to: for blocks that hold a NaN or an infinity.
void add_attended(const Few& f, const Block& block, const BlockRows& values, const Bits& bits, const float* factors,
                  State& state) {
  for (int64_t r = 0; r < f.tile.rows; ++r) {
    const uint64_t attended = bits_of(bits, r);
    for (int64_t d = 0; d < f.group.value_size; ++d) {
      FV sum = hn::Zero(kF);
      for (int64_t j = 0; j < block.count; ++j) {
        if ((attended >> j & 1u) == 0) continue;
        sum = Fma(all((*values.at(j))[d]), all(f.scores[r * kBlockKeys + j]), sum);
      }
      float& out = state.output[r * f.stride + d];
      out = hn::GetLane(Fma(all(state.empty ? 0.0f : out), all(factors[r]), sum));
    }
  }
}

bool all_finite(const BlockRows& values, int64_t rows, int64_t columns) {
  for (int64_t j = 0; j < rows; ++j) {
    if (!all_finite(*values.at(j), 0, 1, 1, columns)) return false;
  }
  return true;
}

void add_values(const Few& f, const Block& block, bool partial, const Bits& bits, const float* factors, State& state) {
  const AttentionGroup& g = f.group;
  // Where they are only as whole vectors, and where none need be told from the others.
  const bool direct = f.stride == g.value_size && !(partial && f.value.element != Element::f32);
  const BlockRows values(f.value, g.next_value, g.value_size, block, g.keys, direct, f.spare, f.stride);
  if (partial && !all_finite(values, block.count, g.value_size)) {
    add_attended(f, block, values, bits, factors, state);
  } else {
    with_element(values.element, [&]<Element kElement>() HWY_ATTR {
      int64_t r = 0;
      for (; r + 4 <= f.tile.rows; r += 4) add_rows<4, kElement>(f, values, block.count, r, factors, state);
      for (; r + 2 <= f.tile.rows; r += 2) add_rows<2, kElement>(f, values, block.count, r, factors, state);
      if (r < f.tile.rows) add_rows<1, kElement>(f, values, block.count, r, factors, state);
    });
  }
  state.empty = false;
}

void merge(const Few& f, State& next, State& total) {
  HWY_ALIGN float old_factors[kTileRows], new_factors[kTileRows];
  if (!merge_sums(f.tile, next, total, old_factors, new_factors)) return;
  for (int64_t r = 0; r < f.tile.rows; ++r) {
    for (int64_t d = 0; d < f.stride; d += kLanes) {
      float* const o = total.output + r * f.stride + d;
      const FV scaled = hn::Mul(hn::Load(kF, o), all(old_factors[r]));
      hn::Store(Fma(hn::Load(kF, next.output + r * f.stride + d), all(new_factors[r]), scaled), kF, o);
    }
  }
}

// Scratch cut up, queries scaled, and what happens to a block.
struct Pass {
  Tile tile;
  Few f;
  State total, chunk;

  Pass(const AttentionGroup& group, float* scratch)
      : tile(group, 0, group.heads * group.queries),
        f{.tile = tile,
          .group = group,
          .stride = padded(group.value_size),
          .key = stored(group.stored_key, group.key),
          .value = stored(group.stored_value, group.value)} {
    const auto take = [&](int64_t count) { return std::exchange(scratch, scratch + padded(count)); };
    f.query = take(kFewRows * group.size);
    f.scores = take(kFewRows * kBlockKeys);
    f.bias = take(kFewRows * kBlockKeys);
    total.output = take(kFewRows * f.stride);
    chunk.output = take(kFewRows * f.stride);
    f.spare = take(kBlockKeys * std::max(f.stride, padded(group.size)));
    total.clear(tile.width);
    for (int64_t r = 0; r < tile.rows; ++r) {
      const float* const row = group.query.at(tile.head[r], tile.query[r]);
      for (int64_t d = 0; d < group.size; ++d) f.query[r * group.size + d] = row[d * group.query.column] * group.scale;
    }
  }

  void add(const Block& block, Coverage coverage, Bits& bits, State& state) const {
    const bool partial = score(f, block, coverage, bits);
    float factors[kFewRows];
    weigh(f, block, state, factors);
    if (f.group.dropout_threshold > 0) drop(f, block);
    add_values(f, block, partial, bits, factors, state);
  }

  void write(const AttentionForward& result) const {
    const AttentionGroup& group = f.group;
    HWY_ALIGN float factors[kTileRows];
    finish(tile, result, total, factors);
    for (int64_t r = 0; r < tile.rows; ++r) {
      float* const out = result.output.at(tile.head[r], tile.query[r]);
      if (total.empty) {  // no key at all: 0, unless a NaN sink makes the row NaN
        std::fill_n(out, group.value_size, factors[r] == factors[r] ? 0.0f : factors[r]);
        continue;
      }
      for (int64_t d = 0; d < f.stride; d += kLanes) {
        HWY_ALIGN float lanes[kLanes];
        hn::Store(tidy(hn::Mul(hn::Load(kF, total.output + r * f.stride + d), all(factors[r]))), kF, lanes);
        std::copy_n(lanes, std::clamp<int64_t>(group.value_size - d, 0, kLanes), out + d);
      }
    }
  }
};

void ForwardFew(const AttentionGroup& group, const AttentionForward& result, float* scratch) {
  Pass p(group, scratch);
  add_keys(
      p.tile, p.total, p.chunk,
      [&](const Block& block, Coverage coverage, Bits& bits, State& state)
          HWY_ATTR { p.add(block, coverage, bits, state); },
      [&](State& next) HWY_ATTR { merge(p.f, next, p.total); });
  p.write(result);
}

// A state between the passes: (rows, stride) of output, then for each row the largest score and the sum, then whether
// it is empty.
void FewChunk(const AttentionGroup& group, int64_t index, float* state, float* scratch) {
  Pass p(group, scratch);
  add_chunk(p.tile, index * kChunkKeys, (index + 1) * kChunkKeys, p.chunk,
            [&](const Block& block, Coverage coverage, Bits& bits, State& to)
                HWY_ATTR { p.add(block, coverage, bits, to); });
  float* const sums = state + kFewRows * p.f.stride;
  if (!p.chunk.empty) std::copy_n(p.chunk.output, p.tile.rows * p.f.stride, state);
  std::copy_n(p.chunk.largest, kFewRows, sums);
  std::copy_n(p.chunk.sum, kFewRows, sums + kFewRows);
  sums[2 * kFewRows] = p.chunk.empty ? 1.0f : 0.0f;
}

void FewMerge(const AttentionGroup& group, const AttentionForward& result, float* states, int64_t chunks,
              float* scratch) {
  Pass p(group, scratch);
  for (int64_t n = 0; n < chunks; ++n) {
    float* const state = states + n * kernels::attention_few_state(group);
    const float* const sums = state + kFewRows * p.f.stride;
    p.chunk.clear(p.tile.width);
    p.chunk.output = state;
    std::copy_n(sums, kFewRows, p.chunk.largest);
    std::copy_n(sums + kFewRows, kFewRows, p.chunk.sum);
    p.chunk.empty = sums[2 * kFewRows] != 0;
    merge(p.f, p.chunk, p.total);
  }
  p.write(result);
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(ForwardFew);
HWY_EXPORT(FewChunk);
HWY_EXPORT(FewMerge);

int64_t attention_few_scratch(const AttentionGroup& group) {
  const int64_t stride = padded(group.value_size);
  return padded(kFewRows * group.size) + 2 * kFewRows * kBlockKeys + 2 * kFewRows * stride +
         kBlockKeys * std::max(stride, padded(group.size));
}

void attention_forward_few(const AttentionGroup& group, const AttentionForward& result, float* scratch) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(ForwardFew)(group, result, scratch);
}

int64_t attention_few_state(const AttentionGroup& group) {
  return kFewRows * padded(group.value_size) + padded(2 * kFewRows + 1);
}

void attention_few_chunk(const AttentionGroup& group, int64_t chunk, float* state, float* scratch) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(FewChunk)(group, chunk, state, scratch);
}

void attention_few_merge(const AttentionGroup& group, const AttentionForward& result, float* states, int64_t chunks,
                         float* scratch) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(FewMerge)(group, result, states, chunks, scratch);
}

}  // namespace heed::kernels
#endif
