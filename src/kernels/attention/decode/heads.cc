#include "kernels/attention/decode/heads.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/decode/heads.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention/forward/state-inl.h"
#include "kernels/attention/tile/columns-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

using kernels::HeadsDecode;

#if HWY_TARGET != HWY_SCALAR
// A vector is kLanes / kWidth keys of kWidth heads each: one key of 16 heads, two of 8, four of 4.
template <int kWidth>
constexpr int64_t kKeysAVector = kLanes / kWidth;

// How the scratch is cut. `vectors`: of the scores of one row and kWidth heads.
struct HeadsScratch {
  float* query;   // (row, D, kLanes) of kWidth heads
  float* turned;  // (D, H), one row
  float* scores;  // (row, vectors, kLanes), of kWidth heads
  int64_t vectors;
};

// The numbers from `at` on of as many keys as a vector has.
template <int kWidth>
HWY_INLINE FV load_keys(const float* const* keys, int64_t at) {
  const hn::CappedTag<float, kWidth> part;
  if constexpr (kWidth == kLanes) {
    return hn::LoadU(part, keys[0] + at);
  } else {
    const hn::Twice<decltype(part)> two;
    const auto low = hn::Combine(two, hn::LoadU(part, keys[1] + at), hn::LoadU(part, keys[0] + at));
    if constexpr (2 * kWidth == kLanes) {
      return low;
    } else {
      return hn::Combine(hn::Twice<decltype(two)>(),
                         hn::Combine(two, hn::LoadU(part, keys[3] + at), hn::LoadU(part, keys[2] + at)), low);
    }
  }
}

// Scores of kRows rows and kVectors vectors of keys, those from `first` on; behind the last key it is read again.
template <int kWidth, int kRows, int kVectors>
HWY_NOINLINE void score_keys(const HeadsDecode& p, int64_t head, int64_t first, const float* query, float* scores,
                             int64_t stride) {
  constexpr int64_t kKeys = kKeysAVector<kWidth>;
  const float* keys[kVectors * kKeys];
  for (int64_t n = 0; n < kVectors * kKeys; ++n)
    keys[n] = p.key + std::min(first + n, p.keys - 1) * p.size * p.heads + head;
  FV sum[kRows][kVectors];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(kF);
  }
  const int64_t row = p.size * kLanes;
  for (int64_t d = 0; d < p.size; ++d) {
    FV k[kVectors];
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) k[v] = load_keys<kWidth>(keys + v * kKeys, d * p.heads);
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const FV q = hn::Load(kF, query + r * row + d * kLanes);
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) sum[r][v] = fma(k[v], q, sum[r][v]);
    }
  }
  HWY_UNROLL(4)
  for (int v = 0; v < kVectors; ++v) {
    const int64_t at = first + v * kKeys;
    const auto there = hn::FirstN(kF, static_cast<size_t>(std::clamp<int64_t>(p.keys - at, 0, kKeys) * kWidth));
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      hn::Store(hn::IfThenElse(there, sum[r][v], all(kMinusInfinity)), kF, scores + r * stride + at * kWidth);
    }
  }
}

// Four vectors at a time for one or two rows, two for more: eight to ten sums run side by side.
template <int kWidth, int kRows>
HWY_INLINE void score_rows(const HeadsDecode& p, int64_t head, const float* query, const HeadsScratch& s,
                           float* scores) {
  constexpr int64_t kKeys = kKeysAVector<kWidth>;
  const int64_t stride = s.vectors * kLanes;
  int64_t v = 0;
  if constexpr (kRows <= 2) {
    for (; v + 4 <= s.vectors; v += 4) score_keys<kWidth, kRows, 4>(p, head, v * kKeys, query, scores, stride);
  }
  for (; v < s.vectors; v += 2) score_keys<kWidth, kRows, 2>(p, head, v * kKeys, query, scores, stride);
}

// The largest of the lanes of each head, in all of them.
template <int kWidth>
HWY_INLINE FV largest_by_head(FV most) {
  if constexpr (kWidth == kLanes) return most;
  HWY_ALIGN float lanes[kLanes];
  hn::Store(most, kF, lanes);
  for (int64_t h = 0; h < kWidth; ++h) {
    float largest = lanes[h];
    for (int64_t n = kWidth; n < kLanes; n += kWidth) largest = lanes[n + h] > largest ? lanes[n + h] : largest;
    for (int64_t n = 0; n < kLanes; n += kWidth) lanes[n + h] = largest;
  }
  return hn::Load(kF, lanes);
}

