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
constexpr int kRowsInStep = HWY_TARGET <= HWY_AVX3 ? 4 : 1;

template <int kCount>
HWY_INLINE void exp16(Row16 (&x)[kCount]) {
  FV v[kCount * kParts];
#pragma GCC unroll 8
  for (int n = 0; n < kCount * kParts; ++n) v[n] = x[n / kParts].part[n % kParts];
  full_exps(F(), v);
#pragma GCC unroll 8
  for (int n = 0; n < kCount * kParts; ++n) x[n / kParts].part[n % kParts] = v[n];
}

// x = e^(x - shift)
template <int kCount>
HWY_INLINE void exp_differences(Row16 (&x)[kCount], float shift) {
  const auto s = hn::Set(F(), shift);
#pragma GCC unroll 8
  for (int n = 0; n < kCount; ++n) x[n] = map16([&](FV v) { return hn::Sub(v, s); }, x[n]);
  exp16(x);
}
HWY_INLINE Row16 exp_difference(const Row16& x, float shift) {
  Row16 one[1] = {x};
  exp_differences(one, shift);
  return one[0];
}

HWY_INLINE Row16 add16(const Row16& a, const Row16& b) {
  return map16([](FV x, FV y) { return hn::Add(x, y); }, a, b);
}

HWY_INLINE float log_of(float x) { return hn::GetLane(full_log(F(), hn::Set(F(), x))); }

// The largest element, not NaN; -inf for none. NaN shows in the sum of exponentials.
HWY_INLINE float row_maximum(const float* x, int64_t columns) {
  const auto larger = [](FV a, FV b) { return larger_else_first(a, b); };
  Row16 most[4] = {set16(-kInfinity), set16(-kInfinity), set16(-kInfinity), set16(-kInfinity)};
  int64_t j = 0;
  for (; j + 64 <= columns; j += 64) {
#pragma GCC unroll 4
    for (int n = 0; n < 4; ++n) most[n] = map16(larger, most[n], load16(x + j + 16 * n));
  }
  for (; j + 16 <= columns; j += 16) most[0] = map16(larger, most[0], load16(x + j));
  if (j < columns) most[0] = map16(larger, most[0], load_first16(x + j, columns - j, -kInfinity));
  return max16(map16(larger, map16(larger, most[0], most[1]), map16(larger, most[2], most[3])));
}

// What is subtracted before exp: the maximum, or 0 where nothing is above -inf.
HWY_INLINE float shift_for(float maximum) { return maximum == -kInfinity ? 0.0f : maximum; }

// The sums over a row of e^(x - shift), and of x - shift where kDifferences.
struct RowSums {
  float exp, difference;
};
template <bool kDifferences>
HWY_INLINE RowSums sum_row(const float* x, int64_t columns, float shift) {
  Row16 sum = set16(0.0f), difference = set16(0.0f);
  const auto add = [&](FV a, FV b) { return hn::Add(a, hn::Sub(b, hn::Set(F(), shift))); };
  const auto take = [&](Row16 at) {
    if (kDifferences) difference = map16(add, difference, at);
    sum = add16(sum, exp_difference(at, shift));
  };
  int64_t j = 0;
  for (; j + 16 * kRowsInStep <= columns; j += 16 * kRowsInStep) {
    Row16 at[kRowsInStep];
#pragma GCC unroll 4
    for (int n = 0; n < kRowsInStep; ++n) {
      at[n] = load16(x + j + 16 * n);
      __builtin_prefetch(x + columns + j + 16 * n);  // the next row, while this one, in the cache now, is computed
      if (kDifferences) difference = map16(add, difference, at[n]);
    }
    exp_differences(at, shift);
#pragma GCC unroll 4
    for (int n = 0; n < kRowsInStep; ++n) sum = add16(sum, at[n]);
  }
  for (; j + 16 <= columns; j += 16) take(load16(x + j));
  if (j < columns) {
    sum = add16(sum, exp_difference(load_first16(x + j, columns - j, -kInfinity), shift));
    if (kDifferences) difference = map16(add, difference, load_first16(x + j, columns - j, shift));
  }
  return {sum16(sum), kDifferences ? sum16(difference) : 0.0f};
}

