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

#include "kernels/rows/dropout-inl.h"
#include "kernels/simd/math-inl.h"
#include "kernels/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

constexpr int64_t kGrain = 16384;  // elements below which a second thread costs more than it brings

// f(load, store, offset, count) over [begin, end), a vector at a time; the last with fewer lanes.
template <class F>
HWY_INLINE void ForVectors(int64_t begin, int64_t end, F&& f) {
  const F32 d;
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    f([&](const float* p) { return hn::LoadU(d, p + i); }, [&](F32Vector v, float* p) { hn::StoreU(v, d, p + i); });
  }
  if (i < end) {
    f([&](const float* p) { return LoadFirst(p + i, end - i); },
      [&](F32Vector v, float* p) { StoreFirst(v, p + i, end - i); });
  }
}

template <class F>
HWY_INLINE void ParallelVectors(int64_t count, F&& f) {
  parallel_for(count, kGrain, [&](int64_t begin, int64_t end) { ForVectors(begin, end, f); });
}

template <class F>
HWY_INLINE void BinaryRows(const float* a, const float* b, float* out, int64_t outer, int64_t inner, F&& f) {
  if (outer == 1) {
    ParallelVectors(inner, [&](auto&& load, auto&& store) { store(f(load(a), load(b)), out); });
    return;
  }
  parallel_for(outer, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, inner)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float* const row = a + i * inner;
      float* const to = out + i * inner;
      ForVectors(0, inner, [&](auto&& load, auto&& store) { store(f(load(row), load(b)), to); });
    }
  });
}

void RunBinary(kernels::Binary op, const float* a, const float* b, float* out, int64_t outer, int64_t inner) {
  switch (op) {
    case kernels::Binary::add:
      return BinaryRows(a, b, out, outer, inner, [](F32Vector x, F32Vector y) { return hn::Add(x, y); });
    case kernels::Binary::sub:
      return BinaryRows(a, b, out, outer, inner, [](F32Vector x, F32Vector y) { return hn::Sub(x, y); });
    case kernels::Binary::mul:
      return BinaryRows(a, b, out, outer, inner, [](F32Vector x, F32Vector y) { return hn::Mul(x, y); });
  }
}

void RunScale(const float* x, float factor, float* out, int64_t count) {
  const auto f = hn::Set(F32(), factor);
  ParallelVectors(count, [&](auto&& load, auto&& store) { store(hn::Mul(load(x), f), out); });
}

void RunAxpy(float* out, float factor, const float* x, int64_t count) {
  const auto f = hn::Set(F32(), factor);
  ParallelVectors(count, [&](auto&& load, auto&& store) { store(Fma(f, load(x), load(out)), out); });
}

template <class Function>
void MapActivation(const float* x, float* out, int64_t count) {
  ParallelVectors(count, [&](auto&& load, auto&& store) { store(Function::Value(F32(), load(x)), out); });
}

void RunActivate(const float* x, float* out, int64_t count, Activation activation) {
  switch (activation) {
    case Activation::none: return RunScale(x, 1.0f, out, count);
    case Activation::relu: return MapActivation<ReluFunction>(x, out, count);
    case Activation::gelu: return MapActivation<GeluFunction>(x, out, count);
    case Activation::gelu_tanh: return MapActivation<GeluTanhFunction>(x, out, count);
    case Activation::silu: return MapActivation<SiluFunction>(x, out, count);
  }
}

template <class Function>
void MapSlope(const float* d_output, const float* saved, float* out, int64_t count) {
  ParallelVectors(count, [&](auto&& load, auto&& store) {
    store(hn::Mul(load(d_output), Function::Slope(F32(), load(saved))), out);
  });
}

void RunActivateBackward(const float* d_output, const float* saved, float* out, int64_t count, Activation activation) {
  switch (activation) {
    case Activation::none: return RunScale(d_output, 1.0f, out, count);
    case Activation::relu: return MapSlope<ReluFunction>(d_output, saved, out, count);
    case Activation::gelu: return MapSlope<GeluFunction>(d_output, saved, out, count);
    case Activation::gelu_tanh: return MapSlope<GeluTanhFunction>(d_output, saved, out, count);
    case Activation::silu: return MapSlope<SiluFunction>(d_output, saved, out, count);
  }
}