// Scores become weights exp(score - largest); `factors`: what makes a sum of them with values an output, by head.
template <int kWidth>
HWY_INLINE void weigh_keys(const HeadsDecode& p, float* scores, int64_t vectors, float* factors) {
  FV most = all(kMinusInfinity);
  for (int64_t v = 0; v < vectors; ++v) most = larger(hn::Load(kF, scores + v * kLanes), most);
  const FV largest = largest_by_head<kWidth>(most);
  const FV from = origin(hn::IfThenElse(hn::Gt(largest, all(kMinusInfinity)), largest, all(kMinusInfinity)));
  for (int64_t v = 0; v < vectors; ++v) {
    hn::Store(weight_of(hn::Sub(hn::Load(kF, scores + v * kLanes), from)), kF, scores + v * kLanes);
  }
  const hn::CappedTag<float, kWidth> heads;
  auto sum = hn::Zero(heads);
  for (int64_t j = 0; j < p.keys; ++j) sum = hn::Add(sum, hn::Load(heads, scores + j * kWidth));
  const auto none = hn::Eq(sum, hn::Zero(heads));
  hn::Store(hn::IfThenZeroElse(none, hn::Div(hn::Set(heads, 1.0f), sum)), heads, factors);
}

// kVectors vectors of the outputs of kHeads heads from `head` on, of those whose weights are `weights`.
template <int kWidth, int kHeads, int kVectors>
HWY_INLINE void add_values(const HeadsDecode& p, const float* weights, const float* factors, int64_t head,
                           int64_t column, float* out) {
  FV sum[kHeads][kVectors];
  HWY_UNROLL(4)
  for (int h = 0; h < kHeads; ++h) {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) sum[h][v] = hn::Zero(kF);
  }
  const int64_t row = p.heads * p.value_size;
  const float* value = p.value + head * p.value_size + column;
  for (int64_t j = 0; j < p.keys; ++j, value += row) {
    HWY_UNROLL(4)
    for (int h = 0; h < kHeads; ++h) {
      const FV weight = all(weights[j * kWidth + h]);
      HWY_UNROLL(8)
      for (int v = 0; v < kVectors; ++v)
        sum[h][v] = fma(weight, hn::LoadU(kF, value + h * p.value_size + v * kLanes), sum[h][v]);
    }
  }
  HWY_UNROLL(4)
  for (int h = 0; h < kHeads; ++h) {
    float* const to = out + h * p.group * p.output_head + column;
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) hn::StoreU(canonical(hn::Mul(sum[h][v], all(factors[h]))), kF, to + v * kLanes);
  }
}

template <int kWidth, int kVectors>
HWY_INLINE void add_columns_of_values(const HeadsDecode& p, const float* weights, const float* factors, int64_t head,
                                      int64_t& column, float* out) {
  constexpr int kHeads = kVectors == 8 ? 1 : kVectors == 4 ? 2 : 4;
  for (; column + kVectors * kLanes <= p.value_size; column += kVectors * kLanes) {
    for (int h = 0; h < kWidth; h += kHeads) {
      add_values<kWidth, kHeads, kVectors>(p, weights + h, factors + h, head + h, column,
                                           out + h * p.group * p.output_head);
    }
  }
}

void prefetch_lines(const float* from, int64_t floats) {
  if (from == nullptr) return;
  for (int64_t n = 0; n < floats; n += 16) __builtin_prefetch(from + n, 0, 2);
}

// See interleave_heads(): 4 x 4 blocks.
void run_interleave_heads(const float* rows, int64_t head, int64_t heads, int64_t size, float* to) {
  for (int64_t h = 0; h < heads; h += 4) {
    for (int64_t d = 0; d < size; d += 4) {
      const float* const from = rows + h * head + d;
      const auto a = hn::LoadU(kQuad, from), b = hn::LoadU(kQuad, from + head);
      const auto c = hn::LoadU(kQuad, from + 2 * head), e = hn::LoadU(kQuad, from + 3 * head);
      const auto ac_low = hn::InterleaveLower(kQuad, a, c), be_low = hn::InterleaveLower(kQuad, b, e);
      const auto ac_high = hn::InterleaveUpper(kQuad, a, c), be_high = hn::InterleaveUpper(kQuad, b, e);
      float* const row = to + d * heads + h;
      hn::StoreU(hn::InterleaveLower(kQuad, ac_low, be_low), kQuad, row);
      hn::StoreU(hn::InterleaveUpper(kQuad, ac_low, be_low), kQuad, row + heads);
      hn::StoreU(hn::InterleaveLower(kQuad, ac_high, be_high), kQuad, row + 2 * heads);
      hn::StoreU(hn::InterleaveUpper(kQuad, ac_high, be_high), kQuad, row + 3 * heads);
    }
  }
}

