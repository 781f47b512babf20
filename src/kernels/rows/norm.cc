// Layer normalisation, a row at a time while it is in L1; gradients of gain and bias by blocks of rows of a fixed
// number.
#include "kernels/rows/norm.h"

#include <algorithm>
#include <cmath>

#include "base/memory.h"
#include "base/threads.h"
#include "kernels/rows/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows/norm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/rows/dropout-inl.h"
#include "kernels/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// f(j, load, store): load(p) is Row16 at p + j, the missing lanes zero.
template <class Function>
HWY_INLINE void for_row(int64_t columns, Function&& f) {
  int64_t j = 0;
  for (; j + 16 <= columns; j += 16) {
    f(
        int64_t{16}, [&](const float* p) { return load16(p + j); },
        [&](const Row16& v, float* p) { store16(v, p + j); });
  }
  if (j < columns) {
    f(
        columns - j, [&](const float* p) { return load_first16(p + j, columns - j); },
        [&](const Row16& v, float* p) { store_first16(v, p + j, columns - j); });
  }
}

void run_norm_forward(const kernels::NormForward& n) {
  const DropoutStream stream(n.dropout);
  const float inverse_count = 1.0f / static_cast<float>(n.columns);
  const auto add = [](FV a, FV b) { return hn::Add(a, b); };
  const bool dropping = n.residual != nullptr && n.dropout.rate > 0.0f;
  parallel_for(n.rows, std::max<int64_t>(1, 8192 / n.columns), [&](int64_t begin, int64_t end) {
    const Buffer<float> factors(dropping ? n.columns : 1);
    for (int64_t i = begin; i < end; ++i) {
      const float* input = n.x + i * n.columns;
      Row16 total = set16(0.0f);
      if (n.residual != nullptr) {
        if (dropping) dropout_factors(stream, i * n.columns, n.columns, factors.data());
        const float* const residual = n.residual + i * n.columns;
        float* const sum = n.sum + i * n.columns;
        for_row(n.columns, [&](int64_t, auto&& load, auto&& store) {
          Row16 x = load(input);
          if (dropping) x = map16([](FV v, FV f) { return drop(v, f); }, x, load(factors.data()));
          x = map16(add, load(residual), x);
          store(x, sum);
          total = map16(add, total, x);
        });
        input = sum;
      } else if (n.centre) {
        for_row(n.columns, [&](int64_t, auto&& load, auto&&) { total = map16(add, total, load(input)); });
      }
      const float mean = n.centre ? sum16(total) * inverse_count : 0.0f;
      const auto m = hn::Set(F(), mean);
      Row16 squares = set16(0.0f);
      for_row(n.columns, [&](int64_t lanes, auto&& load, auto&&) {
        // Missing lanes must count as the mean, not as zero.
        Row16 x = load(input);
        x = map16([&](FV v) { return hn::Sub(v, m); }, x);
        if (lanes < 16) {
          for (int part = 0; part < kParts; ++part) {
            const auto valid = hn::FirstN(F(), static_cast<size_t>(lanes_of_part(lanes, part)));
            x.part[part] = hn::IfThenElseZero(valid, x.part[part]);
          }
        }
        squares = map16([](FV v, FV s) { return fma(v, v, s); }, x, squares);
      });
      const float rstd = 1.0f / std::sqrt(sum16(squares) * inverse_count + n.epsilon);
      if (n.mean != nullptr) n.mean[i] = mean;
      n.rstd[i] = rstd;
      const auto r = hn::Set(F(), rstd);
      float* const output = n.output + i * n.columns;
      for_row(n.columns, [&](int64_t, auto&& load, auto&& store) {
        const Row16 hat = map16([&](FV v) { return hn::Mul(hn::Sub(v, m), r); }, load(input));
        if (n.bias != nullptr) {
          store(map16([](FV v, FV g, FV b) { return fma(v, g, b); }, hat, load(n.gain), load(n.bias)), output);
        } else {
          store(map16([](FV v, FV g) { return hn::Mul(v, g); }, hat, load(n.gain)), output);
        }
      });
    }
  });
}

