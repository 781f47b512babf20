// The forward pass of a few rows, as in decoding: bound by reading keys and values, not by arithmetic.
//
// A tile of rows side by side would leave most lanes idle. Here the lanes run over keys for the scores (keys are turned
// around in registers, once for all rows) and over the columns of the values for the output. Every number is the same
// chain of fused multiply-adds as in attention_forward.cc, so the bits are the same: prefill and decoding agree.
#include "kernels/attention/attention.h"

#include <span>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/decode/decode.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention/decode/scores-inl.h"
#include "kernels/attention/forward/state-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// The sums, key by key, the rows side by side: where the values' kernel cannot do it in passing.
void add_weights(const Few& f, const Part& p, State& state) {
  const int64_t rows = f.tile.rows;
  float sum[kFewRows];
  for (int64_t r = 0; r < rows; ++r) sum[r] = state.sum[r] * p.factors[r];
  for (int64_t j = 0; j < p.block.count; ++j) {
    for (int64_t r = 0; r < rows; ++r) sum[r] += p.scores[r * kChunkKeys + j];
  }
  std::copy_n(sum, rows, state.sum);
}

void drop(const Few& f, const Part& p) {
  Bits kept;
  find_kept(f.tile, p.block, kept);
  for (int64_t r = 0; r < f.tile.rows; ++r) {
    float* const weights = p.scores + r * kChunkKeys;
    for (int64_t j = 0; j < p.block.count; j += kLanes) {
      hn::Store(hn::IfThenElseZero(test_keys(bits_of(kept, r), j), hn::Load(kF, weights + j)), kF, weights + j);
    }
  }
}

// Columns [column, column + kVectors vectors) of the output: output * factor + weights * values. Beside the first ones
// the weights are added up, where their chain of additions costs nothing, and rows asked for.
template <int kRows, int kVectors, Element kElement, bool kFirst>
HWY_INLINE void add_panel(const Few& f, const Part& p, const BlockRows& values, int64_t first_row, int64_t column,
                          State& state) {
  const float* const factors = p.factors + first_row;
  FV sum[kRows][kVectors], total[kRows];
  HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) {
    total[r] = all(state.sum[first_row + r] * factors[r]);
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(kF);
  }
  const float* const weights = p.scores + first_row * kChunkKeys;
  const int64_t lines = first_row == 0 ? values.lines() : 0;
  RowsWalk walk = values.walk(), walk_ahead = values.walk_ahead();
  for (int64_t from = 0; from < p.block.count; from += kLanes) {
    Rows now;
    [[maybe_unused]] const float* ahead[kLanes];
    walk.take(now);
    if constexpr (kFirst) walk_ahead.take(ahead);
    const int64_t count = std::min(kLanes, p.block.count - from);
    for (int64_t j = 0; j < count; ++j) {
      if constexpr (kFirst) ask_for(ahead[j], lines);
      const FV scale = all(kElement == Element::i8 ? now.scale[j] : 1.0f);
      FV lanes[kVectors];
      HWY_UNROLL(8)
      for (int v = 0; v < kVectors; ++v) lanes[v] = widen<kElement>(now.row[j], column + v * kLanes, scale);
      HWY_UNROLL(4)
      for (int r = 0; r < kRows; ++r) {
        const FV weight = all(weights[r * kChunkKeys + from + j]);
        if constexpr (kFirst) total[r] = hn::Add(total[r], weight);
        HWY_UNROLL(8)
        for (int v = 0; v < kVectors; ++v) sum[r][v] = Fma(weight, lanes[v], sum[r][v]);
      }
    }
  }
  HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) {
    if (kFirst && f.group.dropout_threshold == 0) state.sum[first_row + r] = hn::GetLane(total[r]);
    float* const out = state.output + (first_row + r) * f.stride + column;
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) {
      const FV all_keys = state.empty ? sum[r][v] : Fma(hn::Load(kF, out + v * kLanes), all(factors[r]), sum[r][v]);
      hn::Store(all_keys, kF, out + v * kLanes);
    }
  }
}

// All columns from `column` on, the first of all if kFirst.
template <int kRows, int kVectors, Element kElement, bool kFirst>
HWY_INLINE void add_panels(const Few& f, const Part& p, const BlockRows& values, int64_t first_row, int64_t column,
                           State& state) {
  if (kFirst && kVectors > 1 && f.stride < kVectors * kLanes) {
    add_panels<kRows, std::max(1, kVectors / 2), kElement, kFirst>(f, p, values, first_row, column, state);
    return;
  }
  if constexpr (kFirst) {
    add_panel<kRows, kVectors, kElement, true>(f, p, values, first_row, column, state);
    column += kVectors * kLanes;
  }
  for (; column + kVectors * kLanes <= f.stride; column += kVectors * kLanes) {
    add_panel<kRows, kVectors, kElement, false>(f, p, values, first_row, column, state);
  }
  if constexpr (kVectors > 1) add_panels<kRows, kVectors / 2, kElement, false>(f, p, values, first_row, column, state);
}

// As many columns at a time as there are registers for: rows are best read from end to end.
template <int kRows, Element kElement>
HWY_NOINLINE void add_rows(const Few& f, const Part& p, const BlockRows& values, int64_t first_row, State& state) {
  constexpr int kMost = HWY_TARGET > HWY_AVX3 ? 8 / kRows : kRows < 4 ? 8 : 4;
  add_panels<kRows, kMost, kElement, true>(f, p, values, first_row, 0, state);
}

