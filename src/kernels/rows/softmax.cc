// Softmax and cross entropy, a row at a time: maximum, exponentials and their sum, result.
#include "kernels/rows/softmax.h"

#include <algorithm>
#include <limits>

#include "base/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows/softmax.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd/math-inl.h"
#include "kernels/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Rows of 16 whose exponentials are computed in step.
constexpr int kInStep = HWY_TARGET <= HWY_AVX3 ? 4 : 1;

template <int kCount>
HWY_INLINE void Exp16(Row16 (&x)[kCount]) {
  F32Vector v[kCount * kParts];
#pragma GCC unroll 8
  for (int n = 0; n < kCount * kParts; ++n) v[n] = x[n / kParts].part[n % kParts];
  ExpInStep(F32(), v);
#pragma GCC unroll 8
  for (int n = 0; n < kCount * kParts; ++n) x[n / kParts].part[n % kParts] = v[n];
}

// x = e^(x - shift)
template <int kCount>
HWY_INLINE void ExpDifferences(Row16 (&x)[kCount], float shift) {
  const auto s = hn::Set(F32(), shift);
#pragma GCC unroll 8
  for (int n = 0; n < kCount; ++n) x[n] = Map16([&](F32Vector v) { return hn::Sub(v, s); }, x[n]);
  Exp16(x);
}
HWY_INLINE Row16 ExpDifference(const Row16& x, float shift) {
  Row16 one[1] = {x};
  ExpDifferences(one, shift);
  return one[0];
}

HWY_INLINE Row16 Add16(const Row16& a, const Row16& b) {
  return Map16([](F32Vector x, F32Vector y) { return hn::Add(x, y); }, a, b);
}

HWY_INLINE float LogOf(float x) { return hn::GetLane(Log(F32(), hn::Set(F32(), x))); }

// The largest element, not NaN; -inf for none. NaN shows in the sum of exponentials.
HWY_INLINE float RowMaximum(const float* x, int64_t columns) {
  const auto larger = [](F32Vector a, F32Vector b) { return Larger(a, b); };
  Row16 most[4] = {Set16(-kInfinity), Set16(-kInfinity), Set16(-kInfinity), Set16(-kInfinity)};
  int64_t j = 0;
  for (; j + 64 <= columns; j += 64) {
#pragma GCC unroll 4
    for (int n = 0; n < 4; ++n) most[n] = Map16(larger, most[n], Load16(x + j + 16 * n));
  }
  for (; j + 16 <= columns; j += 16) most[0] = Map16(larger, most[0], Load16(x + j));
  if (j < columns) most[0] = Map16(larger, most[0], LoadFirst16(x + j, columns - j, -kInfinity));
  return Max16(Map16(larger, Map16(larger, most[0], most[1]), Map16(larger, most[2], most[3])));
}

// What is subtracted before exp: the maximum, or 0 where nothing is above -inf.
HWY_INLINE float Shift(float maximum) { return maximum == -kInfinity ? 0.0f : maximum; }

// The sums over a row of e^(x - shift), and of x - shift where kDifferences.
struct RowSums {
  float exp, difference;
};
template <bool kDifferences>
HWY_INLINE RowSums SumRow(const float* x, int64_t columns, float shift) {
  Row16 sum = Set16(0.0f), difference = Set16(0.0f);
  const auto add = [&](F32Vector a, F32Vector b) { return hn::Add(a, hn::Sub(b, hn::Set(F32(), shift))); };
  const auto take = [&](Row16 at) {
    if (kDifferences) difference = Map16(add, difference, at);
    sum = Add16(sum, ExpDifference(at, shift));
  };
  int64_t j = 0;
  for (; j + 16 * kInStep <= columns; j += 16 * kInStep) {
    Row16 at[kInStep];
#pragma GCC unroll 4
    for (int n = 0; n < kInStep; ++n) {
      at[n] = Load16(x + j + 16 * n);
      __builtin_prefetch(x + columns + j + 16 * n);  // the next row, while this one, in the cache now, is computed
      if (kDifferences) difference = Map16(add, difference, at[n]);
    }
    ExpDifferences(at, shift);
#pragma GCC unroll 4
    for (int n = 0; n < kInStep; ++n) sum = Add16(sum, at[n]);
  }
  for (; j + 16 <= columns; j += 16) take(Load16(x + j));
  if (j < columns) {
    sum = Add16(sum, ExpDifference(LoadFirst16(x + j, columns - j, -kInfinity), shift));
    if (kDifferences) difference = Map16(add, difference, LoadFirst16(x + j, columns - j, shift));
  }
  return {Sum16(sum), kDifferences ? Sum16(difference) : 0.0f};
}