void RunDropout(const float* x, const float* residual, float* out, int64_t count, const ops::Dropout& dropout) {
  const DropoutStream stream(dropout);
  constexpr int64_t kChunk = 1024;
  parallel_for((count + kChunk - 1) / kChunk, 8, [&](int64_t begin, int64_t end) {
    float factors[kChunk];
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t first = chunk * kChunk, some = std::min(kChunk, count - first);
      DropoutFactors(stream, first, some, factors);
      const float* const from = x + first;
      float* const to = out + first;
      if (residual == nullptr) {
        ForVectors(0, some, [&](auto&& load, auto&& store) { store(Drop(load(from), load(factors)), to); });
      } else {
        const float* const r = residual + first;
        ForVectors(0, some,
                   [&](auto&& load, auto&& store) { store(hn::Add(load(r), Drop(load(from), load(factors))), to); });
      }
    }
  });
}

// By squaring: std::pow may differ from one C library to the next.
double Power(double base, int64_t exponent) {
  double result = 1.0;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result *= base;
    base *= base;
  }
  return result;
}

void RunAdam(const kernels::AdamArrays& a, const ops::AdamStepOptions& o) {
  const F32 d;
  const double correction1 = 1.0 - Power(o.beta1, o.step);
  const double correction2 = 1.0 - Power(o.beta2, o.step);
  const auto rate = hn::Set(d, static_cast<float>(static_cast<double>(o.learning_rate) / correction1));
  const auto root = hn::Set(d, static_cast<float>(1.0 / std::sqrt(correction2)));
  const auto epsilon = hn::Set(d, o.epsilon);
  const auto beta1 = hn::Set(d, o.beta1), rest1 = hn::Set(d, 1.0f - o.beta1);
  const auto beta2 = hn::Set(d, o.beta2), rest2 = hn::Set(d, 1.0f - o.beta2);
  const auto decay = hn::Set(d, o.learning_rate * o.weight_decay);
  const auto scale = hn::Set(d, o.gradient_scale);
  ParallelVectors(a.count, [&](auto&& load, auto&& store) {
    const auto gradient = hn::Mul(load(a.gradient), scale);
    const auto first = Fma(beta1, load(a.first), hn::Mul(rest1, gradient));
    const auto second = Fma(beta2, load(a.second), hn::Mul(rest2, hn::Mul(gradient, gradient)));
    store(first, a.first);
    store(second, a.second);
    const auto before = load(a.parameter);
    const auto decayed = FmaNegated(decay, before, before);
    const auto denominator = Fma(hn::Sqrt(second), root, epsilon);
    store(FmaNegated(rate, hn::Div(first, denominator), decayed), a.parameter);
    if (o.zero_gradient) store(hn::Zero(d), a.gradient);
  });
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(RunBinary);
HWY_EXPORT(RunScale);
HWY_EXPORT(RunAxpy);
HWY_EXPORT(RunActivate);
HWY_EXPORT(RunActivateBackward);
HWY_EXPORT(RunDropout);
HWY_EXPORT(RunAdam);

void binary(Binary op, const float* a, const float* b, float* out, int64_t outer, int64_t inner) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(RunBinary)(op, a, b, out, outer, inner);
}
void scale(const float* x, float factor, float* out, int64_t count) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(RunScale)(x, factor, out, count);
}
void axpy(float* out, float factor, const float* x, int64_t count) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(RunAxpy)(out, factor, x, count);
}
void activate(const float* x, float* out, int64_t count, Activation activation) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(RunActivate)(x, out, count, activation);
}
void activate_backward(const float* d_output, const float* saved, float* out, int64_t count, Activation activation) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(RunActivateBackward)(d_output, saved, out, count, activation);
}
void dropout(const float* x, const float* residual, float* out, int64_t count, const ops::Dropout& dropout) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(RunDropout)(x, residual, out, count, dropout);
}
void adam(const AdamArrays& arrays, const ops::AdamStepOptions& options) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(RunAdam)(arrays, options);
}

bool dropout_keeps(const ops::Dropout& dropout, int64_t index) {
  const uint64_t block = static_cast<uint64_t>(index) / 64, rest = static_cast<uint64_t>(index) % 64;
  return philox(dropout.seed, 0, block * 16 + rest % 16)[rest / 16] >= dropout_threshold(dropout.rate);
}

}  // namespace heed::kernels
#endif
