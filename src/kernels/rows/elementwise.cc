// Elementwise kernels, on every target the same operations an element.
#include "kernels/rows/elementwise.h"

#include <algorithm>
#include <cmath>

#include "base/memory.h"
#include "base/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows/elementwise.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/rows/activations-inl.h"
#include "kernels/rows/dropout-inl.h"
#include "kernels/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

constexpr int64_t kGrain = 16384;  // elements below which a second thread costs more than it brings

// f(load, store, offset, count) over [begin, end), a vector at a time; the last with fewer lanes.
template <class Function>
HWY_INLINE void for_vectors(int64_t begin, int64_t end, Function&& f) {
  const F d;
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    f([&](const float* p) { return hn::LoadU(d, p + i); }, [&](FV v, float* p) { hn::StoreU(v, d, p + i); });
  }
  if (i < end) {
    f([&](const float* p) { return load_first(p + i, end - i); },
      [&](FV v, float* p) { store_first(v, p + i, end - i); });
  }
}

template <class Function>
HWY_INLINE void parallel_vectors(int64_t count, Function&& f) {
  parallel_for(count, kGrain, [&](int64_t begin, int64_t end) { for_vectors(begin, end, f); });
}

template <class Function>
HWY_INLINE void binary_rows(const float* a, const float* b, float* out, int64_t outer, int64_t inner, Function&& f) {
  if (outer == 1) {
    parallel_vectors(inner, [&](auto&& load, auto&& store) { store(f(load(a), load(b)), out); });
    return;
  }
  parallel_for(outer, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, inner)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float* const row = a + i * inner;
      float* const to = out + i * inner;
      for_vectors(0, inner, [&](auto&& load, auto&& store) { store(f(load(row), load(b)), to); });
    }
  });
}

void run_binary(kernels::Binary op, const float* a, const float* b, float* out, int64_t outer, int64_t inner) {
  switch (op) {
    case kernels::Binary::add: return binary_rows(a, b, out, outer, inner, [](FV x, FV y) { return hn::Add(x, y); });
    case kernels::Binary::sub: return binary_rows(a, b, out, outer, inner, [](FV x, FV y) { return hn::Sub(x, y); });
    case kernels::Binary::mul: return binary_rows(a, b, out, outer, inner, [](FV x, FV y) { return hn::Mul(x, y); });
  }
}

void run_scale(const float* x, float factor, float* out, int64_t count) {
  const auto f = hn::Set(F(), factor);
  parallel_vectors(count, [&](auto&& load, auto&& store) { store(hn::Mul(load(x), f), out); });
}

void run_axpy(float* out, float factor, const float* x, int64_t count) {
  const auto f = hn::Set(F(), factor);
  parallel_vectors(count, [&](auto&& load, auto&& store) { store(fma(f, load(x), load(out)), out); });
}

template <class Function>
void map_activation(const float* x, float* out, int64_t count) {
  parallel_vectors(count, [&](auto&& load, auto&& store) { store(Function::value(F(), load(x)), out); });
}

void run_activate(const float* x, float* out, int64_t count, Activation activation) {
  with_activation(activation, [&](auto function) { map_activation<decltype(function)>(x, out, count); });
}

template <class Function>
void map_slope(const float* d_output, const float* saved, float* out, int64_t count) {
  parallel_vectors(count, [&](auto&& load, auto&& store) {
    store(hn::Mul(load(d_output), Function::slope(F(), load(saved))), out);
  });
}

void run_activate_backward(const float* d_output, const float* saved, float* out, int64_t count,
                           Activation activation) {
  with_activation(activation, [&](auto function) { map_slope<decltype(function)>(d_output, saved, out, count); });
}

