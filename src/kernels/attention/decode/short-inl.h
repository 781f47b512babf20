// Decoding against at most one block of f32 keys, all of them attended, and nothing else asked for, where heads.h does
// not apply: numbers of heads that 4 does not divide, and memory in another order. The operations are those of the
// general path in the same order. What is left out is what finds out which they are: a head of 32 numbers and ten keys
// has 1,300 FLOPs, and the general path's preparations took longer (Zen 4).
#if defined(HEED_KERNELS_ATTENTION_DECODE_SHORT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_DECODE_SHORT_INL_H_
#undef HEED_KERNELS_ATTENTION_DECODE_SHORT_INL_H_
#else
#define HEED_KERNELS_ATTENTION_DECODE_SHORT_INL_H_
#endif

#include <algorithm>

#include "kernels/attention/decode/values-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

#if HWY_TARGET != HWY_SCALAR
constexpr int64_t kMostShortSize = 128;  // D: the queries lie on the stack

bool is_short(const AttentionGroup& g, const TileOutputs& outputs) {
  const bool plain = g.stage_count == 0 && g.mask.data == nullptr && g.bias.data == nullptr &&
                     g.sinks.data == nullptr && g.query_documents.data == nullptr && g.dropout_threshold == 0 &&
                     outputs.logsumexp.data == nullptr;
  const bool fits = g.single_chunk && g.keys > 0 && g.keys <= kBlockKeys && g.size % 4 == 0 &&
                    g.size <= kMostShortSize && g.value_size > 0 && g.value_size % kLanes == 0;
  const bool whole = g.queries - 1 + g.first_shift <= 0 && g.last_shift >= g.keys;
  return plain && fits && whole && g.key.data != nullptr && g.key.column == 1 && g.value.column == 1;
}

// Scores of kRows queries, (rows, kBlockKeys); lanes behind the last key are -inf.
template <int kRows>
HWY_NOINLINE void short_scores(const AttentionGroup& g, const float* query, float* scores) {
  for (int64_t j = 0; j < g.keys; j += kLanes) {
    RowVector now;
    for (int64_t lane = 0; lane < kLanes; ++lane)
      now.row[lane] = g.key.data + std::min(j + lane, g.keys - 1) * g.key.row;
    FV sum[kRows];
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) sum[r] = hn::Zero(kF);
    for (int64_t c = 0; c < g.size; c += 4) add_columns<kRows, Element::f32>(now, query, g.size, c, hn::Zero(kF), sum);
    const auto there = hn::FirstN(kF, static_cast<size_t>(std::min(kLanes, g.keys - j)));
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      hn::Store(hn::IfThenElse(there, sum[r], all(kMinusInfinity)), kF, scores + r * kBlockKeys + j);
    }
  }
}

// Scores become weights exp(score - largest); returns what makes a sum of them with values an output.
HWY_INLINE FV short_weights(const AttentionGroup& g, float* scores) {
  FV most = all(kMinusInfinity);
  for (int64_t j = 0; j < g.keys; j += kLanes) most = larger(hn::Load(kF, scores + j), most);
  const float largest = hn::GetLane(hn::MaxOfLanes(kF, most));
  const FV from = origin(all(largest > kMinusInfinity ? largest : kMinusInfinity));
  for (int64_t j = 0; j < g.keys; j += kLanes) {
    hn::Store(weight_of(hn::Sub(hn::Load(kF, scores + j), from)), kF, scores + j);
  }
  float sum = 0;
  for (int64_t j = 0; j < g.keys; ++j) sum += scores[j];
  const FV sums = all(sum);
  return hn::IfThenZeroElse(hn::Eq(sums, hn::Zero(kF)), hn::Div(all(g.dropout_scale), sums));
}

// kVectors vectors of one row's output.
template <int kVectors>
HWY_INLINE void short_values(const AttentionGroup& g, const float* weights, FV factor, int64_t column, float* out) {
  FV sum[kVectors];
  HWY_UNROLL(4)
  for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(kF);
  const float* row = g.value.data + column;
  for (int64_t j = 0; j < g.keys; ++j, row += g.value.row) {
    const FV weight = all(weights[j]);
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) sum[v] = fma(weight, hn::LoadU(kF, row + v * kLanes), sum[v]);
  }
  HWY_UNROLL(4)
  for (int v = 0; v < kVectors; ++v) hn::StoreU(canonical(hn::Mul(sum[v], factor)), kF, out + column + v * kLanes);
}

void prefetch_short(const StoredRows& next, int64_t keys, int64_t columns) {
  if (next.data == nullptr || next.element != Element::f32) return;
  const auto* row = static_cast<const float*>(next.data);
  for (int64_t j = 0; j < keys; ++j, row += next.row) prefetch_row(row, (columns + 15) / 16);
}

void run_short_decode(const AttentionGroup& g, const TileOutputs& outputs) {
  const int64_t rows = g.heads * g.queries;
  HWY_ALIGN float query[kDecodeRows * kMostShortSize];
  HWY_ALIGN float scores[kDecodeRows * kBlockKeys];
  for (int64_t h = 0, r = 0; h < g.heads; ++h) {
    for (int64_t i = 0; i < g.queries; ++i, ++r) {
      const float* const row = g.query.at(h, i);
      for (int64_t d = 0; d < g.size; ++d) query[r * g.size + d] = row[d * g.query.column] * g.scale;
    }
  }
  prefetch_short(g.next_key, g.keys, g.size);
  using ShortScores = void (*)(const AttentionGroup&, const float*, float*);
  static constexpr ShortScores kScores[kDecodeRows] = {short_scores<1>, short_scores<2>, short_scores<3>,
                                                       short_scores<4>, short_scores<5>, short_scores<6>,
                                                       short_scores<7>, short_scores<8>};
  kScores[rows - 1](g, query, scores);
  prefetch_short(g.next_value, g.keys, g.value_size);
  for (int64_t h = 0, r = 0; h < g.heads; ++h) {
    for (int64_t i = 0; i < g.queries; ++i, ++r) {
      float* const weights = scores + r * kBlockKeys;
      const FV factor = short_weights(g, weights);
      float* const out = outputs.output.at(h, i);
      int64_t column = 0;
      for (; column + 4 * kLanes <= g.value_size; column += 4 * kLanes)
        short_values<4>(g, weights, factor, column, out);
      for (; column + 2 * kLanes <= g.value_size; column += 2 * kLanes)
        short_values<2>(g, weights, factor, column, out);
      for (; column < g.value_size; column += kLanes) short_values<1>(g, weights, factor, column, out);
    }
  }
}
#endif

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