// One key after the other, and only those that are attended to: for blocks that hold a NaN or an infinity.
void add_attended(const Few& f, const Part& p, const float* const* values, State& state) {
  for (int64_t r = 0; r < f.tile.rows; ++r) {
    const uint64_t attended = bits_of(p.bits, r);
    for (int64_t d = 0; d < f.group.value_size; ++d) {
      FV sum = hn::Zero(kF);
      for (int64_t j = 0; j < p.block.count; ++j) {
        if ((attended >> j & 1u) == 0) continue;
        sum = Fma(all(values[j][d]), all(p.scores[r * kChunkKeys + j]), sum);
      }
      float& out = state.output[r * f.stride + d];
      out = hn::GetLane(Fma(all(state.empty ? 0.0f : out), all(p.factors[r]), sum));
    }
  }
}

// Whether the values of a block, in f32, are finite; and where they are.
bool all_finite(const BlockRows& values, int64_t rows, int64_t columns, const float** row) {
  RowsWalk walk = values.walk();
  Rows tile;
  bool finite = true;
  for (int64_t j = 0; j < rows; ++j) {
    if (j % kLanes == 0) walk.take(tile);
    row[j] = tile.row[j % kLanes];
    finite = finite && all_finite(row[j], 0, 1, 1, columns);
  }
  return finite;
}

void add_values(const Few& f, const Part& p, State& state) {
  const AttentionGroup& g = f.group;
  if (g.value_size == 0) {
    if (g.dropout_threshold == 0) add_weights(f, p, state);
    state.empty = false;
    return;
  }
  // Where they are only as whole vectors, and where none need be told from the others.
  const bool direct = f.stride == g.value_size && !(p.partial && f.value.element != Element::f32);
  const BlockRows values(f, f.value, g.next_value, g.value_size, p.block, direct, f.stride);
  const float* row[kBlockKeys];
  if (p.partial && !all_finite(values, p.block.count, g.value_size, row)) {
    if (g.dropout_threshold == 0) add_weights(f, p, state);
    add_attended(f, p, row, state);
  } else {
    with_element(values.element(), [&]<Element kElement>() HWY_ATTR {
      int64_t r = 0;
      for (; r + 4 <= f.tile.rows; r += 4) add_rows<4, kElement>(f, p, values, r, state);
      for (; r + 2 <= f.tile.rows; r += 2) add_rows<2, kElement>(f, p, values, r, state);
      if (r < f.tile.rows) add_rows<1, kElement>(f, p, values, r, state);
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

// Scratch cut up, queries scaled, and what happens to blocks.
struct Pass {
  Tile tile;
  Few f;
  State total, chunk;
  Part parts[kChunkKeys / kBlockKeys];
  int64_t part_count = 0;

  Pass(const AttentionGroup& group, float* scratch)
      : tile(group, 0, group.heads * group.queries),
        f{.tile = tile,
          .group = group,
          .stride = padded(group.value_size),
          .key = stored(group.stored_key, group.key),
          .value = stored(group.stored_value, group.value)} {
    const auto take = [&](int64_t count) { return std::exchange(scratch, scratch + padded(count)); };
    f.query = take(kFewRows * group.size);
    f.scores = take(kFewRows * kChunkKeys);
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

  void add(const Block& block, Coverage coverage, const Bits& bits) {
    Part& p = parts[part_count];
    p.block = block, p.coverage = coverage, p.bits = bits;
    p.scores = f.scores + part_count * kBlockKeys;
    ++part_count;
  }

  // All keys of the chunk, then all of its values: reading memory by turns in pieces of 16 KB takes a tenth longer than
  // from end to end, and what is done between them leaves the first cache (Zen 4).
  void end_chunk(State& state) {
    const std::span<Part> blocks(parts, static_cast<size_t>(std::exchange(part_count, 0)));
    for (const Part& p : blocks) score(f, p.block, p.scores);
    for (Part& p : blocks) {
      apply_rules(f, p);
      weigh(f, p, state);
    }
    for (const Part& p : blocks) {
      if (f.group.dropout_threshold > 0) {
        add_weights(f, p, state);
        drop(f, p);
      }
      add_values(f, p, state);
    }
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
      [&](const Block& block, Coverage coverage, Bits& bits, State&) HWY_ATTR { p.add(block, coverage, bits); },
      [&](State& next) HWY_ATTR {
        p.end_chunk(next);
        merge(p.f, next, p.total);
      });
  if (group.single_chunk) p.end_chunk(p.total);
  p.write(result);
}

// A state between the passes: (rows, stride) of output, then for each row the largest score and the sum, then whether
// it is empty.
void FewChunk(const AttentionGroup& group, int64_t index, float* state, float* scratch) {
  Pass p(group, scratch);
  add_chunk(p.tile, index * kChunkKeys, (index + 1) * kChunkKeys, p.chunk,
            [&](const Block& block, Coverage coverage, Bits& bits, State&) HWY_ATTR { p.add(block, coverage, bits); });
  p.end_chunk(p.chunk);
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
  return padded(kFewRows * group.size) + kFewRows * (kChunkKeys + kBlockKeys) + 2 * kFewRows * stride +
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