// kWidth heads from `head` on.
template <int kWidth>
void decode_heads(const HeadsDecode& p, int64_t head, const HeadsScratch& s) {
  const int64_t rows = p.queries * p.group;
  const auto row_of = [&](int64_t r) { return r / p.group * p.query_row + r % p.group * p.query_head; };
  for (int64_t r = 0; r < rows; ++r) {
    run_interleave_heads(p.query + head * p.group * p.query_head + row_of(r), p.group * p.query_head, kWidth, p.size,
                         s.turned);
    float* to = s.query + r * p.size * kLanes;
    for (int64_t d = 0; d < p.size; ++d) {
      const hn::CappedTag<float, kWidth> heads;
      const auto scaled = hn::Mul(hn::Load(heads, s.turned + d * kWidth), hn::Set(heads, p.scale));
      for (int64_t n = 0; n < kLanes; n += kWidth, to += kWidth) hn::Store(scaled, heads, to);
    }
  }
  int64_t r = 0;
  const auto take = [&]<int kRows>() HWY_ATTR {
    for (; rows - r >= kRows; r += kRows) {
      score_rows<kWidth, kRows>(p, head, s.query + r * p.size * kLanes, s, s.scores + r * s.vectors * kLanes);
    }
  };
  take.template operator()<5>();
  take.template operator()<2>();
  take.template operator()<1>();
  for (r = 0; r < rows; ++r) {
    HWY_ALIGN float factors[kWidth];
    float* const weights = s.scores + r * s.vectors * kLanes;
    weigh_keys<kWidth>(p, weights, s.vectors, factors);
    float* const out = p.output + r / p.group * p.output_row + (head * p.group + r % p.group) * p.output_head;
    int64_t column = 0;
    add_columns_of_values<kWidth, 8>(p, weights, factors, head, column, out);
    add_columns_of_values<kWidth, 4>(p, weights, factors, head, column, out);
    add_columns_of_values<kWidth, 2>(p, weights, factors, head, column, out);
    add_columns_of_values<kWidth, 1>(p, weights, factors, head, column, out);
  }
}

constexpr int width_of(int64_t heads) {
  if (kLanes >= 16 && heads % 16 == 0) return 16;
  return kLanes >= 8 && heads % 8 == 0 ? 8 : 4;
}

// Scores are computed two vectors at a time at least.
int64_t vectors_of(const HeadsDecode& p) {
  const int64_t keys = 2 * kLanes / width_of(p.heads);
  return (p.keys + keys - 1) / keys * 2;
}

int64_t run_heads_decode_scratch(const HeadsDecode& p) {
  return kLanes * (p.size + p.queries * p.group * (p.size + vectors_of(p)));
}

void run_decode_all_heads(const HeadsDecode& p, float* scratch) {
  HeadsScratch s;
  s.vectors = vectors_of(p);
  s.turned = scratch;
  s.query = s.turned + p.size * kLanes;
  s.scores = s.query + p.queries * p.group * p.size * kLanes;
  prefetch_lines(p.next_key, p.keys * p.heads * p.size);
  prefetch_lines(p.next_value, p.keys * p.heads * p.value_size);
  const int width = width_of(p.heads);
  for (int64_t head = 0; head < p.heads; head += width) {
    if constexpr (kLanes >= 16) {
      if (width == 16) decode_heads<16>(p, head, s);
    }
    if constexpr (kLanes >= 8) {
      if (width == 8) decode_heads<8>(p, head, s);
    }
    if (width == 4) decode_heads<4>(p, head, s);
  }
}

bool run_fits_heads_decode(int64_t heads, int64_t size, int64_t value_size) {
  return heads > 0 && heads % 4 == 0 && size > 0 && size % 4 == 0 && value_size > 0 && value_size % kLanes == 0;
}
#else
bool run_fits_heads_decode(int64_t, int64_t, int64_t) { return false; }
int64_t run_heads_decode_scratch(const HeadsDecode&) { return 0; }
void run_decode_all_heads(const HeadsDecode&, float*) {}
void run_interleave_heads(const float* rows, int64_t head, int64_t heads, int64_t size, float* to) {
  for (int64_t d = 0; d < size; ++d)
    for (int64_t h = 0; h < heads; ++h) to[d * heads + h] = rows[h * head + d];
}
#endif

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(run_fits_heads_decode);
HWY_EXPORT(run_heads_decode_scratch);
HWY_EXPORT(run_decode_all_heads);
HWY_EXPORT(run_interleave_heads);

bool fits_heads_decode(int64_t heads, int64_t size, int64_t value_size) {
  dispatch_ready();
  return HWY_DYNAMIC_DISPATCH(run_fits_heads_decode)(heads, size, value_size);
}

int64_t heads_decode_scratch(const HeadsDecode& problem) {
  dispatch_ready();
  return HWY_DYNAMIC_DISPATCH(run_heads_decode_scratch)(problem);
}

void decode_all_heads(const HeadsDecode& problem, float* scratch) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_decode_all_heads)(problem, scratch);
}

void interleave_heads(const float* rows, int64_t head, int64_t heads, int64_t size, float* to) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_interleave_heads)(rows, head, heads, size, to);
}

}  // namespace heed::kernels
#endif
