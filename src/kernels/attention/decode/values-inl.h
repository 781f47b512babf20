// The output of a decoded group: weights times values, the lanes over the columns of the values.
#if defined(HEED_KERNELS_ATTENTION_DECODE_VALUES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_DECODE_VALUES_INL_H_
#undef HEED_KERNELS_ATTENTION_DECODE_VALUES_INL_H_
#else
#define HEED_KERNELS_ATTENTION_DECODE_VALUES_INL_H_
#endif

#include <algorithm>

#include "kernels/attention/decode/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// The sums of weights, key by key, all rows together: where add_panel() below cannot make them in passing.
void add_weights(const DecodeGroup& g, const DecodeBlock& p, State& state) {
  const int64_t rows = g.tile.rows;
  float sum[kDecodeRows];
  for (int64_t r = 0; r < rows; ++r) sum[r] = state.sum[r] * p.factors[r];
  for (int64_t j = 0; j < p.block.count; ++j) {
    for (int64_t r = 0; r < rows; ++r) sum[r] += p.scores[r * kChunkKeys + j];
  }
  std::copy_n(sum, rows, state.sum);
}

// Columns [column, column + kVectors vectors) of the output: output * factor + weights * values. With the first columns
// the weights are added up, where their chain of additions costs nothing, and rows are prefetched.
template <int kRows, int kVectors, Element kElement, bool kFirst>
HWY_INLINE void add_panel(const DecodeGroup& g, const DecodeBlock& p, const BlockRows& values, int64_t first_row,
                          int64_t column, State& state) {
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
  RowVectorReader reader = values.reader(), prefetch_reader = values.prefetch_reader();
  for (int64_t from = 0; from < p.block.count; from += kLanes) {
    RowVector now;
    [[maybe_unused]] const float* later[kLanes];
    reader.read(now);
    if constexpr (kFirst) prefetch_reader.read(later);
    const int64_t count = std::min(kLanes, p.block.count - from);
    for (int64_t j = 0; j < count; ++j) {
      if constexpr (kFirst) prefetch_row(later[j], lines);
      const FV scale = all(kElement == Element::i8 ? now.scale[j] : 1.0f);
      FV lanes[kVectors];
      HWY_UNROLL(8)
      for (int v = 0; v < kVectors; ++v) lanes[v] = to_f32<kElement>(now.row[j], column + v * kLanes, scale);
      HWY_UNROLL(4)
      for (int r = 0; r < kRows; ++r) {
        const FV weight = all(weights[r * kChunkKeys + from + j]);
        if constexpr (kFirst) total[r] = hn::Add(total[r], weight);
        HWY_UNROLL(8)
        for (int v = 0; v < kVectors; ++v) sum[r][v] = fma(weight, lanes[v], sum[r][v]);
      }
    }
  }
  HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) {
    if (kFirst && g.group.dropout_threshold == 0) state.sum[first_row + r] = hn::GetLane(total[r]);
    float* const out = state.output + (first_row + r) * g.stride + column;
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) {
      const FV all_keys = state.empty ? sum[r][v] : fma(hn::Load(kF, out + v * kLanes), all(factors[r]), sum[r][v]);
      hn::Store(all_keys, kF, out + v * kLanes);
    }
  }
}

// The first columns, at most kVectors vectors of them. Returns how many they are.
template <int kRows, int kVectors, Element kElement>
HWY_INLINE int64_t add_first_panel(const DecodeGroup& g, const DecodeBlock& p, const BlockRows& values,
                                   int64_t first_row, State& state) {
  if constexpr (kVectors > 1) {
    if (g.stride < kVectors * kLanes) {
      return add_first_panel<kRows, kVectors / 2, kElement>(g, p, values, first_row, state);
    }
  }
  add_panel<kRows, kVectors, kElement, true>(g, p, values, first_row, 0, state);
  return kVectors * kLanes;
}