// f(Row16...) -> Row16 over a row, written to out.
template <class Function, class... In>
HWY_INLINE void map_row16(int64_t columns, float* out, Function&& f, const In*... in) {
  int64_t j = 0;
  for (; j + 16 <= columns; j += 16) store16(f(load16(in + j)...), out + j);
  if (j < columns) store_first16(f(load_first16(in + j, columns - j)...), out + j, columns - j);
}

template <class Function>
HWY_INLINE void for_rows(int64_t rows, int64_t columns, Function&& f) {
  parallel_for(rows, std::max<int64_t>(1, 4096 / std::max<int64_t>(1, columns)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}

void run_softmax(const float* x, float* out, int64_t rows, int64_t columns) {
  for_rows(rows, columns, [&](int64_t i) {
    const float* const row = x + i * columns;
    float* const to = out + i * columns;
    const float shift = shift_for(row_maximum(row, columns));
    Row16 sum = set16(0.0f);
    int64_t j = 0;
    for (; j + 16 <= columns; j += 16) {
      const Row16 e = exp_difference(load16(row + j), shift);
      store16(e, to + j);
      sum = add16(sum, e);
    }
    if (j < columns) {
      const Row16 e = exp_difference(load_first16(row + j, columns - j, -kInfinity), shift);
      store_first16(e, to + j, columns - j);
      sum = add16(sum, e);
    }
    const float total = sum16(sum);
    const auto inverse = hn::Set(F(), total == 0.0f ? 0.0f : 1.0f / total);
    map_row16(
        columns, to, [&](const Row16& e) { return map16([&](FV v) { return hn::Mul(v, inverse); }, e); }, to);
  });
}

void run_softmax_backward(const float* d_output, const float* output, float* out, int64_t rows, int64_t columns) {
  for_rows(rows, columns, [&](int64_t i) {
    const float* const dy = d_output + i * columns;
    const float* const y = output + i * columns;
    Row16 sum = set16(0.0f);
    const auto multiply_add = [](FV a, FV b, FV c) { return fma(a, b, c); };
    int64_t j = 0;
    for (; j + 16 <= columns; j += 16) sum = map16(multiply_add, load16(dy + j), load16(y + j), sum);
    if (j < columns)
      sum = map16(multiply_add, load_first16(dy + j, columns - j), load_first16(y + j, columns - j), sum);
    const auto dot = hn::Set(F(), sum16(sum));
    map_row16(
        columns, out + i * columns,
        [&](const Row16& a, const Row16& b) {
          return map16([&](FV d, FV p) { return hn::Mul(p, hn::Sub(d, dot)); }, a, b);
        },
        dy, y);
  });
}

void run_log_softmax(const float* x, float* out, int64_t rows, int64_t columns) {
  for_rows(rows, columns, [&](int64_t i) {
    const float* const row = x + i * columns;
    const float shift = shift_for(row_maximum(row, columns));
    const float sum = sum_row<false>(row, columns, shift).exp;
    const auto s = hn::Set(F(), shift), log = hn::Set(F(), sum == 0.0f ? 0.0f : log_of(sum));
    map_row16(
        columns, out + i * columns,
        [&](const Row16& a) { return map16([&](FV v) { return hn::Sub(hn::Sub(v, s), log); }, a); }, row);
  });
}

void run_log_softmax_backward(const float* d_output, const float* output, float* out, int64_t rows, int64_t columns) {
  for_rows(rows, columns, [&](int64_t i) {
    const float* const dy = d_output + i * columns;
    Row16 sum = set16(0.0f);
    int64_t j = 0;
    for (; j + 16 <= columns; j += 16) sum = add16(sum, load16(dy + j));
    if (j < columns) sum = add16(sum, load_first16(dy + j, columns - j));
    const auto total = hn::Set(F(), sum16(sum));
    map_row16(
        columns, out + i * columns,
        [&](const Row16& a, const Row16& b) {
          return map16([&](FV d, FV y) { return fma_negated(full_exp(F(), y), total, d); }, a, b);
        },
        dy, output + i * columns);
  });
}

void run_logsumexp(const float* x, float* out, int64_t rows, int64_t columns) {
  for_rows(rows, columns, [&](int64_t i) {
    const float* const row = x + i * columns;
    const float shift = shift_for(row_maximum(row, columns));
    const float sum = sum_row<false>(row, columns, shift).exp;
    out[i] = sum == 0.0f ? -kInfinity : shift + log_of(sum);
  });
}

void run_cross_entropy(const kernels::CrossEntropy& c, float* losses, float* logsumexp) {
  for_rows(c.rows, c.columns, [&](int64_t i) {
    const float* const row = c.logits + i * c.columns;
    const float shift = shift_for(row_maximum(row, c.columns));
    const RowSums sums =
        c.smoothing == 0.0f ? sum_row<false>(row, c.columns, shift) : sum_row<true>(row, c.columns, shift);
    const float log = log_of(sums.exp);
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

void run_cross_entropy_backward(const kernels::CrossEntropy& c, const float* logsumexp, float factor, float* out) {
  const auto f = hn::Set(F(), factor);
  const auto uniform = hn::Set(F(), c.smoothing / static_cast<float>(c.columns));
  for_rows(c.rows, c.columns, [&](int64_t i) {
    float* const to = out + i * c.columns;
    const int64_t target = c.targets[i];
    if (target == c.ignored) {
      std::fill(to, to + c.columns, 0.0f);
      return;
    }
    const float* const row = c.logits + i * c.columns;
    const auto gradient = [&](const Row16& p) {
      return map16([&](FV x) { return hn::Mul(hn::Sub(x, uniform), f); }, p);
    };
    int64_t j = 0;
    for (; j + 16 * kRowsInStep <= c.columns; j += 16 * kRowsInStep) {
      Row16 at[kRowsInStep];
#pragma GCC unroll 4
      for (int n = 0; n < kRowsInStep; ++n) at[n] = load16(row + j + 16 * n);
      exp_differences(at, logsumexp[i]);
#pragma GCC unroll 4
      for (int n = 0; n < kRowsInStep; ++n) store16(gradient(at[n]), to + j + 16 * n);
    }
    map_row16(
        c.columns - j, to + j, [&](const Row16& a) { return gradient(exp_difference(a, logsumexp[i])); }, row + j);
    to[target] -= (1.0f - c.smoothing) * factor;
  });
}

// Of a pair of rows of logits, some columns: log-probabilities' difference and both probabilities.
struct PairColumns {
  Row16 first, second, difference;  // p, q, log p - log q
  HWY_INLINE PairColumns(const Row16& a, const Row16& b, float shift_a, float shift_b) {
    const auto sa = hn::Set(F(), shift_a), sb = hn::Set(F(), shift_b);
    Row16 x[2] = {map16([&](FV v) { return hn::Sub(v, sa); }, a), map16([&](FV v) { return hn::Sub(v, sb); }, b)};
    difference = map16([](FV u, FV v) { return hn::Sub(u, v); }, x[0], x[1]);
    exp16(x);
    first = x[0];
    second = x[1];
  }
};

// p * d, where 0 * infinity is 0: what has no probability does not count.
HWY_INLINE FV weighted(FV p, FV d) { return hn::IfThenElse(hn::Eq(p, hn::Zero(F())), p, hn::Mul(p, d)); }

void run_divergences(const kernels::CrossEntropy& c, const float* logsumexp, float* divergences) {
  const int64_t pairs = c.rows / 2;
  for_rows(pairs, 2 * c.columns, [&](int64_t i) {
    const int64_t other = i + pairs;
    divergences[i] = divergences[other] = 0.0f;
    if (c.targets[i] == c.ignored) return;
    const float* const a = c.logits + i * c.columns;
    const float* const b = c.logits + other * c.columns;
    Row16 first = set16(0.0f), second = set16(0.0f);
    const auto add = [&](const Row16& x, const Row16& y) {
      const PairColumns at(x, y, logsumexp[i], logsumexp[other]);
      first = map16([](FV s, FV p, FV d) { return hn::Add(s, weighted(p, d)); }, first, at.first, at.difference);
      second = map16([](FV s, FV q, FV d) { return hn::Sub(s, weighted(q, d)); }, second, at.second, at.difference);
    };
    int64_t j = 0;
    for (; j + 16 <= c.columns; j += 16) add(load16(a + j), load16(b + j));
    if (j < c.columns)
      add(load_first16(a + j, c.columns - j, -kInfinity), load_first16(b + j, c.columns - j, -kInfinity));
    divergences[i] = sum16(first);
    divergences[other] = sum16(second);
  });
}

// With p and q the probabilities of the two rows and r = consistency / 2, the gradient of the first row is that of the
// cross entropy and r * (p * (log p - log q - KL(p || q)) + p - q).
void run_paired_cross_entropy_backward(const kernels::CrossEntropy& c, const float* logsumexp, const float* divergences,
                                       float factor, float* out) {
  const int64_t pairs = c.rows / 2;
  const auto f = hn::Set(F(), factor), r = hn::Set(F(), 0.5f * c.consistency);
  const auto uniform = hn::Set(F(), c.smoothing / static_cast<float>(c.columns));
  for_rows(pairs, 2 * c.columns, [&](int64_t i) {
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
      const auto s = hn::Set(F(), sign), mean = hn::Set(F(), divergence);
      return map16(
          [&](FV x, FV y, FV d) {
            const auto apart = hn::Sub(hn::Mul(s, d), mean);
            const auto pull = hn::Add(weighted(x, apart), hn::Sub(x, y));
            return hn::Mul(fma(r, pull, hn::Sub(x, uniform)), f);
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
      both(load16(a + j), load16(b + j), d_a, d_b);
      store16(d_a, to_a + j);
      store16(d_b, to_b + j);
    }
    if (j < c.columns) {
      both(load_first16(a + j, c.columns - j), load_first16(b + j, c.columns - j), d_a, d_b);
      store_first16(d_a, to_a + j, c.columns - j);
      store_first16(d_b, to_b + j, c.columns - j);
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

HWY_EXPORT(run_softmax);
HWY_EXPORT(run_softmax_backward);
HWY_EXPORT(run_log_softmax);
HWY_EXPORT(run_log_softmax_backward);
HWY_EXPORT(run_logsumexp);
HWY_EXPORT(run_cross_entropy);
HWY_EXPORT(run_cross_entropy_backward);
HWY_EXPORT(run_divergences);
HWY_EXPORT(run_paired_cross_entropy_backward);

void softmax(const float* x, float* out, int64_t rows, int64_t columns) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_softmax)(x, out, rows, columns);
}
void softmax_backward(const float* d_output, const float* output, float* out, int64_t rows, int64_t columns) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_softmax_backward)(d_output, output, out, rows, columns);
}
void log_softmax(const float* x, float* out, int64_t rows, int64_t columns) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_log_softmax)(x, out, rows, columns);
}
void log_softmax_backward(const float* d_output, const float* output, float* out, int64_t rows, int64_t columns) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_log_softmax_backward)(d_output, output, out, rows, columns);
}
void logsumexp(const float* x, float* out, int64_t rows, int64_t columns) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_logsumexp)(x, out, rows, columns);
}
void cross_entropy(const CrossEntropy& c, float* losses, float* logsumexp) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_cross_entropy)(c, losses, logsumexp);
}
void divergences(const CrossEntropy& c, const float* logsumexp, float* divergences) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_divergences)(c, logsumexp, divergences);
}
void cross_entropy_backward(const CrossEntropy& c, const float* logsumexp, const float* divergences, float factor,
                            float* out) {
  dispatch_ready();
  if (c.consistency > 0.0f) {
    HWY_DYNAMIC_DISPATCH(run_paired_cross_entropy_backward)(c, logsumexp, divergences, factor, out);
  } else {
    HWY_DYNAMIC_DISPATCH(run_cross_entropy_backward)(c, logsumexp, factor, out);
  }
}

}  // namespace heed::kernels
#endif