void run_norm_backward(const kernels::NormBackward& n) {
  const DropoutStream stream(n.dropout);
  const float inverse_count = 1.0f / static_cast<float>(n.columns);
  const auto multiply_add = [](FV a, FV b, FV c) { return fma(a, b, c); };
  const auto add = [](FV a, FV b) { return hn::Add(a, b); };
  const int64_t blocks = (n.rows + kernels::kBlockOfRows - 1) / kernels::kBlockOfRows;
  const bool dropping = n.d_dropped != nullptr;
  const Buffer<float> d_gains(std::max<int64_t>(1, blocks * n.columns));
  const Buffer<float> d_biases(std::max<int64_t>(1, blocks * n.columns));
  parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    const Buffer<float> factors(dropping ? n.columns : 1);
    for (int64_t block = begin; block < end; ++block) {
      float* const d_gain = d_gains.data() + block * n.columns;
      float* const d_bias = d_biases.data() + block * n.columns;
      std::fill(d_gain, d_gain + n.columns, 0.0f);
      std::fill(d_bias, d_bias + n.columns, 0.0f);
      const int64_t last = std::min(n.rows, (block + 1) * kernels::kBlockOfRows);
      for (int64_t i = block * kernels::kBlockOfRows; i < last; ++i) {
        const float* const dy = n.d_output + i * n.columns;
        const float* const x = n.input + i * n.columns;
        float* const dx = n.d_input + i * n.columns;
        const auto m = hn::Set(F(), n.mean != nullptr ? n.mean[i] : 0.0f), r = hn::Set(F(), n.rstd[i]);
        const auto normalised = [&](FV v) { return hn::Mul(hn::Sub(v, m), r); };
        Row16 sum = set16(0.0f), dot = set16(0.0f);
        for_row(n.columns, [&](int64_t, auto&& load, auto&& store) {
          const Row16 hat = map16(normalised, load(x));
          const Row16 d = load(dy);  // zero in missing lanes, so that nothing comes from them
          const Row16 g = map16([](FV a, FV b) { return hn::Mul(a, b); }, d, load(n.gain));
          sum = map16(add, sum, g);
          dot = map16(multiply_add, g, hat, dot);
          store(map16(multiply_add, d, hat, load(d_gain)), d_gain);
          store(map16(add, load(d_bias), d), d_bias);
        });
        const auto mean_g = hn::Set(F(), n.mean != nullptr ? sum16(sum) * inverse_count : 0.0f);
        const auto mean_dot = hn::Set(F(), sum16(dot) * inverse_count);
        if (dropping) dropout_factors(stream, i * n.columns, n.columns, factors.data());
        for_row(n.columns, [&](int64_t, auto&& load, auto&& store) {
          const Row16 result = map16(
              [&](FV v, FV d, FV gain) {
                return hn::Mul(fma_negated(normalised(v), mean_dot, hn::Sub(hn::Mul(d, gain), mean_g)), r);
              },
              load(x), load(dy), load(n.gain));
          store(result, dx);
          if (dropping) {
            store(map16([](FV v, FV f) { return drop(v, f); }, result, load(factors.data())),
                  n.d_dropped + i * n.columns);
          }
        });
      }
    }
  });
  if (n.d_gain != nullptr) kernels::add_partials(d_gains.data(), blocks, n.columns, 1.0f, n.d_gain);
  if (n.d_bias != nullptr) kernels::add_partials(d_biases.data(), blocks, n.columns, 1.0f, n.d_bias);
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(run_norm_forward);
HWY_EXPORT(run_norm_backward);

void norm_forward(const NormForward& n) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_norm_forward)(n);
}
void norm_backward(const NormBackward& n) {
  dispatch_ready();
  HWY_DYNAMIC_DISPATCH(run_norm_backward)(n);
}

}  // namespace heed::kernels
#endif