// All columns from `column` on.
template <int kRows, int kVectors, Element kElement>
HWY_INLINE void add_panels(const DecodeGroup& g, const DecodeBlock& p, const BlockRows& values, int64_t first_row,
                           int64_t column, State& state) {
  for (; column + kVectors * kLanes <= g.stride; column += kVectors * kLanes) {
    add_panel<kRows, kVectors, kElement, false>(g, p, values, first_row, column, state);
  }
  if constexpr (kVectors > 1) add_panels<kRows, kVectors / 2, kElement>(g, p, values, first_row, column, state);
}

// As many columns at a time as there are registers for: rows are best read from end to end.
template <int kRows, Element kElement>
HWY_NOINLINE void add_rows(const DecodeGroup& g, const DecodeBlock& p, const BlockRows& values, int64_t first_row,
                           State& state) {
  constexpr int kMost = HWY_TARGET == HWY_SCALAR ? 1 : HWY_TARGET > HWY_AVX3 ? 8 / kRows : kRows < 4 ? 8 : 4;
  const int64_t done = add_first_panel<kRows, kMost, kElement>(g, p, values, first_row, state);
  add_panels<kRows, kMost, kElement>(g, p, values, first_row, done, state);
}

// One key after the other, and only the attended ones: for blocks that hold a NaN or an infinity.
void add_attended(const DecodeGroup& g, const DecodeBlock& p, const float* const* values, State& state) {
  for (int64_t r = 0; r < g.tile.rows; ++r) {
    const uint64_t attended = bits_of(p.bits, r);
    for (int64_t d = 0; d < g.group.value_size; ++d) {
      FV sum = hn::Zero(kF);
      for (int64_t j = 0; j < p.block.count; ++j) {
        if ((attended >> j & 1u) == 0) continue;
        sum = fma(all(values[j][d]), all(p.scores[r * kChunkKeys + j]), sum);
      }
      float& out = state.output[r * g.stride + d];
      out = hn::GetLane(fma(all(state.empty ? 0.0f : out), all(p.factors[r]), sum));
    }
  }
}

// Whether the values of a block, in f32, are finite; and where they are.
bool all_finite(const BlockRows& values, int64_t rows, int64_t columns, const float** row) {
  RowVectorReader reader = values.reader();
  RowVector now;
  bool finite = true;
  for (int64_t j = 0; j < rows; ++j) {
    if (j % kLanes == 0) reader.read(now);
    row[j] = now.row[j % kLanes];
    finite = finite && all_finite(row[j], 0, 1, 1, columns);
  }
  return finite;
}

void add_values(const DecodeGroup& g, const DecodeBlock& p, State& state) {
  const AttentionGroup& group = g.group;
  if (group.value_size == 0) {
    if (group.dropout_threshold == 0) add_weights(g, p, state);
    state.empty = false;
    return;
  }
  // Rows are read where they are only as whole vectors, and only where no NaN has to be kept from some query.
  const bool direct = g.stride == group.value_size && !(p.partial && g.value.element != Element::f32);
  const BlockRows values(g, g.value, group.next_value, group.value_size, p.block, direct, g.stride);
  const float* row[kBlockKeys];
  if (p.partial && !all_finite(values, p.block.count, group.value_size, row)) {
    if (group.dropout_threshold == 0) add_weights(g, p, state);
    add_attended(g, p, row, state);
  } else {
    with_element(values.element(), [&]<Element kElement>() HWY_ATTR {
      int64_t r = 0;
#if HWY_TARGET != HWY_SCALAR  // the portable target takes the rows one by one, as in score_vector()
      for (; r + 4 <= g.tile.rows; r += 4) add_rows<4, kElement>(g, p, values, r, state);
      for (; r + 2 <= g.tile.rows; r += 2) add_rows<2, kElement>(g, p, values, r, state);
#endif
      for (; r < g.tile.rows; ++r) add_rows<1, kElement>(g, p, values, r, state);
    });
  }
  state.empty = false;
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