// f(Row16...) -> Row16 over a row, written to out.
template <class F, class... In>
HWY_INLINE void MapRow16(int64_t columns, float* out, F&& f, const In*... in) {
  int64_t j = 0;
  for (; j + 16 <= columns; j += 16) Store16(f(Load16(in + j)...), out + j);
  if (j < columns) StoreFirst16(f(LoadFirst16(in + j, columns - j)...), out + j, columns - j);
}

template <class F>
HWY_INLINE void ForRows(int64_t rows, int64_t columns, F&& f) {
  parallel_for(rows, std::max<int64_t>(1, 4096 / std::max<int64_t>(1, columns)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}

void RunSoftmax(const float* x, float* out, int64_t rows, int64_t columns) {
  ForRows(rows, columns, [&](int64_t i) {
    const float* const row = x + i * columns;
    float* const to = out + i * columns;
    const float shift = Shift(RowMaximum(row, columns));
    Row16 sum = Set16(0.0f);
    int64_t j = 0;
    for (; j + 16 <= columns; j += 16) {
      const Row16 e = ExpDifference(Load16(row + j), shift);
      Store16(e, to + j);
      sum = Add16(sum, e);
    }
    if (j < columns) {
      const Row16 e = ExpDifference(LoadFirst16(row + j, columns - j, -kInfinity), shift);
      StoreFirst16(e, to + j, columns - j);
      sum = Add16(sum, e);
    }
    const float total = Sum16(sum);
    const auto inverse = hn::Set(F32(), total == 0.0f ? 0.0f : 1.0f / total);
    MapRow16(
        columns, to, [&](const Row16& e) { return Map16([&](F32Vector v) { return hn::Mul(v, inverse); }, e); }, to);
  });
}

void RunSoftmaxBackward(const float* d_output, const float* output, float* out, int64_t rows, int64_t columns) {
  ForRows(rows, columns, [&](int64_t i) {
    const float* const dy = d_output + i * columns;
    const float* const y = output + i * columns;
    Row16 sum = Set16(0.0f);
    const auto fma = [](F32Vector a, F32Vector b, F32Vector c) { return Fma(a, b, c); };
    int64_t j = 0;
    for (; j + 16 <= columns; j += 16) sum = Map16(fma, Load16(dy + j), Load16(y + j), sum);
    if (j < columns) sum = Map16(fma, LoadFirst16(dy + j, columns - j), LoadFirst16(y + j, columns - j), sum);
    const auto dot = hn::Set(F32(), Sum16(sum));
    MapRow16(
        columns, out + i * columns,
        [&](const Row16& a, const Row16& b) {
          return Map16([&](F32Vector d, F32Vector p) { return hn::Mul(p, hn::Sub(d, dot)); }, a, b);
        },
        dy, y);
  });
}

void RunLogSoftmax(const float* x, float* out, int64_t rows, int64_t columns) {
  ForRows(rows, columns, [&](int64_t i) {
    const float* const row = x + i * columns;
    const float shift = Shift(RowMaximum(row, columns));
    const float sum = SumRow<false>(row, columns, shift).exp;
    const auto s = hn::Set(F32(), shift), log = hn::Set(F32(), sum == 0.0f ? 0.0f : LogOf(sum));
    MapRow16(
        columns, out + i * columns,
        [&](const Row16& a) { return Map16([&](F32Vector v) { return hn::Sub(hn::Sub(v, s), log); }, a); }, row);
  });
}

void RunLogSoftmaxBackward(const float* d_output, const float* output, float* out, int64_t rows, int64_t columns) {
  ForRows(rows, columns, [&](int64_t i) {
    const float* const dy = d_output + i * columns;
    Row16 sum = Set16(0.0f);
    int64_t j = 0;
    for (; j + 16 <= columns; j += 16) sum = Add16(sum, Load16(dy + j));
    if (j < columns) sum = Add16(sum, LoadFirst16(dy + j, columns - j));
    const auto total = hn::Set(F32(), Sum16(sum));
    MapRow16(
        columns, out + i * columns,
        [&](const Row16& a, const Row16& b) {
          return Map16([&](F32Vector d, F32Vector y) { return FmaNegated(Exp(F32(), y), total, d); }, a, b);
        },
        dy, output + i * columns);
  });
}

void RunCrossEntropy(const kernels::CrossEntropy& c, float* losses, float* logsumexp) {
  ForRows(c.rows, c.columns, [&](int64_t i) {
    const float* const row = c.logits + i * c.columns;
    const float shift = Shift(RowMaximum(row, c.columns));
    const RowSums sums =
        c.smoothing == 0.0f ? SumRow<false>(row, c.columns, shift) : SumRow<true>(row, c.columns, shift);
    const float log = LogOf(sums.exp);
    logsumexp[i] = shift + log;
    const int64_t target = c.targets[i];
    if (target == c.ignored) {
      losses[i] = 0.0f;
      return;
    }
    // Differences from the maximum first: the logits may be large, their differences are what counts.
    const float wanted = log - (row[target] - shift);
    const float mean = log - sums.difference / static_cast<float>(c.columns);
    losses[i] = c.smoothing == 0.0f ? wanted : (1.0f - c.smoothing) * wanted + c.smoothing * mean;
  });
}

void RunCrossEntropyBackward(const kernels::CrossEntropy& c, const float* logsumexp, float factor, float* out) {
  const auto f = hn::Set(F32(), factor);
  const auto uniform = hn::Set(F32(), c.smoothing / static_cast<float>(c.columns));
  ForRows(c.rows, c.columns, [&](int64_t i) {
    float* const to = out + i * c.columns;
    const int64_t target = c.targets[i];
    if (target == c.ignored) {
      std::fill(to, to + c.columns, 0.0f);
      return;
    }
    const float* const row = c.logits + i * c.columns;
    const auto gradient = [&](const Row16& p) {
      return Map16([&](F32Vector x) { return hn::Mul(hn::Sub(x, uniform), f); }, p);
    };
    int64_t j = 0;
    for (; j + 16 * kInStep <= c.columns; j += 16 * kInStep) {
      Row16 at[kInStep];
#pragma GCC unroll 4
      for (int n = 0; n < kInStep; ++n) at[n] = Load16(row + j + 16 * n);
      ExpDifferences(at, logsumexp[i]);
#pragma GCC unroll 4
      for (int n = 0; n < kInStep; ++n) Store16(gradient(at[n]), to + j + 16 * n);
    }
    MapRow16(
        c.columns - j, to + j, [&](const Row16& a) { return gradient(ExpDifference(a, logsumexp[i])); }, row + j);
    to[target] -= (1.0f - c.smoothing) * factor;
  });
}

// Of a pair of rows of logits, some columns: log-probabilities' difference and both probabilities.
struct PairColumns {
  Row16 first, second, difference;  // p, q, log p - log q
  HWY_INLINE PairColumns(const Row16& a, const Row16& b, float shift_a, float shift_b) {
    const auto sa = hn::Set(F32(), shift_a), sb = hn::Set(F32(), shift_b);
    Row16 x[2] = {Map16([&](F32Vector v) { return hn::Sub(v, sa); }, a),
                  Map16([&](F32Vector v) { return hn::Sub(v, sb); }, b)};
    difference = Map16([](F32Vector u, F32Vector v) { return hn::Sub(u, v); }, x[0], x[1]);
    Exp16(x);
    first = x[0];
    second = x[1];
  }
};

// p * d, where 0 * infinity is 0: what has no probability does not count.
HWY_INLINE F32Vector Weighted(F32Vector p, F32Vector d) {
  return hn::IfThenElse(hn::Eq(p, hn::Zero(F32())), p, hn::Mul(p, d));
}

void RunDivergences(const kernels::CrossEntropy& c, const float* logsumexp, float* divergences) {
  const int64_t pairs = c.rows / 2;
  ForRows(pairs, 2 * c.columns, [&](int64_t i) {
    const int64_t other = i + pairs;
    divergences[i] = divergences[other] = 0.0f;
    if (c.targets[i] == c.ignored) return;
    const float* const a = c.logits + i * c.columns;
    const float* const b = c.logits + other * c.columns;
    Row16 first = Set16(0.0f), second = Set16(0.0f);
    const auto add = [&](const Row16& x, const Row16& y) {
      const PairColumns at(x, y, logsumexp[i], logsumexp[other]);
      first = Map16([](F32Vector s, F32Vector p, F32Vector d) { return hn::Add(s, Weighted(p, d)); }, first, at.first,
                    at.difference);
      second = Map16([](F32Vector s, F32Vector q, F32Vector d) { return hn::Sub(s, Weighted(q, d)); }, second,
                     at.second, at.difference);
    };
    int64_t j = 0;
    for (; j + 16 <= c.columns; j += 16) add(Load16(a + j), Load16(b + j));
    if (j < c.columns)
      add(LoadFirst16(a + j, c.columns - j, -kInfinity), LoadFirst16(b + j, c.columns - j, -kInfinity));
    divergences[i] = Sum16(first);
    divergences[other] = Sum16(second);
  });
}

// With p and q the probabilities of the two rows and r = consistency / 2, the gradient of the first row is that of the
// cross entropy and r * (p * (log p - log q - KL(p || q)) + p - q).
void RunPairedCrossEntropyBackward(const kernels::CrossEntropy& c, const float* logsumexp, const float* divergences,
                                   float factor, float* out) {
  const int64_t pairs = c.rows / 2;
  const auto f = hn::Set(F32(), factor), r = hn::Set(F32(), 0.5f * c.consistency);
  const auto uniform = hn::Set(F32(), c.smoothing / static_cast<float>(c.columns));
  ForRows(pairs, 2 * c.columns, [&](int64_t i) {
    const int64_t other = i + pairs;
    float* const to_a = out + i * c.columns;
    float* const to_b = out + other * c.columns;
    const int64_t target = c.targets[i];
    if (target == c.ignored) {
      std::fill(to_a, to_a + c.columns, 0.0f);
      std::fill(to_b, to_b + c.columns, 0.0f);
      return;
    }
    const float* const a = c.logits + i * c.columns;
    const float* const b = c.logits + other * c.columns;
    const auto gradient = [&](const Row16& p, const Row16& q, const Row16& difference, float sign, float divergence) {
      const auto s = hn::Set(F32(), sign), mean = hn::Set(F32(), divergence);
      return Map16(
          [&](F32Vector x, F32Vector y, F32Vector d) {
            const auto apart = hn::Sub(hn::Mul(s, d), mean);
            const auto pull = hn::Add(Weighted(x, apart), hn::Sub(x, y));
            return hn::Mul(Fma(r, pull, hn::Sub(x, uniform)), f);
          },
          p, q, difference);
    };
    const auto both = [&](const Row16& x, const Row16& y, Row16& d_x, Row16& d_y) {
      const PairColumns at(x, y, logsumexp[i], logsumexp[other]);
      d_x = gradient(at.first, at.second, at.difference, 1.0f, divergences[i]);
      d_y = gradient(at.second, at.first, at.difference, -1.0f, divergences[other]);
    };
    Row16 d_a, d_b;
    int64_t j = 0;
    for (; j + 16 <= c.columns; j += 16) {
      both(Load16(a + j), Load16(b + j), d_a, d_b);
      Store16(d_a, to_a + j);
      Store16(d_b, to_b + j);
    }
    if (j < c.columns) {
      both(LoadFirst16(a + j, c.columns - j), LoadFirst16(b + j, c.columns - j), d_a, d_b);
      StoreFirst16(d_a, to_a + j, c.columns - j);
      StoreFirst16(d_b, to_b + j, c.columns - j);
    }
    to_a[target] -= (1.0f - c.smoothing) * factor;
    to_b[target] -= (1.0f - c.smoothing) * factor;
  });
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(RunSoftmax);
HWY_EXPORT(RunSoftmaxBackward);
HWY_EXPORT(RunLogSoftmax);
HWY_EXPORT(RunLogSoftmaxBackward);
HWY_EXPORT(RunCrossEntropy);
HWY_EXPORT(RunCrossEntropyBackward);
HWY_EXPORT(RunDivergences);
HWY_EXPORT(RunPairedCrossEntropyBackward);

void softmax(const float* x, float* out, int64_t rows, int64_t columns) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(RunSoftmax)(x, out, rows, columns);
}
void softmax_backward(const float* d_output, const float* output, float* out, int64_t rows, int64_t columns) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(RunSoftmaxBackward)(d_output, output, out, rows, columns);
}
void log_softmax(const float* x, float* out, int64_t rows, int64_t columns) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(RunLogSoftmax)(x, out, rows, columns);
}
void log_softmax_backward(const float* d_output, const float* output, float* out, int64_t rows, int64_t columns) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(RunLogSoftmaxBackward)(d_output, output, out, rows, columns);
}
void cross_entropy(const CrossEntropy& c, float* losses, float* logsumexp) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(RunCrossEntropy)(c, losses, logsumexp);
}
void divergences(const CrossEntropy& c, const float* logsumexp, float* divergences) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(RunDivergences)(c, logsumexp, divergences);
}
void cross_entropy_backward(const CrossEntropy& c, const float* logsumexp, const float* divergences, float factor,
                            float* out) {
  dispatch_ready();
  if (c.consistency > 0.0f) {
    HWY_DYNAMIC_DISPATCH(RunPairedCrossEntropyBackward)(c, logsumexp, divergences, factor, out);
  } else {
    HWY_DYNAMIC_DISPATCH(RunCrossEntropyBackward)(c, logsumexp, factor, out);
  }
}

}  // namespace heed::kernels
#endif