void run_dropout(const float* x, const float* residual, float* out, int64_t count, const ops::Dropout& dropout) {
  const DropoutStream stream(dropout);
  constexpr int64_t kChunk = 1024;
  parallel_for((count + kChunk - 1) / kChunk, 8, [&](int64_t begin, int64_t end) {
    float factors[kChunk];
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t first = chunk * kChunk, some = std::min(kChunk, count - first);
      dropout_factors(stream, first, some, factors);
      const float* const from = x + first;
      float* const to = out + first;
      if (residual == nullptr) {
        for_vectors(0, some, [&](auto&& load, auto&& store) { store(drop(load(from), load(factors)), to); });
      } else {
        const float* const r = residual + first;
        for_vectors(0, some,
                    [&](auto&& load, auto&& store) { store(hn::Add(load(r), drop(load(from), load(factors))), to); });
      }
    }
  });
}

// By squaring: std::pow may differ from one C library to the next.
double power(double base, int64_t exponent) {
  double result = 1.0;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result *= base;
    base *= base;
  }
  return result;
}

void run_adam(const kernels::AdamArrays& a, const ops::AdamStepOptions& o) {
  const F d;
  const double correction1 = 1.0 - power(o.beta1, o.step);
  const double correction2 = 1.0 - power(o.beta2, o.step);
  const auto rate = hn::Set(d, static_cast<float>(static_cast<double>(o.learning_rate) / correction1));
  const auto root = hn::Set(d, static_cast<float>(1.0 / std::sqrt(correction2)));
  const auto epsilon = hn::Set(d, o.epsilon);
  const auto beta1 = hn::Set(d, o.beta1), rest1 = hn::Set(d, 1.0f - o.beta1);
  const auto beta2 = hn::Set(d, o.beta2), rest2 = hn::Set(d, 1.0f - o.beta2);
  const auto decay = hn::Set(d, o.learning_rate * o.weight_decay);
  const auto scale = hn::Set(d, o.gradient_scale);
  parallel_vectors(a.count, [&](auto&& load, auto&& store) {
    const auto gradient = hn::Mul(load(a.gradient), scale);
    const auto first = fma(beta1, load(a.first), hn::Mul(rest1, gradient));
    const auto second = fma(beta2, load(a.second), hn::Mul(rest2, hn::Mul(gradient, gradient)));
    store(first, a.first);
    store(second, a.second);
    const auto before = load(a.parameter);
    const auto decayed = fma_negated(decay, before, before);
    const auto denominator = fma(hn::Sqrt(second), root, epsilon);
    store(fma_negated(rate, hn::Div(first, denominator), decayed), a.parameter);
    if (o.zero_gradient) store(hn::Zero(d), a.gradient);
  });
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(run_binary);
HWY_EXPORT(run_scale);
HWY_EXPORT(run_axpy);
HWY_EXPORT(run_activate);
HWY_EXPORT(run_activate_backward);
HWY_EXPORT(run_dropout);
HWY_EXPORT(run_adam);

void binary(Binary op, const float* a, const float* b, float* out, int64_t outer, int64_t inner) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_binary)(op, a, b, out, outer, inner);
}
void scale(const float* x, float factor, float* out, int64_t count) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_scale)(x, factor, out, count);
}
void axpy(float* out, float factor, const float* x, int64_t count) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_axpy)(out, factor, x, count);
}
void activate(const float* x, float* out, int64_t count, Activation activation) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_activate)(x, out, count, activation);
}
void activate_backward(const float* d_output, const float* saved, float* out, int64_t count, Activation activation) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_activate_backward)(d_output, saved, out, count, activation);
}
void dropout(const float* x, const float* residual, float* out, int64_t count, const ops::Dropout& dropout) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_dropout)(x, residual, out, count, dropout);
}
void adam(const AdamArrays& arrays, const ops::AdamStepOptions& options) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_adam)(arrays, options);
}

bool dropout_keeps(const ops::Dropout& dropout, int64_t index) {
  const uint64_t block = static_cast<uint64_t>(index) / 64, rest = static_cast<uint64_t>(index) % 64;
  return philox(dropout.seed, 0, block * 16 + rest % 16)[rest / 16] >= dropout_threshold(dropout.rate);
}

}  // namespace heed::kernels
#endif
